"""What came out of the trials, in compact form: enough for every table and figure, without single predictions."""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import atomic_write, metrics
from aleator.datasets import Dataset
from aleator.paper.protocol import MEASURES, Trial, fold
from aleator.paper.records import Record

Floats = NDArray[np.float64]

CELL = ["dataset", "objective", "method"]
FILES = ("measures.csv.gz", "seconds.csv.gz", "curves.npz")


@dataclass(frozen=True)
class Results:
    """Measures of every trial, and for each cell the mean rejection curve over its folds.

    `measures` has a row for each trial: dataset, objective, method, fold, `lam` (NaN where there is none), `sweep` (a
    value of lam that is not the method's own: for the figure, not for the tables), the measures, and `failed`, the
    reason where there are none. `seconds` are those of the fits, which differ from run to run, in the same order.
    """

    measures: pd.DataFrame
    seconds: "pd.Series[float]"
    curves: dict[tuple[str, str, str], Floats]

    def write(self, folder: Path) -> list[Path]:
        """Three files; the first and the last have the same bytes whenever the records are the same."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / name for name in FILES]
        texts = (
            self.measures.to_csv(index=False, float_format="%.9g"),
            self.seconds.to_csv(index=False, float_format="%.4g"),
        )
        for path, text in zip(paths, texts, strict=False):
            with atomic_write.whole(path, "file of results") as beside:
                beside.write_bytes(gzip.compress(text.encode(), mtime=0))  # neither a time nor a name in it
        with atomic_write.whole(paths[2], "file of results") as beside, beside.open("wb") as file:
            arrays: Any = {"/".join(cell): curve.astype(np.float32) for cell, curve in sorted(self.curves.items())}
            np.savez_compressed(file, **arrays)
        return paths


def of(trials: Sequence[Trial], records: Sequence[Record], sweep: Sequence[bool], data: dict[str, Dataset]) -> Results:
    """The results of these trials."""
    rows: list[dict[str, Any]] = []
    curves: dict[tuple[str, str, str], list[Floats]] = {}
    for trial, record, swept in zip(trials, records, sweep, strict=True):
        cell = trial.dataset, trial.objective, trial.method
        facts = dict(zip(CELL, cell, strict=True))
        lam = trial.settings.get("lam", np.nan)
        rows.append(
            {**facts, "fold": trial.fold, "lam": lam, "sweep": swept}
            | {name: record.outcome["measures"][name] if not record.failed else np.nan for name in MEASURES}
            | {"failed": record.failed or ""}
        )
        if not (swept or record.failed):
            curves.setdefault(cell, []).append(_curve(trial, record, data[trial.dataset]))
    seconds = [record.outcome.get("fit_seconds", np.nan) for record in records]
    mean = {cell: np.mean(of_folds, axis=0) for cell, of_folds in curves.items()}
    return Results(pd.DataFrame(rows), pd.Series(seconds, name="fit_seconds"), mean)


def read(folder: str | PathLike[str]) -> Results:
    """What `write` wrote."""
    folder = Path(folder)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"there are no results in {folder}: it lacks {', '.join(missing)}.")
    measures = pd.read_csv(folder / FILES[0]).astype({"failed": object})
    measures["failed"] = measures["failed"].fillna("")
    with np.load(folder / FILES[2], allow_pickle=False) as arrays:
        curves = {_cell(name): arrays[name].astype(np.float64) for name in arrays}
    seconds = pd.read_csv(folder / FILES[1])["fit_seconds"]
    if len(seconds) != len(measures):
        raise ValueError(f"the results in {folder} do not fit together: they are of two runs.")
    return Results(measures, seconds, curves)


def _cell(name: str) -> tuple[str, str, str]:
    dataset, objective, method = name.split("/")
    return dataset, objective, method


def _curve(trial: Trial, record: Record, dataset: Dataset) -> Floats:
    _, test = fold(dataset, trial.fold)
    arrays = record.arrays
    return metrics.rejection_curve(dataset.y[test], arrays["y_pred"], arrays["expected_loss"], trial.objective)
