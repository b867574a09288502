"""An ensemble as a mixture: the expected loss of the ensemble's mean, split into two parts (paper, sec. 4).

Each function takes the members' predictions mu (K, n) or (K, n, m) and expected losses (K, n) or (K, n, m), members
first, and returns the mean prediction and the aleatoric and epistemic parts of its expected loss. The parts add up.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aleator import losses
from aleator.losses import Cost, Loss

__all__ = [
    "additive",
    "gaussian",
    "laplace",
    "of",
]

Floats = NDArray[np.float64]
Parts = tuple[Floats, Floats, Floats]


def gaussian(mu: ArrayLike, variance: ArrayLike) -> Parts:
    """Mix members for the squared loss: eq. (4.11).

    The mean is mu = mean(mu_j), and the expected loss V = mean(V_j + (mu_j - mu)^2), for any distribution of the
    members.

    Parameters
    ----------
    mu : array-like of shape (K, n) or (K, n, m)
        Predictions of the members.
    variance : array-like of shape (K, n) or (K, n, m)
        Expected squared losses of the members.

    Returns
    -------
    mean : ndarray
        Prediction of the mixture.
    aleatoric : ndarray
        Mean of the members' expected losses.
    epistemic : ndarray
        Mean squared distance of the members from the mean.

    Examples
    --------
    >>> from aleator import mixtures
    >>> mixtures.gaussian([[0.0], [2.0]], [[1.0], [1.0]])
    (array([1.]), array([1.]), array([1.]))
    """
    mu, variance, mean = _members(mu, variance)
    epistemic = _to_shape((mu - mean) ** 2, variance)
    return mean, variance.mean(axis=0), epistemic.mean(axis=0)


def laplace(mu: ArrayLike, scale: ArrayLike) -> Parts:
    """Mix Laplace distributed members for the absolute loss: eq. (4.12).

    ``E|y - mu| = mean(d_j + b_j exp(-d_j / b_j))`` with ``d_j = |mu - mu_j|``.

    Parameters
    ----------
    mu : array-like of shape (K, n) or (K, n, m)
        Predictions of the members.
    scale : array-like of shape (K, n) or (K, n, m)
        Expected absolute losses of the members.

    Returns
    -------
    mean : ndarray
        Prediction of the mixture.
    aleatoric : ndarray
        Mean of the members' expected losses.
    epistemic : ndarray
        The rest of the expected loss, never negative.

    Examples
    --------
    >>> from aleator import mixtures
    >>> mean, aleatoric, epistemic = mixtures.laplace([[0.0], [2.0]], [[1.0], [1.0]])
    >>> epistemic.round(3)
    array([0.368])
    """
    mu, scale, mean = _members(mu, scale)
    distance = _to_shape(np.abs(mu - mean), scale)
    ratio = np.divide(distance, scale, out=np.full_like(distance, np.inf), where=scale > 0)
    # d + b exp(-d/b) - b = d + b expm1(-d/b), without the cancellation; rounding may still leave a last bit below 0
    epistemic = np.maximum(distance + scale * np.expm1(-ratio), 0.0)
    return mean, scale.mean(axis=0), epistemic.mean(axis=0)


def additive(mu: ArrayLike, expected_loss: ArrayLike, loss: Loss | Cost) -> Parts:
    """Mix members for any other loss: add the loss between a member and the mean.

    Exact for the squared loss, and an upper bound for a loss that obeys the triangle inequality.

    Parameters
    ----------
    mu : array-like of shape (K, n) or (K, n, m)
        Predictions of the members.
    expected_loss : array-like of shape (K, n) or (K, n, m)
        Expected losses of the members.
    loss : Loss or Cost
        The loss.

    Returns
    -------
    mean : ndarray
        Prediction of the mixture.
    aleatoric : ndarray
        Mean of the members' expected losses.
    epistemic : ndarray
        Mean loss between a member and the mean.

    Examples
    --------
    >>> from aleator import losses, mixtures
    >>> mixtures.additive([[0.0], [2.0]], [[1.0], [1.0]], losses.squared)
    (array([1.]), array([1.]), array([1.]))
    """
    mu, expected_loss, mean = _members(mu, expected_loss)
    epistemic = _to_shape(loss(mu, np.broadcast_to(mean, mu.shape)), expected_loss)
    return mean, expected_loss.mean(axis=0), epistemic.mean(axis=0)


def of(loss: Loss | Cost) -> Callable[[ArrayLike, ArrayLike], Parts]:
    """Get the rule for a loss.

    Parameters
    ----------
    loss : Loss or Cost
        The loss.

    Returns
    -------
    callable
        `gaussian`, `laplace`, or `additive` for this loss: a function of the members' predictions and expected losses.

    Examples
    --------
    >>> from aleator import losses, mixtures
    >>> mixtures.of(losses.squared) is mixtures.gaussian
    True
    """
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
