"""Location, spread and largest plausible value that a few wrong cells cannot move.

Real tables have sentinels (-999), mistaken units, flags that are set once. The mean and the standard deviation of a
column with one such cell tell of that cell alone. Here a column is first clipped to the end of its tail, and values
are compared with what the tail of the others makes plausible.

All of it is weighted, and depends neither on the order of the rows nor on units.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COMMON = 0.25  # of the rows have the same value, or it is one like others
STEP = 6.0  # the tail of a column ends where half as many rows reach more than so many times as far,
REACH = 2.0  # and beyond so many times its last value all values count alike
RARE = 10.0  # rows: a flag that fewer of them have is not learned from,
RARE_SHARE = 0.05  # or fewer than this share, in smaller tables
MISTAKES = 0.02  # of the cells of a column may be mistakes, beyond a torn tail; more are, if they have one value

FEWEST, SHARE, MOST = 3.0, 0.005, 10.0  # rows with the largest values, of all: what so many have is plausible, and
LARGEST = 1e300  # what is implausible loses at most so much, which several outputs can add up
BEYOND = 0.1  # of a row is where their tail is continued to: the largest of all exceeds that with this probability


def rare(n_rows: float) -> float:
    """How many of so many rows a flag or a category must have to be learned from."""
    return min(RARE, RARE_SHARE * n_rows)


def quantiles(values: Floats, weight: Floats | None, levels: tuple[float, ...]) -> list[float]:
    """Weighted quantiles: the smallest values at or below which these shares of the weight lie; None: equal weights."""
    if weight is None:
        places = [min(max(math.ceil(level * len(values) - 1e-9) - 1, 0), len(values) - 1) for level in levels]
        return [float(v) for v in np.partition(values, places)[places]]
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weight[order])
    places = np.searchsorted(mass, np.array(levels) * mass[-1] * (1 - 1e-12))
    return [float(v) for v in values[order[np.minimum(places, len(order) - 1)]]]


def tail_ends(values: Floats, weight: Floats | None) -> tuple[float, float] | None:
    """The least and the largest value of a column without what is torn off; None if hardly any row differs.

    From the middle outwards, each step has half as many rows beyond it. A long tail grows step by step, that of Cauchy
    by a factor of two. A sentinel, or a wrong unit, is a leap: the tail ends before it, if few cells lie beyond, or
    cells of one value. A group of rows far from the others is no mistake. Where many rows share the middle value, the
    steps are those of all others.
    """
    found = _tails(values, weight)
    if found is None:
        return None
    middle, (below, above), _ = found
    return middle - below, middle + above


def plausible_cells(values: Floats) -> tuple[float, float]:
    """The ends beyond which a cell of a column is taken for a mistake; infinite where there is none.

    They are six times as far from the middle as the tail reaches before it is torn.
    """
    if not len(values):
        return -math.inf, math.inf
    return -_largest_plausible(-values), _largest_plausible(values)


def _largest_plausible(values: Floats) -> float:
    """The upper end. A largest value that many rows share is compared with all others: it may be a code for a gap."""
    top = float(values.max())
    shared = int((values == top).sum())
    others = values[values < top] if RARE <= shared < 0.5 * len(values) else values
    found = _tails(others, None)
    if found is None:
        return math.inf
    middle, (_, above), first = found
    high = middle + STEP * max(above, first)
    return high if top > high else math.inf


def _tails(values: Floats, weight: Floats | None) -> tuple[float, tuple[float, float], float] | None:
    """The middle of a column, how far its tails reach below and above it, and the longer of their first steps."""
    (middle,) = quantiles(values, weight, (0.5,))
    weights = np.ones(len(values)) if weight is None else weight
    others, total = values != middle, float(weights.sum())
    mass = float(weights[others].sum())
    if mass < rare(total) or not others.any():
        return None
    if mass > (1 - COMMON) * total:
        others, mass = np.ones(len(values), bool), total
    own = None if weight is None else weight[others]
    steps = [0.5**k for k in range(2, 64) if 0.5**k * mass >= 0.5] or [0.25]
    levels = (*(1 - step for step in steps), 1.0)
    with np.errstate(over="ignore"):
        far = values[others] - middle
    sides = -far, far
    reached = [np.maximum(quantiles(side, own, levels), 0.0) for side in sides]
    first = float(max(steps[0] for steps in reached))  # a side with few rows is measured by the other
    weights = weights[others]
    below, above = (_tail(side, weights, steps, first, total) for side, steps in zip(sides, reached, strict=True))
    return middle, (below, above), first


def _tail(far: Floats, weight: Floats, reached: Floats, first: float, total: float) -> float:
    """How far one tail reaches, if steps with half as many rows beyond each reach so far."""
    end = 0.0
    for value in reached:
        limit = STEP * max(end, first)
        if value > limit:
            beyond = far > limit
            few = float(weight[beyond].sum()) <= MISTAKES * total
            if few or (far[beyond] == far[beyond][0]).all():
                break
        end = float(value)
    return end


def _end(reached: Floats, first: float) -> float:
    """Where a tail that reaches so far, step by step, is torn."""
    end = 0.0
    for value in reached:
        if value > STEP * max(end, first):
            break
        end = float(value)
    return end


def plausible_maximum(values: Floats, weight: Floats) -> float:
    """The largest of these values >= 0 that their own tail makes plausible; infinite if they are few, or mostly zero.

    What more than `n` rows reach is plausible. Beyond there are two bounds, of which the smaller counts.
    From the 10 n-th to the n-th largest value there is a factor. A tail that goes on by the same factor for each power
    of ten is that of Pareto; those of most distributions are lighter. And the tail may be torn, as that of a column.
    """
    total = float(weight.sum())
    n = min(max(FEWEST, SHARE * total), MOST)
    if not 0 < 2 * n <= total:
        return math.inf
    levels = (1 - 10 * n / total, *(1 - n * 0.5**k / total for k in range(5) if n * 0.5**k > 1), 1.0)
    inner, *steps = quantiles(values, weight, tuple(max(level, 0.0) for level in levels))
    if steps[0] <= 0:
        return math.inf
    end = _end(np.array(steps), steps[0])
    torn = REACH * end if end < steps[-1] else math.inf
    if 10 * n > total or inner <= 0:
        return torn
    decades = math.log10(n / BEYOND)
    with np.errstate(over="ignore"):
        return min(torn, float(steps[0] * np.float64(steps[0] / inner) ** decades))


def prediction_range(targets: Floats, weight: Floats) -> tuple[float, float]:
    """Ends beyond which no prediction of these targets is plausible: twice as far from their median as they reach.

    Targets beyond what their own tail makes plausible do not count.
    """
    (middle,) = quantiles(targets, weight, (0.5,))
    far = np.abs(targets - middle)
    end = REACH * min(plausible_maximum(far, weight), float(far[weight > 0].max(initial=0.0)))
    return middle - end, middle + end


def plausible_range(values: Floats, weight: Floats) -> tuple[float, float]:
    """The ends of what is plausible on either side of the median."""
    (middle,) = quantiles(values, weight, (0.5,))
    below, above = np.maximum(middle - values, 0.0), np.maximum(values - middle, 0.0)
    return middle - plausible_maximum(below, weight), middle + plausible_maximum(above, weight)
