"""Conformal intervals with the expected loss as the local scale: exact coverage for finite samples, any loss.

The score of a calibration row is its loss in units of what was expected, L(y, y_r) / e(x), negative where y is below
the prediction. Let a = 1 - coverage. The interval reaches from the floor((n + 1) a / 2)-th to the
ceil((n + 1) (1 - a / 2))-th smallest score of n rows: each end has its own level, so that a / 2 of the targets are
expected below and a / 2 above, however skewed the errors are. If the calibration rows and the new one are exchangeable
and none of them was used in training, y lies below with probability at most a / 2, above with at most a / 2, and so
within with at least `coverage`, and at most 2 / (n + 1) more if no two scores are equal.

The symmetric interval is the level set {y: L(y, y_r) <= q e(x)} with q the ceil((n + 1) coverage)-th smallest score
without its sign. It needs half as many rows.
"""

import math

import numpy as np
from numpy.typing import NDArray

from aleator.losses import Cost, Loss

Floats = NDArray[np.float64]


def scores(realised: Floats, expected: Floats, side: Floats | None = None) -> Floats:
    """Sorted along the rows, which come first; a loss of 0 where 0 was expected scores 0.

    `side`: -1 where the target is below the prediction, 1 above; without it no score has a sign.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(realised == 0, 0.0, realised / expected)
    return np.sort(ratio if side is None else np.where(side < 0, -ratio, ratio), axis=0)


def quantiles(sorted_scores: Floats, coverage: float) -> tuple[Floats, Floats] | None:
    """The scores (Q,) at the two ends; None if there are too few rows for a level each, or scores have no sign."""
    n = len(sorted_scores)
    tail = (1 - coverage) / 2
    lower, upper = math.floor((n + 1) * tail + 1e-9), math.ceil((n + 1) * (1 - tail) - 1e-9)
    if lower < 1 or upper > n or (sorted_scores >= 0).all():
        return None
    return sorted_scores[lower - 1], sorted_scores[upper - 1]


def quantile(sorted_scores: Floats, coverage: float) -> Floats:
    """The score (Q,), whatever its sign, of the symmetric interval."""
    sorted_scores, n = np.sort(np.abs(sorted_scores), axis=0), len(sorted_scores)
    rank = max(1, math.ceil((n + 1) * coverage - 1e-9))
    if rank > n:
        needed = math.ceil(coverage / (1 - coverage) - 1e-9)
        raise ValueError(
            f"coverage={coverage:g} needs at least {needed} rows that were not learned from, and there are {n}: "
            "those given to conformalize, or else those that fit held out."
        )
    level: Floats = sorted_scores[rank - 1]
    return level


def levels(factor: Floats, expected: Floats) -> Floats:
    """Factor * expected; infinite where the score is, also if nothing was expected."""
    return np.where(np.isinf(factor), np.inf, np.where(np.isinf(factor), 0.0, factor) * expected)


def ends(
    loss: Loss | Cost, y_pred: Floats, expected: Floats, quantiles: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """How far targets with these scores lie from the prediction, negative ones below it and positive ones above.

    The interval contains the prediction, also if nearly all targets are on one side of theirs.
    """
    lower, upper = (np.broadcast_to(q, expected.shape) for q in quantiles)

    def at(score: Floats, side: float) -> Floats:
        return y_pred + side * _reach(loss, y_pred, levels(np.abs(score), expected), side)

    return np.where(lower <= 0, at(lower, -1.0), y_pred), np.where(upper >= 0, at(upper, 1.0), y_pred)


def level_set(loss: Loss | Cost, y_pred: Floats, level: Floats) -> tuple[Floats, Floats]:
    """The ends of {y: loss(y, y_pred) <= level}, for a loss that grows on both sides of the prediction."""
    return y_pred - _reach(loss, y_pred, level, -1.0), y_pred + _reach(loss, y_pred, level, 1.0)


def grows(loss: Loss | Cost, y_pred: Floats) -> bool:
    """Whether a loss known by its values only never falls on the way out from the predictions, as far as tried."""
    if isinstance(loss, Loss):
        return True
    middle, spread = y_pred[:25], max(float(np.std(y_pred)), 1e-3 * float(np.abs(y_pred).max()), 1e-300)
    for side in (-1.0, 1.0):
        steps = [side * spread * reach for reach in np.linspace(0.0, 4.0, 41)]
        with np.errstate(all="ignore"):
            costs = np.stack([loss(middle + step, middle).reshape(middle.shape) for step in steps])
        if (np.diff(costs, axis=0) < -1e-9 * np.abs(costs[1:])).any():
            return False
    return True


@np.errstate(all="ignore")  # far out a loss of the user's may overflow
def _reach(loss: Loss | Cost, y_pred: Floats, level: Floats, side: float) -> Floats:
    """How far y can go to one side before the loss exceeds the level."""
    if isinstance(loss, Loss) and loss.degree is not None:  # L(y_r + t, y_r) = t^p L(1, 0)
        at_one = loss.value(side, 0.0)
        free = np.full_like(level, np.inf)  # on a side that costs nothing there is no end
        return np.asarray((level / at_one) ** (1.0 / loss.degree) if at_one > 0 else free)
    endless = np.isinf(level)
    level = np.where(endless, 0.0, level)
    low, high = np.zeros_like(y_pred), np.ones_like(y_pred)

    def at(reach: Floats) -> Floats:
        return loss(y_pred + side * reach, y_pred).reshape(y_pred.shape)

    for _ in range(1100):  # doublings from 1 to the end of float64
        short = at(high) <= level
        if not short.any():
            break
        high = np.where(short, 2.0 * high, high)
    for _ in range(200):  # halvings; the middle reaches an end of its bracket long before
        middle = 0.5 * (low + high)
        inside = at(middle) <= level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(endless, np.inf, low)
