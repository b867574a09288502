"""An ensemble as a mixture: the expected loss of the ensemble's mean, split into two parts (paper, sec. 4).

Each function takes the members' predictions mu (K, n) or (K, n, m) and expected losses (K, n) or (K, n, m), members
first, and returns the mean prediction and the aleatoric and epistemic parts of its expected loss. The parts add up.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aleator import losses
from aleator.losses import Cost, Loss

Floats = NDArray[np.float64]
Parts = tuple[Floats, Floats, Floats]


def gaussian(mu: ArrayLike, variance: ArrayLike) -> Parts:
    """Squared loss: mu = mean mu_j, V = mean(V_j + (mu_j - mu)^2), for any distribution of the members (eq. 4.11)."""
    mu, variance, mean = _members(mu, variance)
    epistemic = _to_shape((mu - mean) ** 2, variance)
    return mean, variance.mean(axis=0), epistemic.mean(axis=0)


def laplace(mu: ArrayLike, scale: ArrayLike) -> Parts:
    """Absolute loss: E|y - mu| = mean(d_j + b_j exp(-d_j / b_j)), d_j = |mu - mu_j|, members Laplace (eq. 4.12).

    The aleatoric part is the mean of b_j; what is left is epistemic, and never negative.
    """
    mu, scale, mean = _members(mu, scale)
    distance = _to_shape(np.abs(mu - mean), scale)
    ratio = np.divide(distance, scale, out=np.full_like(distance, np.inf), where=scale > 0)
    # d + b exp(-d/b) - b = d + b expm1(-d/b), without the cancellation; rounding may still leave a last bit below 0
    epistemic = np.maximum(distance + scale * np.expm1(-ratio), 0.0)
    return mean, scale.mean(axis=0), epistemic.mean(axis=0)


def additive(mu: ArrayLike, expected_loss: ArrayLike, loss: Loss | Cost) -> Parts:
    """Any other loss: the members' expected loss plus the loss between a member and the mean.

    Exact for the squared loss, and for a loss that obeys the triangle inequality an upper bound.
    """
    mu, expected_loss, mean = _members(mu, expected_loss)
    epistemic = _to_shape(loss(mu, np.broadcast_to(mean, mu.shape)), expected_loss)
    return mean, expected_loss.mean(axis=0), epistemic.mean(axis=0)


def of(loss: Loss | Cost) -> Callable[[ArrayLike, ArrayLike], Parts]:
    """The rule for a loss."""
    if losses.is_squared(loss):
        return gaussian
    if isinstance(loss, Loss) and loss.value is losses.absolute.value:
        return laplace
    return lambda mu, expected_loss: additive(mu, expected_loss, loss)


def _members(mu: ArrayLike, other: ArrayLike) -> tuple[Floats, Floats, Floats]:
    mu, other = np.asarray(mu, np.float64), np.asarray(other, np.float64)
    if mu.shape[: other.ndim] != other.shape:
        raise ValueError(f"predictions {mu.shape} and expected losses {other.shape} of the members do not fit.")
    return mu, other, mu.mean(axis=0)


def _to_shape(distance: Floats, other: Floats) -> Floats:
    """Sum over the outputs where one quantifier speaks for all of them."""
    return distance if distance.ndim == other.ndim else distance.sum(axis=-1)
