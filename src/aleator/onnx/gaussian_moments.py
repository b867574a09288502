"""Probabilistic backpropagation as ONNX: the moments of `baselines/pbp.py`, (5), (6) and (7), in float64.

onnxruntime has no error function in float64, so the tail of the normal distribution is Chebyshev's polynomial for
(1 + 2 z) erfcx(z), computed here once.
"""

import functools
import itertools

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import erfcx

from aleator.onnx.graph import Value, absolute, beside, columns, exp, maximum, sqrt, where

Floats = NDArray[np.float64]
MIDDLE, DEGREE = 3.75, 24  # z in [0, inf) is u = (z - MIDDLE) / (z + MIDDLE) in [-1, 1)


@functools.cache
def _coefficients() -> tuple[float, ...]:
    u = chebyshev.chebpts1(DEGREE + 1)
    z = MIDDLE * (1 + u) / (1 - u)
    return tuple(float(c) for c in chebyshev.chebfit(u, (1 + 2 * z) * erfcx(z), DEGREE))


def normal_tails(alpha: Value) -> tuple[Value, Value]:
    """Phi(alpha) and Phi(-alpha)."""
    z = absolute(alpha) * np.sqrt(0.5)
    u = (z - MIDDLE) / (z + MIDDLE)
    ahead, here = 0.0 * u, 0.0 * u
    for c in _coefficients()[:0:-1]:  # Clenshaw's rule
        here, ahead = 2.0 * u * here - ahead + c, here
    tail = 0.5 * exp(-z * z) * (u * here - ahead + _coefficients()[0]) / (1.0 + 2.0 * z)
    negative = alpha < 0.0
    return where(negative, tail, 1.0 - tail), where(negative, 1.0 - tail, tail)


def relu_moments(mu: Value, variance: Value) -> tuple[Value, Value]:
    """(6), (7): mean and variance of max(x, 0) for x ~ N(mu, variance)."""
    s = sqrt(variance)
    alpha = mu / s
    Phi, rest = normal_tails(alpha)
    phi = exp(-0.5 * alpha * alpha) / np.sqrt(2 * np.pi)
    E = maximum(mu * Phi + s * phi, 0.0)
    V = variance * maximum(Phi + alpha * alpha * Phi * rest + alpha * phi * (rest - Phi) - phi * phi, 0.0)
    return E, V


def forward(x: Value, sizes: NDArray[np.int64], m: Floats, v: Floats) -> tuple[Value, Value]:
    """(5): mean and variance of the outputs, (n, M) each, for standardised inputs x (n, D)."""
    variance, at = 0.0 * x, 0
    for k, (I, U) in enumerate(itertools.pairwise(int(size) for size in sizes)):
        M, V = (part[at : at + (I + 1) * U].reshape(I + 1, U) for part in (m, v))
        if k > 0:
            x, variance = relu_moments(x, variance)
        one = 1.0 + 0.0 * columns(x, 0, 1)  # the input of the bias
        x, variance = beside(x, one), beside(variance, 0.0 * one)
        x, variance = (
            (x @ M) / np.sqrt(I + 1),
            ((x * x + variance) @ V + variance @ (M * M)) / (I + 1),
        )
        at += (I + 1) * U
    return x, variance
