"""The tables of section 8 from results: ours beside the paper's, whoever wins.

Bold, as in the paper: the best mean of its methods and all that are not significantly different from it by the
two-tailed paired t-test over the folds, p = 0.05; a method that lacks folds is neither. Methods that are not in the
paper's tables are marked so; a star says that such a one is significantly better than the best of the paper's. "off" is
the difference from the paper's mean, in standard errors of that difference: the folds of the paper are not known, so
even the same method differs by about one.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ttest_rel

from aleator.paper.compact_results import Results
from aleator.paper.protocol import COVERAGE, FOLDS, METHODS, PUBLISHED

SIGNIFICANT = 0.05
DIGITS = {"yacht": 3, "kin8nm": 4}  # decimals of errors; 2 for the others
PAPER_DIGITS = {"kin8nm": 3}
ERROR = {"rmse": "RMSE", "mae": "MAE"}


# ---------------------------------------------------------------- numbers


def cells(results: Results) -> pd.DataFrame:
    """One row a data set, objective and method: mean and standard deviation over folds, marks, and the paper's cell."""
    measures = results.measures
    table = []
    own = measures[~measures["sweep"]]
    seconds = results.seconds[own.index]
    for (dataset, objective), group in _groups(own, ["dataset", "objective"]):
        good = group[group["failed"] == ""]
        marks = {name: _marks(good.pivot(index="fold", columns="method", values=name)) for name in ("error", "auc")}
        for (method,), trials in _groups(group, ["method"]):
            paper = PUBLISHED[objective].get(dataset, {}).get(method, {})
            good = trials[trials["failed"] == ""]
            row: dict[str, Any] = {"dataset": dataset, "objective": objective, "method": method}
            row |= {"folds": len(trials), "succeeded": len(good), "failures": _failures(trials)}
            for name in ("error", "auc"):
                row |= {name: good[name].mean(), f"{name}_std": good[name].std()}
                row |= {f"{name}_mark": marks[name].get(method, "")}
                row |= {f"paper_{name}": paper.get(name), f"paper_{name}_std": paper.get(f"{name}_std")}
                row |= {
                    f"paper_{name}_bold": name in paper.get("bold", ()),
                    f"{name}_off": _off(good[name], paper, name),
                }
            row |= {"loss_ratio": good["expected"].sum() / good["realised"].sum() if len(good) else np.nan}
            row |= {name: good[name].mean() for name in ("nll", "crps", "coverage")}
            row |= {"fit_seconds": seconds[good.index].mean()}
            table.append(row)
    return pd.DataFrame(table)


def _groups(table: pd.DataFrame, by: list[str]) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """Parts of a table in the order of their first rows, with the names they have in common."""
    for names, part in table.groupby(by, sort=False):
        yield [str(name) for name in names], part


def _marks(folds: pd.DataFrame) -> dict[str, str]:
    """Which methods are bold, and which of ours are better than all of the paper's. `folds` (folds, methods)."""
    methods = [str(method) for method in folds if folds[method].notna().all()]
    theirs = [method for method in methods if not METHODS[method].ours]
    if not theirs:
        return {}
    best = str(folds[theirs].mean().idxmin())
    marks = {best: "bold"}
    for method in set(methods) - {best}:
        different = _p_value(folds[method], folds[best]) < SIGNIFICANT
        if method in theirs and not different and len(folds) > 1:
            marks[method] = "bold"
        if method not in theirs and different and folds[method].mean() < folds[best].mean():
            marks[method] = "star"
    return marks


def _p_value(a: "pd.Series[float]", b: "pd.Series[float]") -> float:
    """Two-tailed paired t-test; 1 with fewer than two folds. A difference that is always the same is sure."""
    difference = a - b
    if len(a) < 2 or (difference == 0).all():
        return 1.0
    if (difference == difference.iloc[0]).all():
        return 0.0
    return float(ttest_rel(a, b).pvalue)


def _off(ours: "pd.Series[float]", paper: dict[str, Any], name: str) -> float:
    """Difference from the paper's mean, in standard errors."""
    if f"{name}_std" not in paper or len(ours) < 2:
        return np.nan
    return float((ours.mean() - paper[name]) / np.sqrt(ours.var() / len(ours) + paper[f"{name}_std"] ** 2 / FOLDS))


def _failures(trials: pd.DataFrame) -> str:
    failed = trials[trials["failed"] != ""]
    return "; ".join(f"fold {fold}: {why}" for fold, why in zip(failed["fold"], failed["failed"], strict=True))


# ---------------------------------------------------------------- texts


@dataclass(frozen=True)
class Format:
    """How a table is written: bold, a star, the signs between mean and deviation, and the whole."""

    bold: Callable[[str], str]
    star: str
    between: str
    table: Callable[[str, list[str], list[list[str]]], str]


def _markdown(title: str, head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return f"**{title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _latex(title: str, head: list[str], rows: list[list[str]]) -> str:
    def escaped(text: str) -> str:
        return text.replace("%", r"\%").replace("_", r"\_")

    def line(cells: Iterable[str]) -> str:
        return " & ".join(escaped(cell) for cell in cells) + r" \\"

    body = [line(head), r"\midrule", *(line(row) for row in rows)]
    table = [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule", *body, r"\bottomrule", r"\end{tabular}"]
    caption = rf"\caption{{{escaped(title)}}}"
    return "\n".join([r"\begin{table}", r"\centering", *table, caption, r"\end{table}"]) + "\n"


MARKDOWN = Format(lambda text: f"**{text}**", " *", " ± ", _markdown)
LATEX = Format(lambda text: rf"\textbf{{{text}}}", "*", r"$\pm$", _latex)


LEGEND = """\
Mean ± standard deviation over folds; less is better. AUC: area under the error of what is left when the most uncertain
rows are dropped one after the other. Bold: the best of the paper's methods and those not significantly different from
it (paired t-test, p = 0.05; with few folds hardly anything is), in the paper's columns as printed there. off: the
difference from the paper's mean, in standard errors. A star: not in the paper, and significantly better than the best
that is.
"""


def errors(table: pd.DataFrame, form: Format = MARKDOWN) -> str:
    """Error and AUC, ours beside the paper's; a table for each objective and data set."""
    return _each(table, form, _error_head, _error_row)


def further(table: pd.DataFrame, form: Format = MARKDOWN) -> str:
    """Loss ratio, negative log-likelihood, CRPS and coverage."""
    head = ["", "loss ratio", "NLL", "CRPS", f"{COVERAGE:.0%} coverage"]
    return _each(table, form, lambda _: head, _further_row)


def against_best(table: pd.DataFrame, method: str = "ens_pair", form: Format = MARKDOWN) -> str:
    """A method beside the best cell of any method that the paper prints; bold where it is at or below."""
    head, rows = [""], []
    for (dataset,), group in _groups(table[table["method"] == method], ["dataset"]):
        cells = [dataset.capitalize()]
        for row in _rows(group):
            for name in ("error", "auc"):
                least = min(
                    cell[name] for cell in PUBLISHED[row["objective"]].get(dataset, {"": {name: np.nan}}).values()
                )
                text = f"{row[name]:.{DIGITS.get(dataset, 2)}f}"
                cells += [form.bold(text) if row[name] <= least else text, f"{least:g}"]
        rows.append(cells)
    for objective in dict.fromkeys(table["objective"]):
        head += [ERROR[objective], "paper's best", f"AUC of {ERROR[objective]}", "paper's best"]
    return form.table(f"{_label(method).capitalize()} beside the paper's best of all methods", head, rows)


def seconds(table: pd.DataFrame, form: Format = MARKDOWN) -> str:
    """Seconds of a fit, in one thread: a row a method, a column a data set and objective."""
    wide = table.pivot(index="method", columns=["objective", "dataset"], values="fit_seconds")
    wide = wide.reindex(list(dict.fromkeys(table["method"])))
    head = ["", *(f"{dataset}, {ERROR[objective]}" for objective, dataset in wide.columns.to_frame().to_numpy(str))]
    rows = [
        [_label(method), *(f"{value:.2f}" for value in row)]
        for method, row in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    return form.table("Seconds of a fit, mean over folds", head, rows)


def failures(table: pd.DataFrame) -> list[str]:
    """A line for each cell that lacks folds."""
    lines = []
    for row in _rows(table[table["succeeded"] < table["folds"]]):
        cell = f"{row['dataset']}, {ERROR[row['objective']]}, {_label(row['method'])}"
        lines.append(f"{cell}: {row['succeeded']}/{row['folds']}, {row['failures']}")
    return lines


def _each(table: pd.DataFrame, form: Format, head: Callable[[str], list[str]], row: Callable[..., list[str]]) -> str:
    texts = []
    for (objective, dataset), group in _groups(table, ["objective", "dataset"]):
        folds = int(group["folds"].max())
        title = f"{dataset.capitalize()}, {ERROR[objective]} ({folds} fold{'s' if folds > 1 else ''})"
        texts.append(form.table(title, head(objective), [row(each, form) for each in _rows(group)]))
    return "\n".join(texts)


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _error_head(objective: str) -> list[str]:
    return ["", ERROR[objective], "paper", "off", "AUC", "paper", "off"]


def _error_row(row: dict[str, Any], form: Format) -> list[str]:
    text = [_label(row["method"])]
    for name in ("error", "auc"):
        ours = _mean(row[name], row[f"{name}_std"], DIGITS.get(row["dataset"], 2), form)
        if row["succeeded"] < row["folds"]:
            ours += f" ({row['succeeded']}/{row['folds']})"
        marked = {"bold": form.bold(ours), "star": ours + form.star, "": ours}[row[f"{name}_mark"]]
        theirs = _mean(row[f"paper_{name}"], row[f"paper_{name}_std"], PAPER_DIGITS.get(row["dataset"], 2), form)
        off = row[f"{name}_off"]
        text += [
            marked,
            form.bold(theirs) if row[f"paper_{name}_bold"] else theirs,
            "" if pd.isna(off) else f"{off:+.1f}",
        ]
    return text


def _further_row(row: dict[str, Any], form: Format) -> list[str]:
    digits = DIGITS.get(row["dataset"], 2)
    numbers = f"{row['loss_ratio']:.2f}", f"{row['nll']:.3f}", f"{row['crps']:.{digits + 1}f}", f"{row['coverage']:.1%}"
    return [_label(row["method"]), *numbers]


def _mean(mean: float | None, std: float | None, digits: int, form: Format) -> str:
    if mean is None or pd.isna(mean):
        return ""
    return f"{mean:.{digits}f}" + ("" if std is None or pd.isna(std) else f"{form.between}{std:.{digits}f}")


def _label(method: str) -> str:
    return METHODS[method].label + (" (not in the paper)" if METHODS[method].ours else "")
