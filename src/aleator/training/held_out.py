"""What held-out rows say about the expected loss: its scale, its limits, and whether it can be trusted.

The scale makes the mean expected loss of these rows their mean realised loss. No single row decides it: a loss counts
at most as much as the tail of the others makes plausible (`outliers.plausible_maximum`), and at most `MAX_SHARE` of the
sum of all, or twice its share if all losses above zero were equal.

The limits are what these rows support: an expected loss is at most the largest of their losses, and at least 1 /
`BELOW` of the smallest mean loss of a group of rows with about the same expected loss.

The check asks whether expected and realised loss agree group by group, and whether the expected loss is better than one
constant for all rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.linalg import norm

from aleator.array_types import Floats, Rows
from aleator.engine import DivergenceError
from aleator.preprocessing import outliers
from aleator.training.results import HeldOutPart

MAX_SHARE = 0.3  # of the sum of all losses may be the loss of one row,
MAX_TIMES_EQUAL = 2.0  # or so many times its share if all losses above zero were equal
ABOVE = 1.0  # an expected loss is at most so many times the largest loss of a held-out row, and at least
BELOW = 5.0  # the smallest mean loss of a group of held-out rows divided by this;
GROUPS = 50  # there are so many groups,
ROWS_OF_A_GROUP = 10  # of so many rows at least

QUANTIFIERS = ("network", "trees", "mixed", "linear", "constant")
REPLACEMENTS = {"linear": "a linear one", "constant": "one constant for all rows"}
TENTHS, ROWS_OF_A_TENTH = 10, 30  # groups for the check, and rows of each at least
TOO_FAR = 4.0  # times more or less than expected is wrong for a group,
STANDARD_ERRORS = 4.0  # if it is by so many standard errors,
MATTERS = 0.5  # and, where it is less, by this part of the mean loss of all rows
WORSE = 3.0  # standard errors by which the score must be worse than that of a constant
SHOWN = 5  # rows with implausible losses are named
LARGE_SHARE = 0.25  # of the sum of all losses: so much left out is reported
SCALE_STEPS = 30  # of the iteration for the scale


NO_BETTER = "it predicts the losses worse than one constant for all rows"


class UnreliableWarning(UserWarning):
    """A model failed its own check on held-out rows, or much of their loss was left out; see `check_`.

    Examples
    --------
    >>> import warnings
    >>> from aleator import UnreliableWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", UnreliableWarning)  # a fit that fails its check raises
    """


@dataclass(frozen=True)
class HeldOutLosses:
    """Realised and predicted losses (n, Q) of `rows`, by models that had not seen them, and the rows' weights (n,).

    `side` (n, Q) is 1 where the target was above the prediction, -1 below, and 0 if equal or unknown.
    """

    rows: Rows
    realised: Floats
    predicted: Floats
    weight: Floats
    side: Floats | None = None

    @property
    def scale(self) -> Floats:
        """The factor (Q,) for the predicted losses; an error if these have nothing to do with the realised ones."""
        scale = self.ratio
        if not self.is_near(1e10):
            raise DivergenceError(
                f"training failed: on held-out rows the loss is {scale.max():.1g} times what the quantifier predicts. "
                "Lower learning_rate, choose lam nearer to 1, or look for extreme sample weights."
            )
        return scale

    def is_near(self, factor: float) -> bool:
        """Whether mean realised and mean predicted loss are within this factor of each other."""
        return bool(((self.ratio >= 1 / factor) & (self.ratio <= factor)).all())

    @cached_property
    def plausible(self) -> Floats:
        """The realised losses (n, Q), clipped so that no single row decides the scale."""
        columns = [plausible_losses(L, self.weight) for L in self.realised.T]
        return np.column_stack(columns)

    @cached_property
    def ratio(self) -> Floats:
        """Mean realised over mean predicted loss (Q,), within the limits; 1 where it is undefined."""
        found = [
            _ratio(*column, self.weight)
            for column in zip(self.plausible.T, self.predicted.T, self.limits.T, strict=True)
        ]
        return np.array(found)

    @cached_property
    def limits(self) -> Floats:
        """The smallest and the largest expected loss (2, Q) that these rows support."""
        return np.column_stack(
            [_limits(L, p, self.weight) for L, p in zip(self.plausible.T, self.predicted.T, strict=True)]
        )

    @property
    def expected(self) -> Floats:
        """The predicted losses (n, Q) in their right scale, within the limits."""
        with np.errstate(over="ignore"):
            return np.clip(self.ratio * self.predicted, *self.limits)

    @property
    def score(self) -> float:
        """The mean of L / e + ln e, where e is the expected loss; smaller is better, and smallest at e = E L."""
        return float(np.average(self._row_scores(), weights=self.weight))

    def _row_scores(self) -> Floats:
        scores: Floats = _scores(self.plausible, self.expected).mean(axis=1)
        return scores

    def clearly_beats(self, other: "HeldOutLosses", standard_errors: float) -> bool:
        """Whether the score is better than that of another model of the same rows, by so many standard errors."""
        better, w = other._row_scores() - self._row_scores(), self.weight / self.weight.sum()
        mean = float(w @ better)
        return mean > standard_errors * float(norm(w * (better - mean), check_finite=False))

    def check(self) -> "Check":
        """Whether expected and realised loss agree group by group, and whether the expected loss beats a constant."""
        columns = zip(self.plausible.T, self.expected.T, strict=True)
        problems, groups, influence = zip(*(_checked(L, e, self.weight) for L, e in columns), strict=True)
        table = pd.concat(groups, keys=range(len(groups)), names=["output", None]).reset_index(level=0)
        return Check(problems, table.reset_index(drop=True), max(influence), *self._outliers())

    def _outliers(self) -> tuple[tuple[int, ...], float]:
        """Rows with implausibly large losses, the largest first, and the clipped share of the sum of all losses."""
        clipped = self.weight[:, None] * (self.realised - self.plausible)
        total = float((self.weight @ self.realised).sum())
        rows = np.argsort(-clipped.max(axis=1), kind="stable")[: int((clipped.max(axis=1) > 0).sum())]
        return tuple(int(row) for row in self.rows[rows[:SHOWN]]), float(clipped.sum() / total) if total > 0 else 0.0

    @property
    def mean(self) -> Floats:
        """The mean loss (Q,) of all rows."""
        mean: Floats = self.weight @ self.plausible / self.weight.sum()
        return mean

    @property
    def beats_constant(self) -> list[bool]:
        """For each output, whether the expected loss has a better score than the mean loss for all rows."""
        apart = _scores(self.plausible, self.expected) - _scores(
            self.plausible, np.broadcast_to(self.mean, self.expected.shape)
        )
        return [bool(better) for better in self.weight @ apart < 0]


@dataclass(frozen=True)
class Check:
    """The result of a model's check of its expected loss on held-out rows.

    Attributes
    ----------
    problems : tuple of str
        For each output what is wrong with the quantifier; "" if nothing is.
    groups : DataFrame
        Groups of rows with about the same expected loss, by output: rows, expected_loss, realised_loss.
    influence : float
        How much one row can change the scale, as a share.
    outliers : tuple of int
        Rows with losses far beyond what all others make plausible, the largest first, at most five.
    outlier_share : float
        The share of the sum of all losses that is implausible and left out.
    quantifier : str
        What predicts the expected loss: "network", "trees" or "mixed"; after a problem "linear" or "constant", if it
        has a better score. The constant is the mean loss of all rows.
    rejected : tuple of str
        The problems of the quantifiers that were replaced.
    """

    problems: tuple[str, ...]
    groups: pd.DataFrame
    influence: float
    outliers: tuple[int, ...] = ()
    outlier_share: float = 0.0
    quantifier: str = "network"
    rejected: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the quantifier was not replaced, has no problem, and little of the loss was left out."""
        replaced = self.quantifier in REPLACEMENTS
        return not replaced and not any(self.problems) and self.outlier_share < LARGE_SHARE

    @property
    def message(self) -> str:
        """What the user has to know; "" if there is nothing."""
        found = [text for text in (self._failure(), self._outliers()) if text]
        return " ".join([*found[:1], *(text[0].upper() + text[1:] for text in found[1:])])

    def _outliers(self) -> str:
        if self.outlier_share < LARGE_SHARE:
            return ""
        rows = ("row " if len(self.outliers) == 1 else "rows ") + ", ".join(map(str, self.outliers))
        return (
            f"a few losses are far beyond all others ({rows}): {self.outlier_share:.0%} of the sum of all losses was "
            "left out of the expected loss. If a target is wrong there, correct it and fit again: it also spoils the "
            "predictions of other rows."
        )

    def _failure(self) -> str:
        if self.quantifier not in REPLACEMENTS and not any(self.problems):
            return ""
        reason = next((problem for problem in (*self.rejected, *self.problems) if problem), "")
        whose = "the quantifier" if len(self.problems) == 1 else "the quantifier of an output"
        if self.quantifier == "constant" and reason == NO_BETTER:
            return (
                f"{whose} predicts the losses of held-out rows no better than one constant for all rows, which takes "
                "its place: the errors are about equally large everywhere, or the rows are too few to tell."
            )
        failed = f"{whose} failed its check on held-out rows: {reason}."
        if self.quantifier not in REPLACEMENTS:
            return f"{failed} Do not rely on its expected losses there."
        return f"{failed} It was replaced by {REPLACEMENTS[self.quantifier]}."


def held_out_losses(parts: Sequence[HeldOutPart], compare: Callable[[HeldOutPart], Floats]) -> HeldOutLosses | None:
    """All rows of the parts with their realised and predicted losses, and sides, by `compare`; None without parts."""
    if not parts:
        return None
    realised, predicted, *side = np.concatenate([compare(part) for part in parts], axis=1)
    rows, weight = [part.rows for part in parts], [part.data.weight[part.rows] for part in parts]
    return HeldOutLosses(np.concatenate(rows), realised, predicted, np.concatenate(weight), *side)


def plausible_losses(L: Floats, weight: Floats) -> Floats:
    """Losses (n,), clipped to what is plausible, so that none is more than a share of their sum."""
    L = np.minimum(L, outliers.plausible_maximum(L, weight))
    one = float(weight[weight > 0].min(initial=np.inf))  # of one observation: equal rows are merged, with one weight
    low, high = 0.0, float(L.max(initial=0.0))
    if not np.isfinite(one):
        return L
    losing = float(weight[L > 0].sum())
    most = max(MAX_SHARE, MAX_TIMES_EQUAL * one / losing) if losing > 0 else 1.0  # of few, each has a larger share
    if one * high <= most * float(weight @ L):
        return L
    for _ in range(60):  # the height at which the largest loss is this share of the sum
        height = 0.5 * (low + high)
        fits = one * height <= most * float(weight @ np.minimum(L, height))
        low, high = (height, high) if fits else (low, height)
    return np.minimum(L, low)


def _limits(L: Floats, predicted: Floats, weight: Floats) -> Floats:
    """The smallest and the largest expected loss that losses (n,) support; 0 and infinity if all are zero."""
    if not L.any():
        return np.array([0.0, np.inf])
    n_groups = max(1, min(GROUPS, len(L) // ROWS_OF_A_GROUP))
    groups = np.array_split(np.argsort(predicted, kind="stable"), n_groups)
    least = min(float(np.average(L[rows], weights=weight[rows])) for rows in groups)
    return np.array([least / BELOW, ABOVE * float(L.max())])


def _ratio(L: Floats, predicted: Floats, limits: Floats, weight: Floats) -> float:
    """The factor by which the predicted losses, clipped to the limits, get the mean of the realised ones."""
    predicted = np.minimum(predicted, outliers.plausible_maximum(predicted, weight))
    realised, mean = float(weight @ L), float(weight @ predicted)
    if not (realised > 0 and mean > 0 and np.isfinite(mean)):
        return 1.0
    ratio = realised / mean
    for _ in range(SCALE_STEPS):
        clipped = float(weight @ np.clip(ratio * predicted, *limits))
        if abs(clipped / realised - 1) < 1e-12:
            break
        ratio *= realised / clipped
    return ratio


def _scores(L: Floats, expected: Floats) -> Floats:
    """L / e + ln e; an expected loss of zero counts as 1e-300."""
    expected = np.maximum(expected, 1e-300)
    with np.errstate(over="ignore"):
        return L / expected + np.log(expected)


def _checked(L: Floats, expected: Floats, weight: Floats) -> tuple[str, pd.DataFrame, float]:
    """What is wrong with the expected losses, "" if nothing; groups of rows; the influence of one row on the scale."""
    n_groups = max(1, min(TENTHS, len(L) // ROWS_OF_A_TENTH))
    mean = float(np.average(L, weights=weight))
    tenths = np.array_split(np.argsort(expected, kind="stable"), n_groups)
    together = [np.concatenate(tenths[:k]) for k in range(2, n_groups)]  # rare losses show in many rows only
    found = [_compared(L, expected, weight, rows, mean) for rows in (*tenths, *together)]
    groups = [(len(rows), believed, realised) for rows, (believed, realised, _) in zip(tenths, found, strict=False)]
    problem = next((problem for _, _, problem in found if problem), "")
    difference = _scores(L, expected) - _scores(L, np.full_like(L, mean)) if mean > 0 else np.zeros_like(L)
    worse = float(np.average(difference, weights=weight))
    w = weight / weight.sum()
    error = float(norm(w * (difference - worse), check_finite=False))
    if worse > WORSE * error and worse > 0 and len(L) >= ROWS_OF_A_TENTH and not problem:
        problem = NO_BETTER
    change = np.abs(weight * (L - expected))
    influence = float(change.max() / (weight @ L)) if mean > 0 else 0.0
    return problem, pd.DataFrame(groups, columns=["rows", "expected_loss", "realised_loss"]), influence


def _compared(L: Floats, expected: Floats, weight: Floats, rows: Rows, mean: float) -> tuple[float, float, str]:
    """Mean expected and mean realised loss of some rows, and a message if they are clearly far apart."""
    w = weight[rows] / weight[rows].sum()
    realised, believed = float(w @ L[rows]), float(w @ expected[rows])
    error = float(norm(w * (L[rows] - realised), check_finite=False))
    apart = abs(realised - believed)
    far = realised > TOO_FAR * believed or (believed > TOO_FAR * realised and apart > MATTERS * mean)
    if far and apart > STANDARD_ERRORS * error and len(rows) >= ROWS_OF_A_TENTH:
        return (
            believed,
            realised,
            f"{len(rows)} rows are expected to lose {believed:.3g} on average, and lose {realised:.3g}",
        )
    return believed, realised, ""
