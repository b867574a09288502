"""Location, spread and largest plausible value that a few wrong cells cannot move.

Real tables have sentinels (-999), mistaken units, flags that are set once. The mean and the standard deviation of a
column with one such cell tell of that cell alone. Here a column is first clipped to where its bulk lies, and values
are compared with what the tail of the others makes plausible.

All of it is weighted, depends neither on the order of the rows nor on units, and takes a weight of 2 for the row twice.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FENCES = 3.0  # interquartile ranges beyond the quartiles: the normal distribution has 3 values in a million there
RARE = 10.0  # rows: a flag that fewer of them have is not learned from,
RARE_SHARE = 0.05  # or fewer than this share, in smaller tables

TAIL = 0.005  # of the rows, but at least
TAIL_ROWS = 5.0  # so many, are the tail that is continued to
BEYOND = 0.1  # rows: what is exceeded with this probability in a table of this size


def rare(n_rows: float) -> float:
    """How many of so many rows a flag or a category must have to be learned from."""
    return min(RARE, RARE_SHARE * n_rows)


def quantiles(values: Floats, weight: Floats | None, levels: tuple[float, ...]) -> list[float]:
    """The least values that so much of the weight does not exceed; None for equal weights."""
    if weight is None:
        places = [min(max(math.ceil(level * len(values) - 1e-9) - 1, 0), len(values) - 1) for level in levels]
        return [float(v) for v in np.partition(values, places)[places]]
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weight[order])
    places = np.searchsorted(mass, np.array(levels) * mass[-1] * (1 - 1e-12))
    return [float(v) for v in values[order[np.minimum(places, len(order) - 1)]]]


def fences(values: Floats, weight: Floats | None) -> tuple[float, float] | None:
    """The range of the bulk of a column; None if hardly any row differs from the others.

    Where half of the rows share one value, the bulk is that value and the bulk of all others.
    """
    low, high = quantiles(values, weight, (0.25, 0.75))
    if high > low:
        return low - FENCES * (high - low), high + FENCES * (high - low)
    others = values != low
    mass = float(others.sum() if weight is None else weight[others].sum())
    if mass < rare(len(values) if weight is None else float(weight.sum())) or not others.any():
        return None
    own, next_low, next_high = low, *quantiles(values[others], None if weight is None else weight[others], (0.25, 0.75))
    width = next_high - next_low
    return min(own, next_low - FENCES * width), max(own, next_high + FENCES * width)


def plausible_maximum(values: Floats, weight: Floats) -> float:
    """The largest of these values >= 0 that their own tail makes plausible; infinite if they are few, or mostly zero.

    Between two quantiles of the tail, ten times as rare one as the other, the values grow by a factor. A tail that goes
    on like this, by the same factor for each power of ten, is that of Pareto; those of most distributions are lighter.
    """
    total = float(weight.sum())
    tail = max(TAIL, TAIL_ROWS / len(values))
    if 10 * tail > 1:
        return math.inf
    inner, outer = quantiles(values, weight, (1 - 10 * tail, 1 - tail))
    if inner <= 0 or total <= 0:
        return math.inf
    decades = math.log10(tail * len(values) / BEYOND)
    with np.errstate(over="ignore"):
        return float(outer * np.float64(outer / inner) ** decades)


def plausible_range(values: Floats, weight: Floats) -> tuple[float, float]:
    """The ends of what is plausible on either side of the median."""
    (middle,) = quantiles(values, weight, (0.5,))
    below, above = np.maximum(middle - values, 0.0), np.maximum(values - middle, 0.0)
    return middle - plausible_maximum(below, weight), middle + plausible_maximum(above, weight)
