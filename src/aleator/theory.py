"""What lam does (sec. 6 of the paper): how fast regressor and quantifier learn, and which regions count.

A region is a set of samples with regressor's loss L. Where the quantifier has found the xi that minimises

    M(L, xi) = L f(xi) + lam g(xi),                                                                 eq. (6.2)

the regressor's gradient there is multiplied by f(xi), and the quantifier's is proportional to the curvature of M:

| | any coupling | sigmoid | softplus |
| --- | --- | --- | --- |
| `optimum` | M is least at xi | ln(lam / L), Lemma 6.1 | ln(e^(lam / L) - 1) |
| `regressor_speed` | f(xi) | ln(1 + lam / L), eq. (6.4) | lam / L, eq. (6.10), (6.11) |
| `quantifier_speed` | M''(xi) | L lam / (L + lam), eq. (6.6) | L^2 / lam (1 - e^(-lam / L))^2, eq. (6.12) |

The ratios `regressor_ratio` R and `quantifier_ratio` Q of a clean region L1 to a noisy one L2 tell which counts: the
clean one where they are above 1, eq. (6.7), (6.8), (6.13), (6.14). All functions take arrays and broadcast. The two
couplings of the paper have closed forms, any other is solved numerically.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from aleator import couplings
from aleator.compiled_functions import mapped
from aleator.couplings import COUPLINGS, Coupling

__all__ = [
    "Limits",
    "Optimum",
    "contributions",
    "limits",
    "optimum",
    "quantifier_ratio",
    "quantifier_speed",
    "regressor_ratio",
    "regressor_speed",
    "surface",
]

Floats = NDArray[np.float64]

# Where the quantifier of the softplus coupling learns fastest, lam = MU0 L: the positive root of e^mu = 1 + 2 mu.
MU0 = float(brentq(lambda mu: np.exp(mu) - 1 - 2 * mu, 1.0, 2.0, xtol=1e-15))
# ... and how fast that is, over L.
LARGEST_SOFTPLUS_SPEED = 4 * MU0 / (1 + 2 * MU0) ** 2


@dataclass(frozen=True)
class Optimum:
    """Where the joint loss M(L, xi) of a region is least.

    Attributes
    ----------
    xi : ndarray
        The minimiser.
    value : ndarray
        M at the minimiser.
    curvature : ndarray
        The second derivative of M with respect to xi there.

    Examples
    --------
    >>> from aleator import theory
    >>> float(theory.optimum(1.0, 1.0).xi)
    -0.0
    """

    xi: Floats
    value: Floats
    curvature: Floats


def optimum(L: ArrayLike, lam: ArrayLike, coupling: str | Coupling = "sigmoid") -> Optimum:
    """Compute the quantifier's best answer to a loss L, Lemma 6.1.

    Parameters
    ----------
    L : array-like
        Loss of the regressor, positive.
    lam : array-like
        The factor of the joint loss, positive.
    coupling : str or Coupling, default="sigmoid"
        The functions f and g.

    Returns
    -------
    Optimum
        Minimiser, value and curvature, each of the broadcast shape of L and lam.

    Examples
    --------
    >>> from aleator import theory
    >>> round(float(theory.optimum(2.0, 1.0).xi), 4)  # ln(lam / L)
    -0.6931
    """
    L, lam, coupling = _read(L, lam, coupling)
    xi = _minimiser(L / lam, coupling)
    value = L * mapped(coupling.f, xi) + lam * mapped(coupling.g, xi)  # eq. (6.2)
    return Optimum(xi, value, quantifier_speed(L, lam, coupling))


def regressor_speed(L: ArrayLike, lam: ArrayLike, coupling: str | Coupling = "sigmoid") -> Floats:
    """Compute f at the optimum, the factor of the regressor's gradient in a region of loss L, eq. (6.4), (6.11).

    Parameters
    ----------
    L : array-like
        Loss of the regressor, positive.
    lam : array-like
        The factor of the joint loss, positive.
    coupling : str or Coupling, default="sigmoid"
        The functions f and g.

    Returns
    -------
    ndarray
        The factor.

    Examples
    --------
    >>> from aleator import theory
    >>> round(float(theory.regressor_speed(1.0, 1.0)), 4)  # ln(1 + lam / L)
    0.6931
    """
    L, lam, coupling = _read(L, lam, coupling)
    closed = _REGRESSOR.get(coupling.name) if _shipped(coupling) else None
    if closed is not None:
        return closed(L, lam)
    return mapped(coupling.f, _minimiser(L / lam, coupling))


def quantifier_speed(L: ArrayLike, lam: ArrayLike, coupling: str | Coupling = "sigmoid") -> Floats:
    """Compute the curvature of the joint loss at the optimum: how fast the quantifier learns, eq. (6.6), (6.12).

    Parameters
    ----------
    L : array-like
        Loss of the regressor, positive.
    lam : array-like
        The factor of the joint loss, positive.
    coupling : str or Coupling, default="sigmoid"
        The functions f and g.

    Returns
    -------
    ndarray
        The curvature.

    Examples
    --------
    >>> from aleator import theory
    >>> float(theory.quantifier_speed(1.0, 1.0))  # L lam / (L + lam)
    0.5
    """
    L, lam, coupling = _read(L, lam, coupling)
    closed = _QUANTIFIER.get(coupling.name) if _shipped(coupling) else None
    if closed is not None:
        return closed(L, lam)
    xi = _minimiser(L / lam, coupling)
    # At the optimum L f' = -lam g', so M'' = L f'' + lam g'' = L f' (ln f')' - L f' (ln -g')': of level = -g'/f', known
    # to full accuracy, only the slope of the logarithm is needed.
    return -L * mapped(coupling.df, xi) * _slope(lambda at: np.log(coupling.expected_loss(at, 1.0)), xi)


def regressor_ratio(lam: ArrayLike, L1: ArrayLike, L2: ArrayLike, coupling: str | Coupling = "sigmoid") -> Floats:
    """Compute R: how much more a row of a region with loss L1 counts for the regressor than one with L2.

    Sigmoid, eq. (6.7): L2 / L1 as lam -> 0, 1 as lam -> infinity. Softplus, eq. (6.13): L2 / L1 always.

    Parameters
    ----------
    lam : array-like
        The factor of the joint loss, positive.
    L1 : array-like
        Loss of the clean region.
    L2 : array-like
        Loss of the noisy region.
    coupling : str or Coupling, default="sigmoid"
        The functions f and g.

    Returns
    -------
    ndarray
        The ratio.

    Examples
    --------
    >>> from aleator import theory
    >>> round(float(theory.regressor_ratio(0.05, L1=0.01, L2=1.0)), 1)
    36.7
    """
    return regressor_speed(L1, lam, coupling) / regressor_speed(L2, lam, coupling)


def quantifier_ratio(lam: ArrayLike, L1: ArrayLike, L2: ArrayLike, coupling: str | Coupling = "sigmoid") -> Floats:
    """Compute Q: how much more a row of a region with loss L1 counts for the quantifier than one with L2.

    Sigmoid, eq. (6.8): 1 as lam -> 0, L1 / L2 as lam -> infinity. Softplus, eq. (6.14): 1, and (L1 / L2)^2.

    Parameters
    ----------
    lam : array-like
        The factor of the joint loss, positive.
    L1 : array-like
        Loss of the clean region.
    L2 : array-like
        Loss of the noisy region.
    coupling : str or Coupling, default="sigmoid"
        The functions f and g.

    Returns
    -------
    ndarray
        The ratio.

    Examples
    --------
    >>> from aleator import theory
    >>> round(float(theory.quantifier_ratio(2.0, L1=0.01, L2=1.0)), 4)
    0.0149
    """
    return quantifier_speed(L1, lam, coupling) / quantifier_speed(L2, lam, coupling)


@dataclass(frozen=True)
class Limits:
    """What a ratio tends to as lam -> 0 and as lam -> infinity.

    Attributes
    ----------
    small : float
        The limit for small lam.
    large : float
        The limit for large lam.

    Examples
    --------
    >>> from aleator import theory
    >>> theory.limits(0.01, 1.0)["regressor"]
    Limits(small=100.0, large=1.0)
    """

    small: float
    large: float


def limits(L1: float, L2: float, coupling: str | Coupling = "sigmoid") -> dict[str, Limits]:
    """Give the limits of both ratios for the paper's couplings, sec. 6.

    Parameters
    ----------
    L1 : float
        Loss of the clean region.
    L2 : float
        Loss of the noisy region.
    coupling : str or Coupling, default="sigmoid"
        One of the paper's couplings.

    Returns
    -------
    dict of str to Limits
        The limits of "regressor" and "quantifier".

    Raises
    ------
    ValueError
        For any other coupling.

    Examples
    --------
    >>> from aleator import theory
    >>> theory.limits(0.01, 1.0, "softplus")["quantifier"]
    Limits(small=1.0, large=0.0001)
    """
    _read([L1, L2], 1.0, coupling := couplings.get(coupling))
    known = {
        "sigmoid": {"regressor": Limits(L2 / L1, 1.0), "quantifier": Limits(1.0, L1 / L2)},
        "softplus": {"regressor": Limits(L2 / L1, L2 / L1), "quantifier": Limits(1.0, (L1 / L2) ** 2)},
    }
    if not _shipped(coupling):
        raise ValueError(f"the limits are known for {', '.join(known)}, not for {coupling.name!r}.")
    return known[coupling.name]


def contributions(*given: str | Coupling) -> pd.DataFrame:
    """Compute which region counts more, for small and for large lam: the paper's Table 1.

    A ratio is given by its order k in L2 / L1, where it behaves like (L2 / L1)^k as the losses of the two regions lie
    further and further apart: k = 0 is "=", 1 is ">", 2 is ">>".

    Parameters
    ----------
    *given : str or Coupling
        Couplings; by default the paper's two.

    Returns
    -------
    DataFrame
        A row for small and one for large lam, a column for each coupling and network.

    Examples
    --------
    >>> from aleator import theory
    >>> theory.contributions("sigmoid").loc["small"].tolist()
    ['clean > noisy', 'clean = noisy']
    """
    rows = {"small": 1e-7, "large": 1e7}
    clean, noisy = 1.0, 1e3
    table: dict[tuple[str, str], list[str]] = {}
    for coupling in map(couplings.get, given or ("sigmoid", "softplus")):
        if (coupling.name, "regressor") in table:
            raise ValueError(f"two couplings are named {coupling.name!r}; give them names of their own.")
        for network, ratio in (("regressor", regressor_ratio), ("quantifier", quantifier_ratio)):
            ratios = ratio(np.array(list(rows.values())), clean, noisy, coupling)
            table[coupling.name, network] = [_compared(k) for k in np.log(ratios) / np.log(noisy / clean)]
    return pd.DataFrame(table, index=pd.Index(rows, name="lam"))


def _compared(order: float) -> str:
    sign = "<" if order < 0 else ">"
    return f"clean {'=' if abs(order) < 0.25 else sign if abs(order) < 1.5 else 2 * sign} noisy"


def surface(
    losses: ArrayLike, lam: float, shares: ArrayLike | None = None, coupling: str | Coupling = "sigmoid"
) -> Floats:
    """Compute the joint loss over the regressor's weights, with the quantifier always at its optimum, eq. (6.1).

    Parameters
    ----------
    losses : array-like of shape (J, ...)
        Loss of each of J regions as a function of the weights.
    lam : float
        The factor of the joint loss, positive.
    shares : array-like of shape (J,), default=None
        Share of the rows in each region; None makes them equal.
    coupling : str or Coupling, default="sigmoid"
        The functions f and g.

    Returns
    -------
    ndarray of shape (...)
        The joint loss, sum_j C_j min_xi M(L_j, xi).

    Examples
    --------
    >>> from aleator import theory
    >>> theory.surface([[1.0, 1.0], [1.0, 4.0]], lam=1.0).round(3)
    array([1.386, 1.944])
    """
    losses = np.asarray(losses, np.float64)
    if losses.ndim == 0 or not len(losses):
        raise ValueError(f"losses must have a row for each region, got an array of shape {losses.shape}.")
    shares = np.full(len(losses), 1 / len(losses)) if shares is None else np.asarray(shares, np.float64)
    if shares.shape != losses.shape[:1]:
        raise ValueError(f"there are {len(losses)} regions, and shares of shape {shares.shape}.")
    joint: Floats = np.tensordot(shares, optimum(losses, lam, coupling).value, axes=1)  # eq. (6.1)
    return joint


# ---------------------------------------------------------------- closed forms

# At the optimum, as functions of L and lam; written so that neither a large nor a small lam / L loses anything.
_MINIMISER: dict[str, Callable[[Floats], Floats]] = {
    "sigmoid": lambda ratio: -np.log(ratio),  # Lemma 6.1, item 1, of ratio = L / lam
    "softplus": lambda ratio: 1 / ratio + np.log(-np.expm1(-1 / ratio)),  # ln(e^mu - 1) = mu + ln(1 - e^-mu)
}
_REGRESSOR: dict[str, Callable[[Floats, Floats], Floats]] = {
    "sigmoid": lambda L, lam: np.log1p(lam / L),  # Lemma 6.1, item 3; eq. (6.4)
    "softplus": lambda L, lam: lam / L,  # eq. (6.10), (6.11)
}
_QUANTIFIER: dict[str, Callable[[Floats, Floats], Floats]] = {
    "sigmoid": lambda L, lam: lam / (1 + lam / L),  # Lemma 6.1, item 2; eq. (6.6)
    "softplus": lambda L, lam: L * np.expm1(-lam / L) * (np.expm1(-lam / L) / (lam / L)),  # eq. (6.12)
}

# ---------------------------------------------------------------- any coupling


def _minimiser(ratio: Floats, coupling: Coupling) -> Floats:
    """The xi at which level(xi) = -g'/f' is L / lam: there the derivative of M vanishes."""
    closed = _MINIMISER.get(coupling.name) if _shipped(coupling) else None
    if closed is not None:
        return closed(ratio)

    def excess(xi: float, target: float) -> float:
        return float(np.log(coupling.expected_loss(xi, 1.0)) - target)  # falls from above 0 to below

    found = [_root(excess, float(np.log(r))) for r in ratio.ravel()]
    return np.array(found).reshape(ratio.shape)


def _root(function: Callable[[float, float], float], target: float) -> float:
    low, high = -1.0, 1.0
    while function(low, target) < 0 and low > -1e8:
        low *= 2
    while function(high, target) > 0 and high < 1e8:
        high *= 2
    return float(brentq(function, low, high, args=(target,), xtol=1e-13, rtol=1e-14))


def _slope(function: Callable[[Floats], Floats], at: Floats) -> Floats:
    """The derivative by central differences of fourth order."""
    h = 1e-3
    near, far = function(at + h) - function(at - h), function(at + 2 * h) - function(at - 2 * h)
    return (8 * near - far) / (12 * h)


def _shipped(coupling: Coupling) -> bool:
    return COUPLINGS.get(coupling.name) is coupling


def _read(L: ArrayLike, lam: ArrayLike, coupling: str | Coupling) -> tuple[Floats, Floats, Coupling]:
    L, lam = np.broadcast_arrays(np.asarray(L, np.float64), np.asarray(lam, np.float64))
    for name, values in (("L", L), ("lam", lam)):
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(
                f"{name} must be positive and finite, got {values[~(values > 0) | ~np.isfinite(values)][0]}."
            )
    return L, lam, couplings.get(coupling)
