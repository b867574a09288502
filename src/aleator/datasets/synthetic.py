"""The paper's synthetic data (sec. 7), with the truth beside them."""

import numbers
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

Floats = NDArray[np.float64]

STRIPS = ((0.2, 0.3, 1.0), (0.6, 0.7, 5.0))  # from, to, standard deviation of the noise
STRIP_MEAN = -2.0
EDGES = np.array([edge for start, stop, _ in STRIPS for edge in (start, stop)])


@dataclass(frozen=True)
class Synthetic:
    """Rows of a made-up table, with the truth beside them.

    Attributes
    ----------
    X : ndarray of shape (n, 1)
        The input.
    y : ndarray of shape (n,)
        The target.
    mean : ndarray of shape (n,)
        True mean of the target.
    std : ndarray of shape (n,)
        True standard deviation of the target.
    region : ndarray of int, shape (n,)
        Region of each row, counted from 1, from left to right; of `two_strips`, 2 and 4 are the strips.

    Examples
    --------
    >>> from aleator.datasets import smooth
    >>> smooth(10).X.shape
    (10, 1)
    """

    X: Floats
    y: Floats
    mean: Floats
    std: Floats
    region: NDArray[np.int64]


def smooth(n: int = 2000, random_state: object = 0) -> Synthetic:
    """Make data whose mean and noise change smoothly: mean 3x + sin(2 pi x), standard deviation 1 + sin(4 pi x).

    Parameters
    ----------
    n : int, default=2000
        Number of rows.
    random_state : int, RandomState instance or None, default=0
        Random seed.

    Returns
    -------
    Synthetic
        Rows with x uniform on [0, 1].

    Examples
    --------
    >>> from aleator.datasets import smooth
    >>> len(smooth(100).y)
    100
    """
    rng = drawn_by(n, random_state)
    x = rng.uniform(size=n)
    mean, std = smooth_truth(x)
    return Synthetic(x[:, None], rng.normal(mean, std), mean, std, np.ones(n, np.int64))


def smooth_truth(x: ArrayLike) -> tuple[Floats, Floats]:
    """Give the true mean and standard deviation of `smooth`.

    Parameters
    ----------
    x : array-like
        Inputs.

    Returns
    -------
    mean, std : ndarray
        True mean and standard deviation at x.

    Examples
    --------
    >>> from aleator.datasets import smooth_truth
    >>> mean, std = smooth_truth([0.0])
    >>> float(mean[0]), float(std[0])
    (0.0, 1.0)
    """
    x = np.asarray(x, np.float64)
    return 3 * x + np.sin(2 * np.pi * x), 1 + np.sin(4 * np.pi * x)


def two_strips(n: int = 2000, noisy: float = 0.8, random_state: object = 0) -> Synthetic:
    """Make clean data y = 3x + sin(2 pi x) with two noisy strips of width 0.1.

    In the strips y has mean -2 and standard deviation 1 in the first, 5 in the second.

    Parameters
    ----------
    n : int, default=2000
        Number of rows.
    noisy : float, default=0.8
        Share of the rows in the strips.
    random_state : int, RandomState instance or None, default=0
        Random seed.

    Returns
    -------
    Synthetic
        Rows with x in [0, 1].

    Examples
    --------
    >>> from aleator.datasets import two_strips
    >>> two_strips(1000, noisy=0.0).std.max()
    np.float64(0.0)
    """
    if not 0 <= noisy <= 1:
        raise ValueError(f"noisy must be a share in [0, 1], got {noisy!r}.")
    rng = drawn_by(n, random_state)
    in_noise = rng.uniform(size=n) < noisy
    second = rng.uniform(size=n) < 0.5
    x = np.where(in_noise, np.where(second, STRIPS[1][0], STRIPS[0][0]) + 0.1 * rng.uniform(size=n), _clean(rng, n))
    mean, std = two_strips_truth(x)
    return Synthetic(x[:, None], mean + std * rng.normal(size=n), mean, std, two_strips_region(x))


def two_strips_truth(x: ArrayLike) -> tuple[Floats, Floats]:
    """Give the true mean and standard deviation of `two_strips`.

    Parameters
    ----------
    x : array-like
        Inputs.

    Returns
    -------
    mean, std : ndarray
        True mean and standard deviation at x.

    Examples
    --------
    >>> from aleator.datasets import two_strips_truth
    >>> mean, std = two_strips_truth([0.0])
    >>> float(std[0])
    0.0
    """
    x = np.asarray(x, np.float64)
    mean, std = 3 * x + np.sin(2 * np.pi * x), np.zeros_like(x)
    for start, stop, spread in STRIPS:
        inside = (start <= x) & (x < stop)
        mean, std = np.where(inside, STRIP_MEAN, mean), np.where(inside, spread, std)
    return mean, std


def two_strips_region(x: ArrayLike) -> NDArray[np.int64]:
    """Give the region of `two_strips` that x lies in: 1, 3 and 5 are clean, 2 and 4 noisy.

    Parameters
    ----------
    x : array-like
        Inputs.

    Returns
    -------
    ndarray of int
        The regions.

    Examples
    --------
    >>> from aleator.datasets import two_strips_region
    >>> two_strips_region([0.0, 0.99])
    array([1, 5])
    """
    return 1 + np.searchsorted(EDGES, np.asarray(x, np.float64), side="right")


def _clean(rng: np.random.RandomState, n: int) -> Floats:
    """Uniform on what the strips leave of [0, 1]: a uniform number on [0, 0.8], with the strips inserted."""
    u = rng.uniform(0, 0.8, size=n)
    for start, stop, _ in STRIPS:
        u = np.where(u >= start, u + (stop - start), u)
    return u


def drawn_by(n: int, random_state: object) -> np.random.RandomState:
    if not (isinstance(n, numbers.Integral) and n >= 1):
        raise ValueError(f"n must be a positive whole number, got {n!r}.")
    rng: np.random.RandomState = check_random_state(random_state)
    return rng
