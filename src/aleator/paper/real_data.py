"""`aleator reproduce tables`: section 8 as asked for, from data sets to tables and figures in a folder.

DIR/records/        one file a job (`records.py`): what a rerun does not compute again
DIR/measures.csv.gz, seconds.csv.gz, curves.npz      the results in compact form (`compact_results.py`)
DIR/tables.md, .tex, .csv; further.md, .tex; seconds.md, best.md     (`real_data_tables.py`)
DIR/lam-rmse.png, curves-rmse.png, ...     (`real_data_figures.py`)
DIR/choices.csv     with tuned hyperparameters: what the search chose for each group of folds
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from aleator import atomic_write, datasets
from aleator.paper import compact_results, protocol, real_data_figures, real_data_tables
from aleator.paper.compact_results import Results
from aleator.paper.job_runner import run
from aleator.paper.parallel_backends import BACKENDS
from aleator.paper.protocol import METHODS, Trial, published_settings
from aleator.paper.records import Record, Store
from aleator.paper.tuning import TUNABLE, Search, group
from aleator.suggestions import suggestion

PAPERS = tuple(name for name, method in METHODS.items() if not method.ours)  # the methods of the paper's tables
DPI = 130
_FIGURES = [f"{kind}-{objective}" for kind in ("curves", "lam") for objective in protocol.OBJECTIVES]
OUTPUTS = (
    "choices.csv",
    "best.md",
    *(f"{name}.{end}" for name in _FIGURES for end in ("png", "svg")),
)  # not of every request


@dataclass(frozen=True)
class Request:
    """Which part of section 8, and how; the options of the command."""

    datasets: Sequence[str] = protocol.SETS
    methods: Sequence[str] = PAPERS
    objectives: Sequence[str] = tuple(protocol.OBJECTIVES)
    folds: int = protocol.FOLDS
    hyperparameters: str = "published"
    sweep: bool = True
    jobs: int | None = None
    backend: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        known = {
            "datasets": (self.datasets, datasets.NAMES),
            "methods": (self.methods, METHODS),
            "objectives": (self.objectives, protocol.OBJECTIVES),
            "hyperparameters": ([self.hyperparameters], ("published", "tuned")),
            "backend": ([self.backend], BACKENDS),
        }
        for what, (given, names) in known.items():
            if isinstance(given, str) or not given:
                raise ValueError(f"{what} must be a list of names, got {given!r}.")
            for name in given:
                if name not in names:
                    raise ValueError(f"{what}: there is no {name!r}{suggestion(str(name), names)}")
            if len(set(given)) < len(given):
                raise ValueError(f"{what}: a name is given twice: {', '.join(given)}.")
        for what, count in (("folds", self.folds), ("jobs", 1 if self.jobs is None else self.jobs)):
            if not (isinstance(count, int) and count >= 1):
                raise ValueError(f"{what} must be a whole number >= 1, got {count!r}.")


def reproduce(
    out: str | PathLike[str], request: Request | None = None, console: Console | None = None
) -> tuple[list[Path], list[str]]:
    """Compute what is missing and write everything; the files, and a line for each cell that lacks folds."""
    out, request, console = Path(out), request or Request(), console or Console(stderr=True)
    data = {name: datasets.load(name) for name in request.datasets}  # before anything is computed: all are there
    store = Store(out / "records", data)
    with BACKENDS[request.backend](data, request.jobs, request.address) as backend:
        choices: dict[Search, Record] = {}
        if request.hyperparameters == "tuned":
            searches = _searches(request, data)
            choices = dict(zip(searches, run(searches, store, backend, console), strict=True))
        trials, sweep = _trials(request, data, choices)
        records = run(trials, store, backend, console)
    found = compact_results.of(trials, records, sweep, data)
    table, written = real_data_tables.cells(found), found.write(out)
    written += [*(_choices(out, choices) if choices else []), *show(found, table, out, _settings(request))]
    for stale in {out / name for name in OUTPUTS} - set(written):  # of another request in the same folder
        stale.unlink(missing_ok=True)
    return written, real_data_tables.failures(table)


def _settings(request: Request) -> str:
    """Where the settings come from, in words."""
    chosen = "chosen by grid search (choices.csv)" if request.hyperparameters == "tuned" else "those of the paper"
    borrowed = [
        f"{name} has those of {protocol.BORROWED[name]}" for name in request.datasets if name in protocol.BORROWED
    ]
    return f"Settings: {'; '.join([chosen, *borrowed])}."


def _folds(request: Request, dataset: datasets.Dataset) -> range:
    """The folds of a data set: one, if it has an official split."""
    return range(request.folds if dataset.split is None else 1)


def _searches(request: Request, data: dict[str, datasets.Dataset]) -> list[Search]:
    return [
        Search(name, objective, method, first)
        for name, dataset in data.items()
        for objective in request.objectives
        for method in request.methods
        if method in TUNABLE
        for first in dict.fromkeys(group(fold)[0] for fold in _folds(request, dataset))
    ]


def _trials(
    request: Request, data: dict[str, datasets.Dataset], choices: dict[Search, Record]
) -> tuple[list[Trial], list[bool]]:
    """All trials, and for each whether it is of the sweep over lam alone."""
    trials, sweep = [], []
    for name, dataset in data.items():
        for objective in request.objectives:
            for method in request.methods:
                for fold in _folds(request, dataset):
                    settings = published_settings(name, objective, method)
                    if request.hyperparameters == "tuned" and method in TUNABLE:
                        choice = choices[Search(name, objective, method, group(fold)[0])]
                        if choice.failed:
                            raise ArithmeticError(f"{name}, {objective}, {method}: no settings found, {choice.failed}")
                        settings = {**choice.outcome["settings"], "hidden": settings["hidden"]}
                    lams = protocol.LAMS if request.sweep and method == "pair" else ()
                    own = [settings, *({**settings, "lam": lam} for lam in lams if lam != settings["lam"])]
                    trials += [Trial(name, objective, method, fold, each) for each in own]
                    sweep += [False, *[True] * (len(own) - 1)]
    return trials, sweep


# ---------------------------------------------------------------- what is written


def show(found: Results, table: pd.DataFrame, out: Path, settings: str) -> list[Path]:
    """Tables and figures of results and their cells, as files; `settings` says where those of the methods come from."""
    texts = {
        "tables.md": f"{settings}\n\n{real_data_tables.LEGEND}\n{real_data_tables.errors(table)}",
        "tables.tex": real_data_tables.errors(table, real_data_tables.LATEX),
        "tables.csv": table.drop(columns="fit_seconds").to_csv(index=False, float_format="%.6g"),
        "further.md": real_data_tables.further(table),
        "further.tex": real_data_tables.further(table, real_data_tables.LATEX),
        "seconds.md": real_data_tables.seconds(table),
    }
    if "ens_pair" in set(table["method"]):
        texts["best.md"] = real_data_tables.against_best(table)
    lines = "".join(f"- {line}\n" for line in real_data_tables.failures(table))
    if lines:
        texts["tables.md"] += f"\nFolds that failed:\n\n{lines}"
    for name, text in texts.items():
        with atomic_write.whole(out / name, "table") as beside:
            beside.write_text(text, encoding="utf-8")
    return [out / name for name in texts] + _figures(found, out)


def _figures(found: Results, out: Path) -> list[Path]:
    draws: dict[str, Callable[[Results, str], Figure]] = {"curves": real_data_figures.rejection_curves}
    good = found.measures[found.measures["failed"] == ""]
    if good["sweep"].any():
        draws["lam"] = real_data_figures.against_lam
    paths = []
    for kind, draw in draws.items():
        for objective in dict.fromkeys(good[good["sweep"] == (kind == "lam")]["objective"]):
            figure = draw(found, objective)
            for end in ("png", "svg"):
                path = out / f"{kind}-{objective}.{end}"
                metadata = {"Date": None} if end == "svg" else None
                with atomic_write.whole(path, "figure") as beside, mpl.rc_context({"svg.hashsalt": path.stem}):
                    figure.savefig(beside, format=end, dpi=DPI, metadata=metadata)
                paths.append(path)
    return paths


def _choices(out: Path, choices: dict[Search, Record]) -> list[Path]:
    """What the searches chose."""
    rows = []
    for search, record in choices.items():
        chosen = {name: value for name, value in record.outcome["settings"].items() if name != "hidden"}
        folds = f"{group(search.fold)[0]} to {group(search.fold)[-1]}"
        cell = {"dataset": search.dataset, "objective": search.objective, "method": search.method, "folds": folds}
        rows.append({**cell, **chosen, "validation_auc": record.outcome["auc"]})
    out.mkdir(parents=True, exist_ok=True)
    with atomic_write.whole(out / "choices.csv", "table") as beside:
        pd.DataFrame(rows).to_csv(beside, index=False, float_format="%.6g")
    return [out / "choices.csv"]
