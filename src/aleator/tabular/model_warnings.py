"""Warnings: what makes a model, or its evaluation, less reliable than it looks."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from aleator.preprocessing import outliers
from aleator.tabular.evaluation import Evaluation
from aleator.tabular.formatting import percent

Floats = NDArray[np.float64]

FEW_ROWS = 200
FEW_TEST_ROWS = 50
COPIES = 0.05  # share of test rows that are copies of training rows
TOO_ALIKE = 0.999  # rank correlation of a column with the target
RATIO = (0.75, 1.33)  # ratio of expected to real loss that still counts as right
COVERAGE = (0.84, 0.97)  # of 90 % intervals
FAILS = 4.0  # a model is unreliable if its loss is this multiple of the expected loss,
DOUBT = 4.0  # by at least this many standard errors
CHANCE = 2.0  # differences of up to this many standard errors are attributed to sampling
DECIDE = 0.2  # share of the sum of all losses; more than this from implausible losses gives a warning
SHOWN_ROWS = 3


class UnreliableError(ArithmeticError):
    """A model whose expected losses do not hold on rows it has not seen."""


def warnings_of(X: pd.DataFrame, y: Floats, target: str, judged: Evaluation | None, estimator: Any = None) -> list[str]:
    """Warnings about the table and the model."""
    message = checked(estimator, X)
    found = [message] if message else []
    if len(y) < FEW_ROWS:
        found.append(f"The model learned from {len(y)} rows only; with fewer than {FEW_ROWS} expect surprises.")
    for name, column in X.items():
        found += [*_suspect(str(name), column, y, target), *_implausible(str(name), column)]
    if judged is None:
        return [*found, "No rows were left to judge the model by: nothing is known of its error on new rows."]
    return found + judged_warnings(judged)


def checked(estimator: Any, X: pd.DataFrame) -> str:
    """The message of the model's own check, with row numbers of the file; "" if it passed."""
    check = getattr(estimator, "check_", None)
    if check is None:
        return ""
    message = str(replace(check, outliers=tuple(X.index[list(check.outliers)])).message)
    return f"{message[0].upper()}{message[1:]}" if message else ""


def without_target(n: int, target: str) -> list[str]:
    """Rows that could not be used."""
    rows = "1 row has" if n == 1 else f"{n:,} rows have"
    return [f"{rows} no {target}, and {'was' if n == 1 else 'were'} left out."] if n else []


def judged_warnings(judged: Evaluation) -> list[str]:
    """Warnings that follow from the test rows."""
    measures = judged.measures()
    found = _outliers(judged)
    found += [] if verdict(measures).tone == "good" else [verdict(measures).text]
    if judged.learned > COPIES * len(judged.y):
        found.append(
            f"{judged.learned:,} of the {len(judged.y):,} rows it was judged by are equal to rows it learned from: on "
            "new rows it will do worse than all figures say."
        )
    if measures["rows"] >= FEW_TEST_ROWS and measures["error"] >= 0.98 * measures["error_of_a_constant"]:
        found.append("It predicts no better than the same value for every row: these columns say nothing.")
    return found


def _outliers(judged: Evaluation) -> list[str]:
    """Rows whose loss is implausibly large beside those of all others."""
    realised, credible = judged.realised, judged.credible
    beyond = np.flatnonzero(realised > credible)
    share = float((realised - credible).sum() / realised.sum()) if len(beyond) else 0.0
    if share < DECIDE:
        return []
    largest = beyond[np.argsort(-realised[beyond], kind="stable")][:SHOWN_ROWS]
    rows = ", ".join(str(judged.frame.index[k]) for k in largest)
    many = f"1 row, {rows}, has a loss" if len(beyond) == 1 else f"{len(beyond):,} rows, such as {rows}, have losses"
    return [
        f"Of the rows it was judged by, {many} far beyond all others, {percent(share)} of the sum of all losses: check "
        "the data. The ratio of expected and real loss does not count them."
    ]


def refuse_unreliable(judged: Evaluation | None) -> None:
    """Raise an error if the model expects significantly and far less than the real loss."""
    if judged is None or len(judged.y) < FEW_TEST_ROWS:
        return
    missed = judged.realised - judged.prediction.expected_loss
    expected, doubt = (
        float(np.mean(judged.prediction.expected_loss)),
        DOUBT * float(np.std(missed)) / len(missed) ** 0.5,
    )
    if float(np.mean(judged.realised)) <= FAILS * expected or float(np.mean(missed)) <= doubt:
        return
    raise UnreliableError(
        f"the model failed: on {len(judged.y):,} rows it has not seen, the losses it expects are "
        f"{judged.loss_ratio:.2g} times the real ones. Nothing was written. Are they unlike those it learned from?"
    )


@dataclass(frozen=True)
class Verdict:
    """Whether the expected losses are right: a word, a tone, and a sentence or two."""

    badge: str
    tone: str
    text: str


def verdict(measures: dict[str, Any]) -> Verdict:
    """Judge by expected over real loss and by the coverage of 90 % intervals."""
    n, ratio, covered = measures["rows"], measures["loss_ratio"], measures["coverage_90"]
    holds = f"Of its 90 % intervals, {percent(covered)} contain the true value."
    says = f"On average the losses it expects are {ratio:.2f} times the real ones. {holds}"
    if not np.isfinite(ratio):
        says = f"It predicts every one of these rows exactly, and expects losses. {holds}"
    if n < FEW_TEST_ROWS:
        few = f"{n} row{'s are' if n > 1 else ' is'} too few to tell whether its uncertainty is right."
        return Verdict("too few rows to say", "unsure", f"{few} {holds}")
    if covered >= COVERAGE[0] and not RATIO[0] <= ratio <= RATIO[1] and _may_be_chance(measures):
        chance = "So few of these rows have large losses that the difference may be chance."
        return Verdict("too few rows to say", "unsure", f"{says} {chance}")
    if ratio < RATIO[0] or covered < COVERAGE[0]:
        return Verdict("too sure of itself", "bad", f"{says} Take its certainty with care.")
    if ratio > RATIO[1] or covered > COVERAGE[1]:
        return Verdict("more careful than needed", "unsure", says)
    return Verdict("right on average", "good", says)


def _may_be_chance(measures: dict[str, Any]) -> bool:
    """Whether mean expected and mean real loss are within the standard error of the latter, or nearly so."""
    if "credible_loss_error" not in measures:  # files of earlier versions lack it
        return False
    expected = measures.get("credible_expected_loss", measures["expected_loss"])
    apart = abs(expected - measures["credible_loss"])
    return bool(apart < CHANCE * measures["credible_loss_error"])


def _implausible(name: str, column: "pd.Series[Any]") -> list[str]:
    """Warnings about cells that count as missing because they are far beyond all others."""
    if column.dtype.kind != "f":
        return []
    values = column.dropna().to_numpy(np.float64)
    low, high = outliers.plausible_cells(values)
    beyond = values[(values < low) | (values > high)]
    if not len(beyond):
        return []
    cells, count = ("1 cell", "counts") if len(beyond) == 1 else (f"{len(beyond):,} cells", "count")
    return [f"Column {name!r}: {cells} far beyond all others, such as {beyond[0]:g}, {count} as missing."]


def _suspect(name: str, column: "pd.Series[Any]", y: Floats, target: str) -> list[str]:
    """Warnings about leaks: a column that copies the target, or the number of the row."""
    if column.dtype.kind != "f":
        return []
    values = column.to_numpy(np.float64)
    present = ~np.isnan(values)
    if present.sum() < 10:
        return []
    if np.array_equal(values[present], y[present]):
        return [f"Column {name!r} equals {target!r}: if it is not known for new rows, exclude it."]
    if present.all() and np.ptp(values - column.index.to_numpy(np.float64)) == 0:  # the index holds row numbers
        return [f"Column {name!r} counts the rows: unless their order means something, exclude it."]
    ranks, ranks_y = rankdata(values[present]), rankdata(y[present])
    if np.ptp(ranks) == 0 or np.ptp(ranks_y) == 0:
        return []
    alike = abs(float(np.corrcoef(ranks, ranks_y)[0, 1]))
    if alike > TOO_ALIKE:
        return [f"Column {name!r} orders the rows exactly as {target!r} does: was it computed from it?"]
    return []
