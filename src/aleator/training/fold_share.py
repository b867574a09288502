"""What is left of a loss with one more fold of training rows.

Held-out rows give the losses of models trained without one of K folds; the final model lacks none. Models without two
folds show what a fold is worth, if losses fall like n^-alpha.
"""

import math

import numpy as np
from scipy.linalg import norm

from aleator.array_types import Floats
from aleator.training import defaults


def extrapolated_share(single: Floats, double: Floats, n_folds: int) -> Floats:
    """What is left of a value with K folds instead of K - 1, if it falls like n^-alpha; never above 1.

    From K - 2 folds to K - 1 it is single / double.
    """
    power = math.log(1 - 1 / n_folds) / math.log(1 - 1 / (n_folds - 1))
    usable = (single > 0) & (double > 0) & np.isfinite(single) & np.isfinite(double)
    ratio = np.divide(single, double, out=np.ones_like(single), where=usable)
    share: Floats = np.clip(ratio**power, defaults.MIN_LOSS_SHARE, 1.0)
    return share


def certain_part(share: float, single: Floats, double: Floats, weight: Floats) -> float:
    """A share drawn towards 1 by the noise of the losses (n,) it comes from, of rows with these weights.

    Its logarithm is multiplied by 1 - 1 / t^2, or 0 if that is negative (James and Stein), where t is the mean
    difference over its standard error. So where a fold is worth nothing, chance corrects next to nothing.
    """
    if share == 1.0 or len(weight) < 2:
        return 1.0
    w = weight / weight.sum()
    difference = double - single
    mean = float(w @ difference)
    n_rows = float(weight.sum() / weight.min())  # a weight is a number of rows
    error = float(norm(np.sqrt(w) * (difference - mean))) / math.sqrt(n_rows)
    kept = max(0.0, 1 - (error / mean) ** 2) if mean > 0 else 0.0
    return float(share**kept)
