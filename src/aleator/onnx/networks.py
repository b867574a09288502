"""What networks compute, as ONNX: layers, objectives, mixtures and corrections, formula by formula as in the library.

Members come first: K networks of one shape are one stack of weights, (K, inputs, units), and one product. Networks work
in float32, as the engine does; everything before and after, in the user's units, in float64.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import couplings, losses, mixtures, objectives
from aleator.engine import Network
from aleator.engine.kernels import INPUTS, KIND, LEFT, OUTPUT, SOURCE, STRIDE, TANH, TARGET, UNITS, WEIGHTS
from aleator.losses import Loss
from aleator.objectives import LEAST_SPREAD, Objective
from aleator.onnx.graph import (
    Value,
    absolute,
    activate,
    beside,
    cast,
    clip,
    columns,
    exp,
    log,
    maximum,
    mean,
    minimum,
    softplus,
    total,
    where,
)
from aleator.preprocessing.standardisation import Scaling

Floats = NDArray[np.float64]
Parts = tuple[Value, Value, Value]


def standardised(x: Value, scaling: Scaling) -> Value:
    """(x - mean) / spread, clipped: what `kernels.gather` computes."""
    shift, scale, ends = scaling.to_inputs
    return clip((x - shift) * scale, *ends)


def outputs(network: Network, params: NDArray[np.float32], x: Value) -> tuple[Value, Value]:
    """y_r (K, n, M) and xi (K, n, Q) of K members, float64; `x` is standardised. One that is absent is the other."""
    K, made = len(params), {0: cast(x, np.float32)}
    for layer in network.layers:
        I, U, at = (int(layer[k]) for k in (INPUTS, UNITS, WEIGHTS))
        weights, bias = params[:, at : at + I * U], params[:, at + I * U : at + I * U + U]
        source, left = made[int(layer[SOURCE])], int(layer[LEFT])
        if int(layer[STRIDE]) > I:
            source = columns(source, left, left + I)
        if layer[KIND] == OUTPUT:
            made[int(layer[TARGET])] = source @ weights.reshape(K, U, I).transpose(0, 2, 1) + bias[:, None]
        else:
            kind = "tanh" if layer[KIND] == TANH else "relu"
            made[int(layer[TARGET])] = activate(source @ weights.reshape(K, I, U) + bias[:, None], kind)
    y_r, xi = (cast(made[int(network.outputs[k])], np.float64) for k in (0, 2))
    return y_r, xi


# ---------------------------------------------------------------- what xi means


def level(coupling: couplings.Coupling) -> Callable[[Value], Value]:
    """Expected loss over lam (Interpretations 5.1 and 5.2)."""
    if couplings.COUPLINGS.get(coupling.name) is not coupling:
        raise ValueError(f"the coupling {coupling.name!r} is custom: ONNX export knows sigmoid and softplus.")
    return _sigmoid_level if coupling.name == "sigmoid" else _softplus_level


def _sigmoid_level(xi: Value) -> Value:
    return exp(minimum(-xi, couplings.LARGEST_EXPONENT))


def _softplus_level(xi: Value) -> Value:
    return where(xi < -30.0, _sigmoid_level(xi), 1.0 / softplus(maximum(xi, -30.0)))


def expected_loss(objective: Objective, xi: Value, lams: Floats) -> Value:
    """What xi (K, n, Q) says the loss will be, in units of the loss."""
    if objective.level is None:  # the likelihoods
        return softplus(xi) + LEAST_SPREAD
    shipped = {objectives.joint(coupling): coupling for coupling in couplings.COUPLINGS.values()}
    if objective not in shipped:
        raise ValueError(
            f"the objective {objective.name!r} has a custom coupling: ONNX export knows sigmoid and softplus."
        )
    return lams.reshape(-1, 1, 1) * level(shipped[objective])(xi)


# ---------------------------------------------------------------- mixtures


def mixed(mu: Value, expected: Value, loss: Loss, shared: bool) -> Parts:
    """Mean (n, M), aleatoric and epistemic loss (n, Q) of members' mu (K, n, M) and expected losses (K, n, Q).

    `shared`: one quantifier speaks for all outputs, whose losses are added up.
    """
    middle, rule = mean(mu, 0), mixtures.of(loss)

    def together(each: Value) -> Value:
        return total(each, -1, keep=True) if shared else each

    if rule is mixtures.gaussian:  # eq. (4.11)
        epistemic = together((mu - middle) * (mu - middle))
    elif rule is mixtures.laplace:  # eq. (4.12): d + b (exp(-d/b) - 1)
        d = together(absolute(mu - middle))
        epistemic = maximum(d + expected * _expm1(-d / maximum(expected, 1e-300)), 0.0)
    else:
        epistemic = together(losses_of(loss)(mu, middle))
    return middle, mean(expected, 0), mean(epistemic, 0)


def _expm1(x: Value) -> Value:
    """e^x - 1 for x <= 0; the series where the difference would lose digits."""
    series = x * (1.0 + x * (0.5 + x * (1 / 6 + x * (1 / 24 + x / 120))))
    return where(x < -0.01, exp(x) - 1.0, series)


def losses_of(loss: Loss) -> Callable[[Value, Value], Value]:
    """A loss of the library as nodes, of targets and predictions."""
    family, _, parameter = loss.name.partition("(")
    if not losses.is_shipped(loss):
        raise ValueError(
            f"the loss {loss.name!r} is custom: ONNX export cannot compute what members disagree on by it."
        )
    number = float(parameter[:-1]) if parameter else 0.0
    if family == "huber":
        return lambda y, y_r: _huber(absolute(y_r - y), number)
    if family == "pinball":
        return lambda y, y_r: number * maximum(y - y_r, 0.0) + (1.0 - number) * maximum(y_r - y, 0.0)
    return {"squared": _squared, "absolute": lambda y, y_r: absolute(y_r - y), "logcosh": _logcosh}[family]


def _squared(y: Value, y_r: Value) -> Value:
    return (y_r - y) * (y_r - y)


def _huber(r: Value, delta: float) -> Value:
    inside = minimum(r, delta)
    return inside * (r - 0.5 * inside)


def _logcosh(y: Value, y_r: Value) -> Value:
    r = absolute(y_r - y)
    s = r * r  # the series where r + ln(1 + e^-2r) - ln 2 would lose digits
    near = s * (0.5 - s * (1 / 12 - s * (1 / 45 - s * (17 / 2520))))
    return where(r < 0.05, near, r + log(1.0 + exp(-2.0 * r)) - np.log(2.0))


# ---------------------------------------------------------------- corrections


def scaled(model: Any, expected: Value) -> Value:
    """The expected loss (n, Q) with the scale and the limits of `fit` and the curves of `recalibrate`."""
    expected = expected * model.loss_scale_
    if hasattr(model, "loss_limits_"):
        expected = clip(expected, *model.loss_limits_)
    curves = model.loss_correction_.curves
    if curves is None:
        return expected
    parts = [columns(expected, k, k + 1) for k in range(len(curves))]
    return beside(*(_corrected(curve, part) for curve, part in zip(curves, parts, strict=True)))


def _corrected(curve: Any, expected: Value) -> Value:
    """`recalibration.Correction`: straight between knots, in proportion beyond them."""
    inside = clip(expected, curve.before[0], curve.before[-1])
    beyond = where(inside > 0.0, expected / inside, 1.0)
    value: Any = curve.after[0]
    for k in range(len(curve.before) - 1):
        rise, width = curve.after[k + 1] - curve.after[k], curve.before[k + 1] - curve.before[k]
        value = value + rise * clip((inside - curve.before[k]) / width, 0.0, 1.0)
    corrected: Value = beyond * value
    return corrected
