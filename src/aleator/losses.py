"""Losses of a regressor, per sample: L(y, y_r) >= 0 and its slope dL/dy_r.

A loss is a value made of two scalar functions. The expected loss that aleator predicts is in the units of this value,
measured on the target as the user gave it. Nothing here averages; the trainer does.

| name | L(y, y_r), r = y_r - y | minimised by |
| --- | --- | --- |
| squared | r^2 | the mean |
| absolute | abs(r) | the median |
| huber(delta) | r^2 / 2 if abs(r) <= delta, else delta (abs(r) - delta / 2) | in between |
| pinball(q) | q max(-r, 0) + (1 - q) max(r, 0) | the q-quantile |
| logcosh | log cosh r | in between |
"""

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aleator.compiled_functions import mapped, mapped_rows
from aleator.suggestions import suggestion

__all__ = [
    "LOSSES",
    "Cost",
    "Loss",
    "absolute",
    "get",
    "huber",
    "logcosh",
    "pinball",
    "squared",
]

Scalar = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Loss:
    """A loss: its value, and the derivative of the value with respect to the prediction.

    ``value(y, y_r)`` and ``slope(y, y_r)`` take and return floats and are compiled when first used: plain arithmetic,
    ``math``, ``if``.

    Parameters
    ----------
    name : str
        A name, for messages and files.
    value : callable
        The loss ``(y, y_r) -> float`` of a prediction y_r.
    slope : callable
        Its derivative with respect to y_r.
    degree : int, default=None
        The p for which L(a + c y, a + c y_r) = c^p L(y, y_r) for every c > 0 and a. Training then works on the
        standardised target and does not depend on the unit of y. None if there is none.
    over_rows : bool, default=False
        Whether the loss is one number for all outputs of a row and no sum over them, such as the length of an error
        vector. `value` and `slope` then take arrays (m,), and `slope` returns one.

    Examples
    --------
    >>> from aleator.losses import Loss
    >>> late = Loss("late", lambda y, y_r: 5 * (y - y_r) if y > y_r else y_r - y,
    ...             lambda y, y_r: -5.0 if y > y_r else 1.0, degree=1)
    >>> late([3.0, 1.0], [1.0, 3.0])
    array([10.,  2.])
    """

    name: str
    value: Scalar
    slope: Scalar
    degree: int | None = None
    over_rows: bool = False

    def __post_init__(self) -> None:
        for part in ("value", "slope"):
            if not callable(getattr(self, part)):
                raise ValueError(f"{part} of the loss {self.name!r} must be a function (y, y_r) -> float.")
        if self.over_rows and self.degree is not None:
            raise ValueError(f"the loss {self.name!r} is over rows, and has no degree.")
        if not (self.degree is None or (isinstance(self.degree, int) and self.degree >= 1)):
            raise ValueError(
                f"degree of the loss {self.name!r} must be a whole number >= 1 or None, got {self.degree!r}."
            )

    def __call__(self, y: ArrayLike, y_pred: ArrayLike) -> NDArray[np.float64]:
        """Compute the loss of each row.

        Parameters
        ----------
        y : array-like
            Targets.
        y_pred : array-like
            Predictions; arrays are broadcast.

        Returns
        -------
        ndarray
            The losses. With `over_rows` the last axis is that of the outputs.
        """
        return mapped_rows(self.value, y, y_pred) if self.over_rows else mapped(self.value, y, y_pred)

    def __reduce__(self) -> Any:
        if is_shipped(self):  # functions made inside a function cannot be pickled, their name can
            return get, (self.name,)
        return Loss, (self.name, self.value, self.slope, self.degree, self.over_rows)


@dataclass(frozen=True)
class Cost:
    """A loss known by its values only: a plain function of arrays.

    A `LossQuantifier` can learn it, but nothing can be trained on it.

    Parameters
    ----------
    function : callable
        A function ``(y, y_pred) -> losses`` of arrays, with one loss for each row or output.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator.losses import Cost
    >>> late = Cost(lambda y, y_pred: np.where(y > y_pred, 5 * (y - y_pred), y_pred - y))
    >>> late([3.0, 1.0], [1.0, 3.0])
    array([10.,  2.])
    """

    function: Callable[..., Any]
    degree = None

    @property
    def name(self) -> str:
        """The name of the function, for messages and axes."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return "own" if name == "<lambda>" else str(name)

    def __call__(self, y: ArrayLike, y_pred: ArrayLike) -> NDArray[np.float64]:
        """Compute the loss of each row.

        Parameters
        ----------
        y : array-like
            Targets.
        y_pred : array-like
            Predictions.

        Returns
        -------
        ndarray
            The losses.

        Raises
        ------
        ValueError
            If the function fails or does not give a loss for each row.
        """
        y, y_pred = np.asarray(y, np.float64), np.asarray(y_pred, np.float64)
        try:
            each = np.asarray(self.function(y, y_pred))
        except (TypeError, ValueError, IndexError, ArithmeticError) as error:
            raise ValueError(
                f"loss {self.name!r} fails on arrays of {len(y)} targets and predictions: {error}"
            ) from error
        if each.ndim == 0 or len(each) != len(y):
            raise ValueError(
                f"loss {self.name!r} must give one loss for each of the {len(y)} rows, and gives "
                + ("a single number." if each.ndim == 0 else f"{len(each)}.")
            )
        if each.shape == (len(y), 1) != y.shape:  # one loss a row, as a column
            each = each[:, 0]
        if each.shape not in ((len(y),), y.shape):
            raise ValueError(f"loss {self.name!r} gives an array of shape {each.shape} for targets of shape {y.shape}.")
        try:
            return each.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"loss {self.name!r} must give numbers, and gives {each.dtype}.") from None


def _squared(y: float, y_r: float) -> float:
    return (y_r - y) * (y_r - y)


def _squared_slope(y: float, y_r: float) -> float:
    return 2.0 * (y_r - y)


def _absolute(y: float, y_r: float) -> float:
    return abs(y_r - y)


def _absolute_slope(y: float, y_r: float) -> float:
    return 1.0 if y_r > y else (-1.0 if y_r < y else 0.0)


def _logcosh(y: float, y_r: float) -> float:
    r = abs(y_r - y)
    if r < 1.0:  # cosh r = 1 + 2 sinh^2(r/2): no difference of nearly equal numbers
        return math.log1p(2.0 * math.sinh(0.5 * r) ** 2)
    return r + math.log1p(math.exp(-2.0 * r)) - 0.6931471805599453


def _logcosh_slope(y: float, y_r: float) -> float:
    return math.tanh(y_r - y)


def huber(delta: float = 1.0) -> Loss:
    """Make a Huber loss: half the squared error near the target, linear beyond.

    Parameters
    ----------
    delta : float, default=1.0
        Distance at which it becomes linear, in the units of the target.

    Returns
    -------
    Loss
        The loss ``huber(delta)``.

    Examples
    --------
    >>> from aleator import losses
    >>> losses.huber(1.0)([0.0, 0.0], [0.5, 3.0])
    array([0.125, 2.5  ])
    """
    if not (math.isfinite(delta) and delta > 0):
        raise ValueError(f"huber: delta must be a positive number, got {delta!r}.")
    return _huber(float(delta))


@functools.cache
def _huber(delta: float) -> Loss:
    def value(y: float, y_r: float) -> float:
        r = abs(y_r - y)
        return 0.5 * r * r if r <= delta else delta * (r - 0.5 * delta)

    def slope(y: float, y_r: float) -> float:
        return min(max(y_r - y, -delta), delta)

    return Loss(f"huber({delta!r})", value, slope)


def pinball(q: float = 0.5) -> Loss:
    """Make a pinball loss, for which the best prediction is the q-quantile.

    Parameters
    ----------
    q : float, default=0.5
        The quantile. A prediction that is too low costs q a unit, one that is too high 1 - q.

    Returns
    -------
    Loss
        The loss ``pinball(q)``.

    Examples
    --------
    >>> from aleator import losses
    >>> losses.pinball(0.9)([1.0, 1.0], [0.0, 2.0])
    array([0.9, 0.1])
    """
    if not 0 < q < 1:
        raise ValueError(f"pinball: q must lie strictly between 0 and 1, got {q!r}.")
    return _pinball(float(q))


@functools.cache
def _pinball(q: float) -> Loss:
    low, high = q, 1.0 - q

    def value(y: float, y_r: float) -> float:
        return low * (y - y_r) if y > y_r else high * (y_r - y)

    def slope(y: float, y_r: float) -> float:
        return -low if y > y_r else (high if y < y_r else 0.0)

    return Loss(f"pinball({q!r})", value, slope, degree=1)


squared = Loss("squared", _squared, _squared_slope, degree=2)
absolute = Loss("absolute", _absolute, _absolute_slope, degree=1)
logcosh = Loss("logcosh", _logcosh, _logcosh_slope)

LOSSES: dict[str, Loss] = {
    "squared": squared,
    "absolute": absolute,
    "huber": huber(1.0),
    "pinball": pinball(0.5),
    "logcosh": logcosh,
}
_FAMILIES = {"huber": huber, "pinball": pinball}


def get(loss: str | Loss) -> Loss:
    """Get a loss by name.

    Parameters
    ----------
    loss : str or Loss
        "squared", "absolute", "huber(2.5)", "pinball(0.9)", "logcosh", or a `Loss`, which is returned as it is.

    Returns
    -------
    Loss
        The loss.

    Raises
    ------
    ValueError
        If the name is unknown, or belongs to another loss.

    Examples
    --------
    >>> from aleator import losses
    >>> losses.get("pinball(0.9)").name
    'pinball(0.9)'
    """
    if isinstance(loss, Loss):
        if loss.name in LOSSES and loss.value is not LOSSES[loss.name].value:
            raise ValueError(f"the name {loss.name!r} belongs to a loss of aleator's; give yours another.")
        return loss
    if not isinstance(loss, str):
        raise ValueError(f"loss must be a name or an aleator.losses.Loss, got {type(loss).__name__}.")
    family = re.fullmatch(r"(\w+)\(([^()]+)\)", loss.strip())
    if family and family[1] in _FAMILIES:
        try:
            return _FAMILIES[family[1]](float(family[2]))
        except ValueError as error:
            raise ValueError(f"loss {loss!r}: {error}") from None
    if loss in LOSSES:
        return LOSSES[loss]
    raise ValueError(f"unknown loss {loss!r}{suggestion(loss, LOSSES)}")


def measured(loss: Any) -> Loss | Cost:
    """What can measure losses: a name, a `Loss`, or a plain function (y, y_pred) -> losses."""
    if isinstance(loss, Cost):
        return loss
    if not (isinstance(loss, (str, Loss)) or callable(loss)):
        raise ValueError(f"loss must be a name, a Loss, or a function (y, y_pred) -> losses, got {loss!r}.")
    return Cost(loss) if callable(loss) and not isinstance(loss, (Loss, type)) else get(loss)


def is_squared(loss: Loss | Cost) -> bool:
    """Whether the root of the expected loss is a standard deviation."""
    return isinstance(loss, Loss) and loss.value is squared.value


def is_shipped(loss: Loss) -> bool:
    """Whether aleator can rebuild the loss from its name, so that it can be pickled and saved."""
    try:
        return get(loss.name).value is loss.value
    except ValueError:
        return False


def check(loss: Loss, y: NDArray[np.float64]) -> None:
    """Try the loss on the target's own values: finite, not negative, and `slope` the derivative of `value`.

    y is (n, m); each output is tried at up to 25 values against the levels low, middle and high of that output. What
    aleator ships is sound, and finite differences would only show the limits of float64.
    """
    if is_shipped(loss):
        return
    if loss.over_rows:
        _check_rows(loss, y)
        return
    for column in y.T:
        levels = np.quantile(column, [0.1, 0.5, 0.9])
        step = 1e-6 * float(column.max() - column.min() or max(abs(column[0]), 1.0))
        for target in np.quantile(column, np.linspace(0, 1, 25)):
            for level in levels:
                _check_at(loss, float(target), float(level) + 0.37 * step, step)


def _check_at(loss: Loss, y: float, y_r: float, step: float) -> None:
    where = f"at y={y:.6g}, prediction={y_r:.6g}"
    try:
        value, slope = float(loss.value(y, y_r)), float(loss.slope(y, y_r))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"loss {loss.name!r} cannot be evaluated {where}: {error}.") from error
    if not (np.isfinite(value) and np.isfinite(slope)):
        raise ValueError(f"loss {loss.name!r} is not finite {where}: value {value!r}, slope {slope!r}.")
    if value < 0:
        raise ValueError(f"loss {loss.name!r} is negative {where}: {value!r}. The method needs losses >= 0.")
    if abs(y_r - y) < 10 * step:
        return  # a kink may lie here
    _check_degree(loss, y, y_r, value)
    difference = (loss.value(y, y_r + step) - loss.value(y, y_r - step)) / (2 * step)
    if abs(difference - slope) > 1e-2 * max(abs(difference), abs(slope)) + 1e-6 * value / abs(y_r - y):
        raise ValueError(
            f"loss {loss.name!r}: slope is not the derivative of value {where}: slope {slope:.6g}, "
            f"finite difference {difference:.6g}."
        )


def _check_rows(loss: Loss, y: NDArray[np.float64]) -> None:
    """Try a loss over rows on up to 25 rows against their mean: finite, not negative, and `slope` its gradient."""
    if y.shape[1] < 2:
        raise ValueError(f"the loss {loss.name!r} is over rows of several outputs, and y has one.")
    spread = np.where(np.ptp(y, axis=0) > 0, y.std(axis=0), 1.0)
    y_r = y.mean(axis=0) + 0.1 * spread
    for row in y[np.linspace(0, len(y) - 1, 25).astype(int)]:
        where = f"at y={row.tolist()}, prediction={y_r.tolist()}"
        try:
            value, slope = float(loss.value(row, y_r)), np.asarray(loss.slope(row, y_r), np.float64)
        except (ArithmeticError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"loss {loss.name!r} cannot be evaluated {where}: {error}.") from error
        if slope.shape != row.shape or not (np.isfinite(value) and np.isfinite(slope).all()):
            raise ValueError(f"loss {loss.name!r} needs a finite value and a slope for each output {where}.")
        if value < 0:
            raise ValueError(f"loss {loss.name!r} is negative {where}: {value!r}. The method needs losses >= 0.")
        steps = 1e-6 * np.diag(spread)
        difference = [(loss.value(row, y_r + h) - loss.value(row, y_r - h)) / (2 * h.sum()) for h in steps]
        if not np.allclose(difference, slope, rtol=1e-2, atol=1e-6 * value / spread.min()):
            raise ValueError(f"loss {loss.name!r}: slope is not the gradient of value {where}.")


def _check_degree(loss: Loss, y: float, y_r: float, value: float) -> None:
    if loss.degree is None:
        return
    a, c = y_r - 2.0 * y, 2.0
    there, claimed = loss.value(a + c * y, a + c * y_r), c**loss.degree * value
    if abs(there - claimed) > 1e-6 * max(abs(there), abs(claimed)):
        raise ValueError(
            f"loss {loss.name!r} is not of degree {loss.degree}: y={y:.6g} and prediction={y_r:.6g}, moved by {a:.6g} "
            f"and stretched {c:g} times, should give {claimed:.6g} and give {there:.6g}. Leave degree out if unsure."
        )
