"""Losses and couplings as torch functions: the twins of `aleator.losses` and `aleator.couplings`, by the same names.

A loss is a function (y_pred, y) -> losses, elementwise, in the order of torch's own criteria. A coupling is f and g as
functions of xi, the quantifier's output, with the expected loss over lam, level = -(dg/dxi) / (df/dxi): by a closed
form where there is a safe one, otherwise by automatic differentiation. Nothing here averages.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aleator import couplings, losses
from aleator.couplings import LARGEST_EXPONENT
from aleator.losses import Cost, Loss

Elementwise = Callable[[Tensor], Tensor]
TorchLoss = Callable[[Tensor, Tensor], Tensor]

# ---------------------------------------------------------------- losses


def squared(y_pred: Tensor, y: Tensor) -> Tensor:
    return (y_pred - y).square()


def absolute(y_pred: Tensor, y: Tensor) -> Tensor:
    return (y_pred - y).abs()


def huber(delta: float) -> TorchLoss:
    def loss(y_pred: Tensor, y: Tensor) -> Tensor:
        r = (y_pred - y).abs()
        inside = r.clamp(max=delta)
        return inside * (r - 0.5 * inside)

    return loss


def pinball(q: float) -> TorchLoss:
    def loss(y_pred: Tensor, y: Tensor) -> Tensor:
        return q * F.relu(y - y_pred) + (1.0 - q) * F.relu(y_pred - y)

    return loss


def logcosh(y_pred: Tensor, y: Tensor) -> Tensor:
    r = (y_pred - y).abs()
    near, far = r.clamp(max=1.0), r.clamp(min=1.0)
    small = torch.log1p(0.5 * torch.expm1(near).square() * torch.exp(-near))  # cosh r - 1 = (e^r - 1)^2 / (2 e^r)
    return torch.where(r < 1.0, small, far + torch.log1p(torch.exp(-2.0 * far)) - math.log(2.0))


_PLAIN = {"squared": squared, "absolute": absolute, "logcosh": logcosh}
_FAMILIES = {"huber": huber, "pinball": pinball}


def loss_of(loss: str | Loss | TorchLoss) -> tuple[TorchLoss, Loss | Cost]:
    """The torch function of a loss, by name or custom, and the same loss on arrays."""
    if isinstance(loss, str) or (isinstance(loss, Loss) and losses.is_shipped(loss)):
        twin = losses.get(loss)
        family, _, parameter = twin.name.partition("(")
        return (_FAMILIES[family](float(parameter[:-1])) if parameter else _PLAIN[family]), twin
    if isinstance(loss, Loss) or not callable(loss):
        raise ValueError(
            f"loss must be a name or a torch function (y_pred, y) -> losses, got {getattr(loss, 'name', loss)!r}."
        )
    return loss, Cost(OnArrays(loss))


@dataclass(frozen=True)
class OnArrays:
    """A torch loss as a function (y, y_pred) of arrays, which is the order of `aleator.metrics`."""

    loss: TorchLoss

    def __call__(self, y: Any, y_pred: Any) -> Any:
        return self.loss(torch.tensor(y_pred), torch.tensor(y)).numpy()

    @property
    def __name__(self) -> str:
        return str(getattr(self.loss, "__name__", type(self.loss).__name__))


# ---------------------------------------------------------------- couplings


@dataclass(frozen=True)
class TorchCoupling:
    """f and g of xi, and -g'/f'."""

    name: str
    f: Elementwise
    g: Elementwise
    level: Elementwise


def _softplus(xi: Tensor) -> Tensor:
    return -F.logsigmoid(-xi)


def _softplus_of_minus(xi: Tensor) -> Tensor:
    return -F.logsigmoid(xi)


def _minus_log_softplus(xi: Tensor) -> Tensor:
    far, near = xi.clamp(max=-15.0), xi.clamp(min=-15.0)  # ln(1 + t) = t (1 - t/2 + t^2/3 ...), t = e^xi
    t = far.exp()
    return torch.where(xi < -15.0, t * (0.5 - 5.0 / 24.0 * t) - far, -_softplus(near).log())


def _exponential(exponent: Tensor) -> Tensor:
    largest = min(LARGEST_EXPONENT, math.log(torch.finfo(exponent.dtype).max) - 8.0)
    return exponent.clamp(max=largest).exp()


def _sigmoid_level(xi: Tensor) -> Tensor:
    return _exponential(-xi)


def _softplus_level(xi: Tensor) -> Tensor:
    return torch.where(xi < -30.0, _exponential(-xi), 1.0 / _softplus(xi.clamp(min=-30.0)))


COUPLINGS = {
    c.name: c
    for c in (
        TorchCoupling("sigmoid", _softplus, _softplus_of_minus, _sigmoid_level),
        TorchCoupling("softplus", _softplus, _minus_log_softplus, _softplus_level),
    )
}


def coupling_of(coupling: Any) -> TorchCoupling:
    """A coupling by name, or from two torch functions (f, g) of xi, which are tried against the Condition 3.1."""
    if isinstance(coupling, TorchCoupling):
        return coupling
    if isinstance(coupling, (str, couplings.Coupling)):
        known = couplings.get(coupling)
        if couplings.COUPLINGS.get(known.name) is not known:
            raise ValueError(f"coupling {known.name!r} is not of torch: give its f and g as two torch functions of xi.")
        return COUPLINGS[known.name]
    if not (isinstance(coupling, tuple) and len(coupling) == 2 and all(map(callable, coupling))):
        raise ValueError(f"coupling must be a name or two torch functions (f, g) of xi, got {coupling!r}.")
    f, g = coupling
    own = TorchCoupling("own", f, g, lambda xi: -slope(g)(xi) / slope(f)(xi))  # Interpretation 4.1
    couplings.check_condition(own.name, *(_scalar(part) for part in (f, g, slope(f), slope(g))))
    return own


def slope(function: Elementwise) -> Elementwise:
    """The derivative of an elementwise function, which can be differentiated again."""
    derivative: Elementwise = torch.func.grad(lambda xi: function(xi).sum())
    return derivative


def _scalar(function: Elementwise) -> Callable[[float], float]:
    return lambda xi: float(function(torch.tensor(xi, dtype=torch.float64)))
