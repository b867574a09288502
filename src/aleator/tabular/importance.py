"""Which columns make predictions uncertain, and where.

The importance of a column is the mean change of the expected loss when its cells are shuffled among the rows. Its
partial dependence is the mean expected loss if all rows had the same value in that column, for several values.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator.tabular.table_model import TableModel

Floats = NDArray[np.float64]

SAMPLE = 400  # number of rows that are shuffled
REPEATS = 3
MOST_COLUMNS = 300  # largest number of columns; beyond, shuffling takes too long
POINTS = 15  # number of values of a partial dependence
LEVELS = 40  # number of categories, the most frequent ones
ROWS_MOVED = 150


def strongest(model: TableModel, frame: pd.DataFrame, seed: int = 0) -> dict[str, float]:
    """By column, the mean change of the expected loss when it is shuffled, over the mean expected loss; largest first.

    Empty if there are too many columns.
    """
    if len(frame.columns) > MOST_COLUMNS or len(frame) < 2:
        return {}
    rng = np.random.default_rng(seed)
    sample = frame.iloc[_some(len(frame), SAMPLE, rng)].reset_index(drop=True)
    before = model.estimator.predict_loss(sample)
    mean = float(np.mean(before)) or 1.0
    orders = [rng.permutation(len(sample)) for _ in range(REPEATS)]
    change = {}
    for name in sample:
        shuffled = pd.concat([_with(sample, name, sample[name].iloc[order].array) for order in orders])
        after = model.estimator.predict_loss(shuffled).reshape(REPEATS, -1)
        change[str(name)] = float(np.mean(np.abs(after - before)) / mean)
    return dict(sorted(change.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class Dependence:
    """The mean expected loss and the mean prediction if all rows had this value in a column, for several values.

    `ordered`: numbers and dates, not categories. `share` of the rows that have about this value. `missing`: the mean
    expected loss if it were missing, for columns where it sometimes is.
    """

    column: str
    ordered: bool
    values: list[Any]
    expected_loss: Floats
    prediction: Floats
    share: Floats
    missing: float | None = None


def dependence(model: TableModel, frame: pd.DataFrame, column: str, seed: int = 0) -> Dependence:
    """The partial dependence on a column."""
    rng = np.random.default_rng(seed)
    sample = frame.iloc[_some(len(frame), ROWS_MOVED, rng)]
    kind = next(c.kind for c in model.schema.columns if c.name == column)
    cells = frame[column]
    if kind == "category":
        counts = cells.fillna("").value_counts()
        values: list[Any] = [value or None for value in counts.index[:LEVELS]]
        share = counts.iloc[:LEVELS].to_numpy(np.float64) / len(cells)
    else:
        present = cells.dropna()
        values = list(present.quantile(np.linspace(0.02, 0.98, POINTS), interpolation="nearest").unique())
        share = np.full(len(values), 1 / max(len(values), 1), np.float64)
    expected, predicted = np.empty(len(values)), np.empty(len(values))
    for k, value in enumerate(values):
        moved = _with(sample, column, pd.Series([value] * len(sample), dtype=cells.dtype).array)
        prediction = model.estimator.predict_uncertainty(moved)
        expected[k], predicted[k] = np.mean(prediction.expected_loss), np.mean(prediction.prediction)
    missing = None
    if kind != "category" and cells.isna().any():
        gaps = _with(sample, column, pd.Series([None] * len(sample), dtype=cells.dtype).array)
        missing = float(np.mean(model.estimator.predict_loss(gaps)))
    return Dependence(column, kind != "category", values, expected, predicted, share, missing)


def _with(frame: pd.DataFrame, name: Any, cells: Any) -> pd.DataFrame:
    """The frame with other cells in one column (`assign` fails for a column named self)."""
    changed = frame.copy()
    changed[name] = cells
    return changed


def _some(n: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
