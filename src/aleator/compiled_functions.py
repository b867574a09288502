"""Scalar functions as values the engine can call.

The engine takes losses and objectives as pointers to compiled functions of float64 (Numba's first-class functions), so
the large training loop is compiled once and a new loss or coupling costs only its own few lines. What aleator ships is
kept in Numba's cache on disk, but for functions with a parameter of their own, such as huber(delta); these, and a
user's, are compiled in the process.
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.errors import NumbaError
from numpy.typing import ArrayLike, NDArray

PACKAGE = Path(__file__).parent

f8 = types.float64
LOSS_SIGNATURE = f8(f8, f8)  # (y, y_r) -> value, or slope
ROW_LOSS_SIGNATURE = f8(f8[::1], f8[::1])  # (y, y_r) of all outputs -> value
ROW_SLOPE_SIGNATURE = f8[::1](f8[::1], f8[::1])  # ... -> slopes
COUPLING_SIGNATURE = f8(f8)  # xi -> f, g or a derivative
OBJECTIVE_SIGNATURE = types.UniTuple(f8, 3)(f8, f8, f8)  # (L, xi, lam) -> value, d/dL, d/dxi


def jit(signature: Any = None, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Numba's `njit` with its cache on disk, or without where no directory can be written."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            cached: Callable[..., Any] = njit(signature, cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):  # a read-only installation without a home
                raise
            cached = njit(signature, **options)(function)
        return cached

    return decorate


@functools.cache
def compiled(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    """`function` compiled for `signature`; an error that names it if Numba cannot."""
    function = _plain(function)
    # Two closures of one function, read from the cache on disk, may bear one symbol: one is then taken for the other.
    ours = Path(function.__code__.co_filename).is_relative_to(PACKAGE) and not function.__closure__
    try:
        compiled_function: Callable[..., Any] = (jit if ours else njit)(signature, error_model="numpy")(function)
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in lines if not line.startswith("Failed in nopython")), lines[0])
        raise ValueError(
            f"{function.__qualname__} cannot be compiled; use arithmetic and the functions of `math` on "
            f"floats. Numba says: {reason}"
        ) from error
    return compiled_function


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function Numba can take: not `math.exp` itself, nor what is compiled already."""
    function = getattr(function, "py_func", function)
    if inspect.isfunction(function):
        return function
    return lambda x: function(x)


def mapped(function: Callable[..., Any], *arrays: ArrayLike) -> NDArray[np.float64]:
    """A scalar function over broadcast arrays, compiled."""
    signature = f8(*[f8] * len(arrays))
    loop = _loop(len(arrays))
    broadcast = np.broadcast_arrays(*[np.asarray(a, dtype=np.float64) for a in arrays])
    flat = [np.ascontiguousarray(a).ravel() for a in broadcast]
    out = np.empty(flat[0].size)
    loop(compiled(function, signature), *[frozen(a) for a in flat], out)
    return out.reshape(broadcast[0].shape)


def mapped_rows(function: Callable[..., Any], y: ArrayLike, y_pred: ArrayLike) -> NDArray[np.float64]:
    """A function of two rows over the last axis of broadcast arrays, compiled."""
    y, y_pred = np.broadcast_arrays(np.asarray(y, np.float64), np.asarray(y_pred, np.float64))
    rows, predictions = (np.ascontiguousarray(a).reshape(-1, a.shape[-1]) for a in (y, y_pred))
    out = np.empty(len(rows))
    _row_loop()(compiled(function, ROW_LOSS_SIGNATURE), rows, predictions, out)
    return out.reshape(y.shape[:-1])


def frozen(a: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written: the one type of array the compiled functions read."""
    view = a.view()
    view.flags.writeable = False
    return view


def _map1(function, x, out):  # type: ignore[no-untyped-def]
    for k in range(out.size):
        out[k] = function(x[k])


def _map2(function, x, y, out):  # type: ignore[no-untyped-def]
    for k in range(out.size):
        out[k] = function(x[k], y[k])


def _map_rows(function, y, y_pred, out):  # type: ignore[no-untyped-def]
    for k in range(out.size):
        out[k] = function(y[k], y_pred[k])


@functools.cache
def _row_loop() -> Callable[..., Any]:
    rows = f8[:, ::1]
    return jit(types.void(types.FunctionType(ROW_LOSS_SIGNATURE), rows, rows, f8[::1]), nogil=True)(_map_rows)


@functools.cache
def _loop(n: int) -> Callable[..., Any]:
    array = types.Array(f8, 1, "C", readonly=True)
    signature = types.void(types.FunctionType(f8(*[f8] * n)), *[array] * n, f8[::1])
    return jit(signature, nogil=True)(_map1 if n == 1 else _map2)
