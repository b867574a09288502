"""Objectives: what one sample adds to the training objective, as a function of its loss L and the quantifier's xi.

A training method differs from another by this one value. With L = L_r(y, y_r), summed over the outputs that share a
quantifier, and xi the quantifier's last pre-activation, an objective is

    (L, xi, lam) -> value, d value / dL, d value / dxi,

and the chain rule gives the regressor its derivative: d value / dy_r = (d value / dL) (dL / dy_r).

| objective | value | expected loss |
| --- | --- | --- |
| joint(coupling) | L f(xi) + lam g(xi), eq. (3.1) of the paper | lam level(xi) |
| gaussian | L / (2 V) + ln(V) / 2, V = softplus(xi) + 1e-6, with the squared loss | V |
| laplace | L / b + ln b, b = softplus(xi) + 1e-6, with the absolute loss | b |
| beta_nll(loss, beta) | either likelihood times V^beta or b^beta, held constant in the derivatives | V or b |
| plain | L | none: no quantifier |

A quantifier for a regressor that is already there uses the joint objective with the losses as data: see `given`.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike, NDArray

from aleator.compiled_functions import COUPLING_SIGNATURE, compiled, mapped
from aleator.couplings import COUPLINGS, Coupling
from aleator.losses import Loss, absolute, is_squared

__all__ = [
    "OBJECTIVES",
    "Objective",
    "beta_nll",
    "joint",
    "likelihood",
]

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Objective:
    """What one row adds to the training objective, as a function of its loss L and the quantifier's output xi.

    Parameters
    ----------
    name : str
        A name, for files and messages.
    evaluate : callable
        A function ``(L, xi, lam) -> (value, d value / d L, d value / d xi)`` of floats.
    expected_loss : callable or None
        A function ``(xi, lam) -> expected loss`` of arrays; None if there is no quantifier.
    level : callable, default=None
        The expected loss over lam, as a scalar function of xi.
    judge : Objective, default=None
        The objective whose values tell how good a model is, if it is not this one.
    share : float, default=1.0
        For a likelihood: its value is share (L / V + ln V).
    measures : str, default="joint_loss"
        What its values are called in `history_`.

    Examples
    --------
    >>> from aleator.couplings import get
    >>> from aleator.objectives import joint
    >>> value, slope_of_loss, slope_of_xi = joint(get("sigmoid")).evaluate(1.0, 0.0, 1.0)
    >>> round(value, 4), round(slope_of_loss, 4), round(slope_of_xi, 4)
    (1.3863, 0.6931, 0.0)
    """

    name: str
    evaluate: Callable[[float, float, float], Triple]
    expected_loss: Callable[[ArrayLike, float | NDArray[np.float64]], NDArray[np.float64]] | None
    level: Callable[[float], float] | None = None  # expected loss over lam, of one xi, where that is what it is
    judge: "Objective | None" = None
    share: float = 1.0  # of a likelihood: its value is share (L / V + ln V)
    measures: str = "joint_loss"  # what its values are called, or "score" where they have no unit

    @property
    def quantifies(self) -> bool:
        """Whether there is a quantifier at all."""
        return self.expected_loss is not None


# ---------------------------------------------------------------- joint loss

# The two couplings of the paper with their common terms computed once: one exponential, one or two logarithms.


def _joint_sigmoid(L: float, xi: float, lam: float) -> Triple:
    t = math.exp(-abs(xi))
    f = max(xi, 0.0) + math.log1p(t)
    sigma = 1.0 / (1.0 + t) if xi >= 0.0 else t / (1.0 + t)
    rest = t / (1.0 + t) if xi >= 0.0 else 1.0 / (1.0 + t)
    return L * f + lam * (f - xi), f, L * sigma - lam * rest  # eq. (3.1) with (5.2); the slope as in Lemma 6.1


def _joint_softplus(L: float, xi: float, lam: float) -> Triple:
    t = math.exp(-abs(xi))
    f = max(xi, 0.0) + math.log1p(t)
    sigma = 1.0 / (1.0 + t) if xi >= 0.0 else t / (1.0 + t)
    if xi < -30.0:
        return L * f + lam * (0.5 * t - xi), f, L * sigma + lam * (0.5 * t - 1.0)
    return L * f - lam * math.log(f), f, L * sigma - lam * sigma / f  # eq. (3.1) with (5.4)


_FUSED = {"sigmoid": _joint_sigmoid, "softplus": _joint_softplus}


@functools.cache
def joint(coupling: Coupling) -> Objective:
    """Make the joint loss L f + lam g of a coupling, eq. (3.1).

    Parameters
    ----------
    coupling : Coupling
        The functions f and g.

    Returns
    -------
    Objective
        The objective.

    Examples
    --------
    >>> from aleator import couplings, objectives
    >>> objectives.joint(couplings.get("softplus")).name
    'joint-softplus'
    """
    shipped = COUPLINGS.get(coupling.name) is coupling and coupling.name in _FUSED
    evaluate = _FUSED[coupling.name] if shipped else composed(coupling)
    return Objective(f"joint-{coupling.name}", evaluate, coupling.expected_loss, coupling.level_of())


def composed(coupling: Coupling) -> Callable[[float, float, float], Triple]:
    """The joint loss from the four functions of any coupling."""
    parts = (coupling.f, coupling.g, coupling.df, coupling.dg)
    f, g, df, dg = (compiled(part, COUPLING_SIGNATURE) for part in parts)

    def evaluate(L: float, xi: float, lam: float) -> Triple:
        return L * f(xi) + lam * g(xi), f(xi), L * df(xi) + lam * dg(xi)  # eq. (3.1)

    return evaluate


@functools.cache
def log_score(objective: Objective) -> Objective:
    """L / e + ln e with e the expected loss: judges prediction and quantifier whatever lam was; least where e = E L."""
    if objective.level is None:
        return objective
    level = compiled(objective.level, COUPLING_SIGNATURE)

    def evaluate(L: float, xi: float, lam: float) -> Triple:
        e = lam * level(xi)
        return L / e + math.log(e), 0.0, 0.0

    return Objective(f"log-score-{objective.name}", evaluate, objective.expected_loss, measures="score")


def _given(y: float, y_r: float) -> float:
    return y


def _given_slope(y: float, y_r: float) -> float:
    return 0.0


# The "loss" of a sample whose loss is already known and stands in place of its target.
given = Loss("given", _given, _given_slope)

# ---------------------------------------------------------------- likelihoods

LEAST_SPREAD = 1e-6


@register_jitable
def _spread(xi: float) -> float:
    return max(xi, 0.0) + math.log1p(math.exp(-abs(xi))) + LEAST_SPREAD


@register_jitable
def _nll(share: float, L: float, xi: float) -> Triple:
    """Share (L / V + ln V), V the spread: Gaussian with share 1/2 (squared loss), Laplace with 1 (absolute loss)."""
    V = _spread(xi)
    t = math.exp(-abs(xi))
    sigma = 1.0 / (1.0 + t) if xi >= 0.0 else t / (1.0 + t)
    return share * (L / V + math.log(V)), share / V, share * (1.0 - L / V) / V * sigma


def _gaussian(L: float, xi: float, lam: float) -> Triple:
    return _nll(0.5, L, xi)


def _laplace(L: float, xi: float, lam: float) -> Triple:
    return _nll(1.0, L, xi)


def _spread_as_loss(xi: ArrayLike, lam: float | NDArray[np.float64]) -> NDArray[np.float64]:
    return mapped(_spread, xi)


# ---------------------------------------------------------------- no quantifier


def _plain(L: float, xi: float, lam: float) -> Triple:
    return L, 1.0, 0.0


OBJECTIVES: dict[str, Objective] = {
    "joint-sigmoid": joint(COUPLINGS["sigmoid"]),
    "joint-softplus": joint(COUPLINGS["softplus"]),
    "gaussian": Objective("gaussian", _gaussian, _spread_as_loss, share=0.5),
    "laplace": Objective("laplace", _laplace, _spread_as_loss),
    "plain": Objective("plain", _plain, None),
}


def likelihood(loss: Loss) -> Objective:
    """Get the likelihood that belongs to a loss.

    Parameters
    ----------
    loss : Loss
        The squared loss (Gaussian) or the absolute loss (Laplace).

    Returns
    -------
    Objective
        The objective.

    Raises
    ------
    ValueError
        For any other loss.

    Examples
    --------
    >>> from aleator import losses, objectives
    >>> objectives.likelihood(losses.squared).name
    'gaussian'
    """
    if is_squared(loss):
        return OBJECTIVES["gaussian"]
    if loss.value is absolute.value:
        return OBJECTIVES["laplace"]
    raise ValueError(
        "a likelihood belongs to the squared loss (Gaussian) and to the absolute loss (Laplace), "
        f"not to the {loss.name!r} loss."
    )


@functools.cache
def beta_nll(loss: Loss, beta: float) -> Objective:
    """Make the beta-NLL: the likelihood times spread^beta, which is not differentiated.

    beta = 0 is the likelihood. beta = 1 gives the regressor the derivative of the plain loss. Values at different
    spreads do not compare, so models are judged by the likelihood.

    Parameters
    ----------
    loss : Loss
        The squared or the absolute loss.
    beta : float
        The exponent.

    Returns
    -------
    Objective
        The objective.

    References
    ----------
    .. [1] M. Seitzer, A. Tavakoli, D. Antic, G. Martius, "On the pitfalls of heteroscedastic uncertainty estimation
       with probabilistic neural networks", ICLR 2022.

    Examples
    --------
    >>> from aleator import losses, objectives
    >>> objectives.beta_nll(losses.squared, 0.5).name
    'beta-nll-gaussian'
    """
    plain = likelihood(loss)
    share = plain.share

    def evaluate(L: float, xi: float, lam: float) -> Triple:
        weight = _spread(xi) ** beta
        value, dL, dxi = _nll(share, L, xi)
        return weight * value, weight * dL, weight * dxi

    return Objective(f"beta-nll-{plain.name}", evaluate, plain.expected_loss, judge=plain)
