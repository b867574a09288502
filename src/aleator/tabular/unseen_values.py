"""Values in a table that the model has not seen: categories, gaps where there were none, numbers out of range.

The loss is not known there. A network extrapolates in straight lines, so its expected loss may be too low.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator.estimators import TableEncoder
from aleator.preprocessing import outliers
from aleator.tabular.formatting import cell

Floats = NDArray[np.float64]

REACH = 0.25  # tolerated distance from the training range, as a share of its width


@dataclass(frozen=True)
class Seen:
    """The smallest and the largest number of a column in the training rows, and whether some were missing."""

    low: float
    high: float
    gaps: bool


def seen_in(X: pd.DataFrame) -> dict[str, Seen]:
    """The ranges of the numeric columns."""
    numbers = {str(name): column for name, column in X.items() if column.dtype.kind == "f"}
    return {
        name: Seen(*_range(column.dropna().to_numpy(np.float64)), bool(column.isna().any()))
        for name, column in numbers.items()
        if column.notna().any()
    }


def _range(values: Floats) -> tuple[float, float]:
    """The smallest and the largest plausible number: one cell of -999 does not make -900 plausible."""
    low, high = outliers.plausible_cells(values)
    inside = values[(values >= low) & (values <= high)]
    return float(inside.min()), float(inside.max())


@dataclass
class UnseenValues:
    """For each column, the number of rows with an unseen value, and an example."""

    seen: dict[str, Seen]
    encoder: Any
    rows: int = 0
    categories: dict[str, tuple[int, str]] = field(default_factory=dict)
    gaps: dict[str, tuple[int, str]] = field(default_factory=dict)
    far: dict[str, tuple[int, str]] = field(default_factory=dict)

    def look(self, frame: pd.DataFrame) -> None:
        """Add rows."""
        self.rows += len(frame)
        if isinstance(self.encoder, TableEncoder):
            for name, (count, example) in self.encoder.unseen(frame).items():
                _add(self.categories, str(name), count, example)
        for name, seen in self.seen.items():
            values = frame[name].to_numpy(np.float64)
            if not seen.gaps:
                _add(self.gaps, name, int(np.isnan(values).sum()), "")
            reach = REACH * (seen.high - seen.low)
            far = (values < seen.low - reach) | (values > seen.high + reach)
            if far.any():
                _add(self.far, name, int(far.sum()), cell(float(values[np.argmax(far)])))

    def sentences(self) -> list[str]:
        """One for each column with unseen values."""
        found = [
            f"Column {name!r} has values the model has not seen, such as {example!r}, in {count:,} of {self.rows:,} "
            "rows: it knows nothing about them."
            for name, (count, example) in self.categories.items()
        ]
        found += [
            f"Column {name!r} is missing in {count:,} of {self.rows:,} rows, and never was in the training rows: its "
            "uncertainty may be too low there."
            for name, (count, _) in self.gaps.items()
        ]
        found += [
            f"Column {name!r} is far from anything the model saw ({cell(self.seen[name].low)} to "
            f"{cell(self.seen[name].high)}), as {example}, in {count:,} of {self.rows:,} rows: do not trust it there."
            for name, (count, example) in self.far.items()
        ]
        return found

    def facts(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            "unseen_categories": {name: {"rows": n, "example": text} for name, (n, text) in self.categories.items()},
            "never_missing_before": {name: {"rows": n} for name, (n, _) in self.gaps.items()},
            "out_of_reach": {name: {"rows": n, "example": text} for name, (n, text) in self.far.items()},
        }


def _add(found: dict[str, tuple[int, str]], name: str, count: int, example: str) -> None:
    if count:
        before = found.get(name, (0, example))
        found[name] = before[0] + count, before[1]
