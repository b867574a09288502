"""Couplings: how the quantifier's output weighs the regressor's loss (paper, sec. 3 and 5).

The joint loss of a sample is L f(z) + lam g(z), where z = Z(xi) and xi is the quantifier's last pre-activation.
A coupling is the two functions f and g *of xi*, with their derivatives: z itself never appears, because
log z and log(1 - z) lose everything once z has been rounded. Since g'(z)/f'(z) = (dg/dxi)/(df/dxi),

    expected loss = -lam g'(z) / f'(z) = lam level(xi),      level(xi) = -(dg/dxi) / (df/dxi).      (Interpretation 4.1)

| name | Z(xi) | f(z) | g(z) | in xi: f, g | level |
| --- | --- | --- | --- | --- | --- |
| sigmoid, eq. (5.1), (5.2) | 1/(1 + e^-xi) | -ln(1 - z) | -ln z | softplus(xi), softplus(-xi) | e^-xi = 1/z - 1 |
| softplus, eq. (5.3), (5.4) | ln(1 + e^xi) | z | -ln z | softplus(xi), -ln softplus(xi) | 1/z |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike, NDArray

from aleator.compiled_functions import COUPLING_SIGNATURE, compiled, mapped
from aleator.suggestions import suggestion

__all__ = [
    "COUPLINGS",
    "Coupling",
    "get",
]

Scalar = Callable[[float], float]

# A level beyond exp(600) = 1e260 is held there, so that an expected loss in any units stays a number.
LARGEST_EXPONENT = 600.0

_PLACES = [float(xi) for xi in np.linspace(-20, 20, 161)]  # where couplings are tried


@dataclass(frozen=True)
class Coupling:
    """Two functions f and g of xi that satisfy the paper's Condition 3.1.

    The condition is checked numerically when the value is made. Part 1: f > 0, df > 0 and dg < 0 everywhere. Part 2:
    for every L > 0, L f + lam g has a finite minimum. All functions take and return a float and are compiled when first
    used.

    Parameters
    ----------
    name : str
        A name, for messages and files.
    f, g : callable
        The weight of the loss, and the price of a small weight, as functions of xi.
    df, dg : callable
        Their derivatives with respect to xi.
    level : callable, default=None
        A safe closed form of -dg/df, the expected loss over lam; None divides.

    Examples
    --------
    >>> import math
    >>> from aleator.couplings import Coupling
    >>> exponential = Coupling("exponential", math.exp, lambda xi: -xi, math.exp, lambda xi: -1.0)
    >>> exponential.expected_loss([0.0], 0.5)
    array([0.5])
    """

    name: str
    f: Scalar
    g: Scalar
    df: Scalar
    dg: Scalar
    level: Scalar | None = None

    def __post_init__(self) -> None:
        check(self)

    def __reduce__(self) -> Any:
        if COUPLINGS.get(self.name) is self:  # so that a copy is the coupling itself
            return get, (self.name,)
        return Coupling, (self.name, self.f, self.g, self.df, self.dg, self.level)

    def level_of(self) -> Scalar:
        """Give -dg/df as a scalar function of xi.

        Returns
        -------
        callable
            A function ``xi -> float``.
        """
        if self.level is not None:
            return self.level
        df, dg = (compiled(part, COUPLING_SIGNATURE) for part in (self.df, self.dg))
        return lambda xi: -dg(xi) / df(xi)

    @property
    def is_exponential(self) -> bool:
        """Whether the level is e^-xi, as of the sigmoid: then another lam is no more than a shift of xi by ln lam."""
        levels = self.expected_loss(_PLACES, 1.0)
        return bool(np.allclose(np.log(levels), -np.array(_PLACES), rtol=0, atol=1e-9))

    def expected_loss(self, xi: ArrayLike, lam: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the expected loss -lam g'(z) / f'(z) (Interpretation 4.1).

        Parameters
        ----------
        xi : array-like
            Output of the quantifier.
        lam : float or ndarray
            The factor of the joint loss.

        Returns
        -------
        ndarray
            Expected losses, of the shape of xi.
        """
        if self.level is not None:
            return lam * mapped(self.level, xi)  # Interpretations 5.1 and 5.2
        return -lam * mapped(self.dg, xi) / mapped(self.df, xi)


def check(coupling: Coupling) -> None:
    """Raise a ValueError that names what is wrong with a coupling, and where."""
    check_condition(coupling.name, coupling.f, coupling.g, coupling.df, coupling.dg)
    for function, derivative, letter in ((coupling.f, coupling.df, "f"), (coupling.g, coupling.dg, "g")):
        for xi in _PLACES:
            slope = derivative(xi)
            difference = (function(xi + 1e-5) - function(xi - 1e-5)) / 2e-5
            if abs(difference - slope) > 1e-4 * abs(slope) + 1e-7:
                raise ValueError(
                    f"coupling {coupling.name!r}: d{letter} is not the derivative of {letter} at xi={xi:g}: "
                    f"d{letter}={slope:g}, finite difference {difference:g}."
                )


def check_condition(name: str, f: Scalar, g: Scalar, df: Scalar, dg: Scalar) -> None:
    """Raise a ValueError that names the part of Condition 3.1 that fails, and where."""
    for xi in _PLACES:
        try:
            values = [float(part(xi)) for part in (f, g, df, dg)]
        except (ArithmeticError, ValueError, TypeError) as error:
            raise ValueError(f"coupling {name!r} cannot be evaluated at xi={xi:g}: {error}.") from error
        if not all(map(math.isfinite, values)):
            shown = ", ".join(f"{part}={value:g}" for part, value in zip(("f", "g", "df", "dg"), values, strict=True))
            raise ValueError(f"coupling {name!r} is not finite at xi={xi:g}: {shown}.")
        weight, _, rise, fall = values
        for part, fine, law in ((weight, weight > 0, "f > 0"), (rise, rise > 0, "f' > 0"), (fall, fall < 0, "g' < 0")):
            if not fine:
                raise ValueError(
                    f"coupling {name!r} fails part 1 of the Condition, {law}, at xi={xi:g}: it is {part:g} there."
                )
    for L in (1e-4, 1e-2, 1.0, 1e2, 1e4):
        _check_minimum(name, df, dg, L)


def _check_minimum(name: str, df: Scalar, dg: Scalar, L: float) -> None:
    """Part 2 at lam = 1: the derivative L df + dg is negative far to the left and positive far to the right."""
    for side, sign in (("left", -1.0), ("right", 1.0)):
        reach = 1.0
        while reach < 1e9:
            try:
                if sign * (L * df(sign * reach) + dg(sign * reach)) > 0:
                    break
            except ArithmeticError:  # beyond what floats can hold, and no minimum so far
                reach = math.inf
            reach *= 2.0
        else:
            raise ValueError(
                f"coupling {name!r} fails part 2 of the Condition: L f + lam g has no finite minimum for "
                f"L/lam={L:g}; it keeps falling to the {side}, as far as floats can hold it."
            )


@register_jitable
def softplus(xi: float) -> float:
    """ln(1 + e^xi) without overflow."""
    return max(xi, 0.0) + math.log1p(math.exp(-abs(xi)))


@register_jitable
def sigmoid(xi: float) -> float:
    """1 / (1 + e^-xi) without overflow."""
    t = math.exp(-abs(xi))
    return 1.0 / (1.0 + t) if xi >= 0.0 else t / (1.0 + t)


def _softplus_of_minus(xi: float) -> float:
    return softplus(-xi)


def _softplus_of_minus_slope(xi: float) -> float:
    return -sigmoid(-xi)


def _sigmoid_level(xi: float) -> float:
    return math.exp(min(-xi, LARGEST_EXPONENT))


def _minus_log_softplus(xi: float) -> float:
    if xi < -30.0:  # with t = e^xi: ln(1 + t) = t (1 - t/2 + ...), so its logarithm is xi - t/2
        return 0.5 * math.exp(xi) - xi
    return -math.log(softplus(xi))


def _minus_log_softplus_slope(xi: float) -> float:
    if xi < -30.0:
        return 0.5 * math.exp(xi) - 1.0
    return -sigmoid(xi) / softplus(xi)


def _softplus_level(xi: float) -> float:
    return math.exp(min(-xi, LARGEST_EXPONENT)) if xi < -30.0 else 1.0 / softplus(xi)


COUPLINGS: dict[str, Coupling] = {
    c.name: c
    for c in (
        Coupling("sigmoid", softplus, _softplus_of_minus, sigmoid, _softplus_of_minus_slope, _sigmoid_level),
        Coupling("softplus", softplus, _minus_log_softplus, sigmoid, _minus_log_softplus_slope, _softplus_level),
    )
}


def get(coupling: str | Coupling) -> Coupling:
    """Get a coupling by name.

    Parameters
    ----------
    coupling : str or Coupling
        "sigmoid", "softplus", or a `Coupling`, which is returned as it is.

    Returns
    -------
    Coupling
        The coupling.

    Raises
    ------
    ValueError
        If the name is unknown.

    Examples
    --------
    >>> from aleator import couplings
    >>> couplings.get("sigmoid").name
    'sigmoid'
    """
    if isinstance(coupling, Coupling):
        return coupling
    if not isinstance(coupling, str):
        raise ValueError(f"coupling must be a name or an aleator.couplings.Coupling, got {type(coupling).__name__}.")
    if coupling in COUPLINGS:
        return COUPLINGS[coupling]
    raise ValueError(f"unknown coupling {coupling!r}{suggestion(coupling, COUPLINGS)}")
