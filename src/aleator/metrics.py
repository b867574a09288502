"""How good a prediction and its uncertainty are. Argument order: (y_true, y_pred, uncertainty).

Ranking: does the model know *where* it is wrong (`rejection_curve`, `rejection_auc`)? Scale: is the expected loss right
*in size* (`loss_calibration`)? Intervals: `coverage`, `interval_width`. Distributions: `nll`, `crps`.
"""

import numbers
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from aleator import losses
from aleator.losses import Cost, Loss
from aleator.suggestions import suggestion

__all__ = [
    "LossCalibration",
    "coverage",
    "crps",
    "excess_auc",
    "interval_width",
    "loss_calibration",
    "nll",
    "oracle_auc",
    "oracle_curve",
    "rejection_auc",
    "rejection_curve",
]

Floats = NDArray[np.float64]
Measure = str | Loss | Callable[..., ArrayLike]  # a loss by name, a `Loss`, or a function (y, y_pred) -> losses

# The error of a set of samples is a function of their mean loss: RMSE is the root of the mean squared loss.
ERRORS: dict[str, tuple[str, Callable[[Floats], Floats]]] = {
    "rmse": ("squared", np.sqrt),
    "mse": ("squared", lambda mean: mean),
    "mae": ("absolute", lambda mean: mean),
}


def rejection_curve(y_true: ArrayLike, y_pred: ArrayLike, uncertainty: ArrayLike, error: Measure = "rmse") -> Floats:
    """Compute the error of the rest after dropping the n most uncertain rows, for n = 0, ..., N - 1 (sec. 8).

    Rows that are equally uncertain count with the mean of their losses.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    uncertainty : array-like of shape (n,)
        Uncertainty of each prediction; only its order matters.
    error : str, Loss or callable, default="rmse"
        "rmse", "mse", "mae", a loss by name, a `Loss`, or a function ``(y, y_pred) -> losses``.

    Returns
    -------
    ndarray of shape (N,)
        Errors of the remaining rows.

    Examples
    --------
    >>> from aleator.metrics import rejection_curve
    >>> rejection_curve([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1, 2, 3], "mae")
    array([2. , 1.5, 1. ])
    """
    y, y_pred, uncertainty = _arrays(y_true=y_true, y_pred=y_pred, uncertainty=uncertainty)
    loss, of_mean = _error(error)
    ranked = _per_sample(loss, y, y_pred)[np.argsort(_rank(uncertainty), kind="stable")]  # most certain first
    kept = np.arange(1, len(ranked) + 1)
    return of_mean(np.cumsum(ranked) / kept)[::-1]


def rejection_auc(y_true: ArrayLike, y_pred: ArrayLike, uncertainty: ArrayLike, error: Measure = "rmse") -> float:
    """Compute the area under the rejection curve: the trapezoid sum over n, divided by N - 1. Smaller is better.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    uncertainty : array-like of shape (n,)
        Uncertainty of each prediction; only its order matters.
    error : str, Loss or callable, default="rmse"
        "rmse", "mse", "mae", a loss by name, a `Loss`, or a function ``(y, y_pred) -> losses``.

    Returns
    -------
    float
        The area, in the units of the error.

    Examples
    --------
    >>> from aleator.metrics import rejection_auc
    >>> rejection_auc([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1, 2, 3], "mae")
    1.5
    """
    return area(rejection_curve(y_true, y_pred, uncertainty, error))


def oracle_curve(y_true: ArrayLike, y_pred: ArrayLike, error: Measure = "rmse") -> Floats:
    """Compute the rejection curve of an oracle that knows the losses: the least possible for these predictions.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    error : str, Loss or callable, default="rmse"
        "rmse", "mse", "mae", a loss by name, a `Loss`, or a function ``(y, y_pred) -> losses``.

    Returns
    -------
    ndarray of shape (N,)
        Errors of the remaining rows.

    Examples
    --------
    >>> from aleator.metrics import oracle_curve
    >>> oracle_curve([0.0, 0.0, 0.0], [3.0, 1.0, 2.0], "mae")
    array([2. , 1.5, 1. ])
    """
    y, y_pred = _arrays(y_true=y_true, y_pred=y_pred)
    return rejection_curve(y, y_pred, _per_sample(_error(error)[0], y, y_pred), error)


def oracle_auc(y_true: ArrayLike, y_pred: ArrayLike, error: Measure = "rmse") -> float:
    """Compute the area under the rejection curve of an oracle.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    error : str, Loss or callable, default="rmse"
        "rmse", "mse", "mae", a loss by name, a `Loss`, or a function ``(y, y_pred) -> losses``.

    Returns
    -------
    float
        The area.

    Examples
    --------
    >>> from aleator.metrics import oracle_auc
    >>> oracle_auc([0.0, 0.0, 0.0], [3.0, 1.0, 2.0], "mae")
    1.5
    """
    return area(oracle_curve(y_true, y_pred, error))


def excess_auc(y_true: ArrayLike, y_pred: ArrayLike, uncertainty: ArrayLike, error: Measure = "rmse") -> float:
    """Compute how far a ranking is from that of an oracle: (AUC - oracle AUC) / (error of all rows - oracle AUC).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    uncertainty : array-like of shape (n,)
        Uncertainty of each prediction; only its order matters.
    error : str, Loss or callable, default="rmse"
        "rmse", "mse", "mae", a loss by name, a `Loss`, or a function ``(y, y_pred) -> losses``.

    Returns
    -------
    float
        0 for the oracle, about 1 for a random ranking.

    Examples
    --------
    >>> from aleator.metrics import excess_auc
    >>> excess_auc([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1, 2, 3], "mae")
    0.0
    """
    curve, oracle = rejection_curve(y_true, y_pred, uncertainty, error), oracle_auc(y_true, y_pred, error)
    room = float(curve[0]) - oracle
    return (area(curve) - oracle) / room if room > 0 else 0.0


@dataclass(frozen=True)
class LossCalibration:
    """Expected against realised loss.

    Attributes
    ----------
    bins : DataFrame
        Columns predicted, realised, count and ratio, a row for each bin, the least certain last.
    ratio : float
        Mean expected over mean realised loss of all rows.
    error : float
        Mean of ``|expected - realised|`` of the bins, divided by the mean realised loss.

    Examples
    --------
    >>> from aleator.metrics import loss_calibration
    >>> loss_calibration([0.0, 0.0], [1.0, 2.0], [1.0, 4.0], n_bins=1).ratio
    1.0
    """

    bins: pd.DataFrame
    ratio: float
    error: float


def loss_calibration(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    expected_loss: ArrayLike,
    loss: Measure = "squared",
    n_bins: int = 10,
) -> LossCalibration:
    """Compare expected with realised losses in bins of equally many rows, ordered by expected loss.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    expected_loss : array-like of shape (n,)
        Expected losses.
    loss : str, Loss or callable, default="squared"
        The loss, by name, as a `Loss` or as a function ``(y, y_pred) -> losses``.
    n_bins : int, default=10
        Number of bins.

    Returns
    -------
    LossCalibration
        The bins, the ratio over all rows, and the mean error of the bins.

    Examples
    --------
    >>> from aleator.metrics import loss_calibration
    >>> loss_calibration([0.0, 0.0], [1.0, 2.0], [1.0, 2.0], "absolute", n_bins=2).error
    0.0
    """
    y, y_pred, expected = _arrays(y_true=y_true, y_pred=y_pred, expected_loss=expected_loss)
    realised, expected = _per_sample(losses.measured(loss), y, y_pred), _rank(expected)
    if not (isinstance(n_bins, numbers.Integral) and 1 <= n_bins <= len(y)):
        raise ValueError(f"n_bins must be a whole number from 1 to the number of samples, {len(y)}, got {n_bins!r}.")
    if (expected < 0).any():
        raise ValueError(f"expected_loss is negative in row {int(np.argmax(expected < 0))}.")
    parts = np.array_split(np.argsort(expected, kind="stable"), n_bins)
    bins = pd.DataFrame(
        {
            "predicted": [expected[part].mean() for part in parts],
            "realised": [realised[part].mean() for part in parts],
            "count": [len(part) for part in parts],
        }
    )
    bins["ratio"] = _quotient(bins["predicted"].to_numpy(), bins["realised"].to_numpy())
    gap = float(np.average((bins["predicted"] - bins["realised"]).abs(), weights=bins["count"]))
    ratio = _quotient(np.array([expected.mean()]), np.array([realised.mean()]))[0]
    error = float(_quotient(np.array([gap]), np.array([realised.mean()]))[0]) if gap > 0 else 0.0
    return LossCalibration(bins, float(ratio), error)


def coverage(y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Compute the share of the targets inside their interval, ends included.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    lower : array-like of shape (n,)
        Lower ends.
    upper : array-like of shape (n,)
        Upper ends.

    Returns
    -------
    float
        The share.

    Examples
    --------
    >>> from aleator.metrics import coverage
    >>> coverage([0.0, 5.0], [-1.0, 0.0], [1.0, 1.0])
    0.5
    """
    y, lower, upper = _arrays(y_true=y_true, lower=lower, upper=upper)
    return float(np.mean((lower <= y) & (y <= upper)))


def interval_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Compute the mean width of intervals.

    Parameters
    ----------
    lower : array-like of shape (n,)
        Lower ends.
    upper : array-like of shape (n,)
        Upper ends.

    Returns
    -------
    float
        The mean width.

    Examples
    --------
    >>> from aleator.metrics import interval_width
    >>> interval_width([-1.0, 0.0], [1.0, 1.0])
    1.5
    """
    lower, upper = _arrays(lower=lower, upper=upper)
    return float(np.mean(upper - lower))


def nll(y_true: ArrayLike, y_pred: ArrayLike, scale: ArrayLike, distribution: str = "gaussian") -> float:
    """Compute the mean negative log-likelihood of a Gaussian or Laplace distribution.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    scale : array-like of shape (n,)
        Standard deviation (Gaussian) or mean absolute error (Laplace).
    distribution : {"gaussian", "laplace"}, default="gaussian"
        The distribution.

    Returns
    -------
    float
        The mean.

    Examples
    --------
    >>> from aleator.metrics import nll
    >>> round(nll([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    y, y_pred, scale = _arrays(y_true=y_true, y_pred=y_pred, scale=scale)
    return float(-np.mean(_distribution(distribution).logpdf(y, loc=y_pred, scale=scale)))


def crps(y_true: ArrayLike, y_pred: ArrayLike, scale: ArrayLike, distribution: str = "gaussian") -> float:
    """Compute the mean continuous ranked probability score of a Gaussian or Laplace distribution.

    Gaussian: s (t (2 Phi(t) - 1) + 2 phi(t) - 1 / sqrt(pi)) with t = (y - mu) / s. Laplace, with ``d = |y - mu|``:
    d + b exp(-d / b) - 3 b / 4.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    scale : array-like of shape (n,)
        Standard deviation (Gaussian) or mean absolute error (Laplace).
    distribution : {"gaussian", "laplace"}, default="gaussian"
        The distribution.

    Returns
    -------
    float
        The mean, in the units of y.

    Examples
    --------
    >>> from aleator.metrics import crps
    >>> round(crps([0.0], [0.0], [1.0], "laplace"), 2)
    0.25
    """
    y, y_pred, scale = _arrays(y_true=y_true, y_pred=y_pred, scale=scale)
    if _distribution(distribution) is stats.norm:
        t = (y - y_pred) / scale
        each = scale * (t * (2 * stats.norm.cdf(t) - 1) + 2 * stats.norm.pdf(t) - 1 / np.sqrt(np.pi))
    else:
        off = np.abs(y - y_pred)
        each = off + scale * np.exp(-off / scale) - 0.75 * scale
    return float(np.mean(each))


def _distribution(name: str) -> stats.rv_continuous:
    known = {"gaussian": stats.norm, "laplace": stats.laplace}
    if name not in known:
        raise ValueError(f"unknown distribution {name!r}{suggestion(str(name), known)}")
    return known[name]


def _error(error: Measure) -> tuple[Loss | Cost, Callable[[Floats], Floats]]:
    if isinstance(error, str) and error in ERRORS:
        name, of_mean = ERRORS[error]
        return losses.get(name), of_mean
    try:
        return losses.measured(error), lambda mean: mean
    except ValueError:
        if isinstance(error, str) and "(" in error:  # a loss that is known, with a parameter it does not take
            raise
        raise ValueError(f"unknown error {error!r}{suggestion(str(error), [*ERRORS, *losses.LOSSES])}") from None


def area(curve: Floats) -> float:
    """Trapezoid sum of a curve, divided by its number of steps."""
    return float(np.trapezoid(curve) / (len(curve) - 1)) if len(curve) > 1 else float(curve[0])


def _per_sample(loss: Loss | Cost, y: Floats, y_pred: Floats) -> Floats:
    """The loss of each sample; several outputs are summed."""
    each = loss(y, y_pred)
    return each if each.ndim == 1 else each.sum(axis=1)


def _rank(uncertainty: Floats) -> Floats:
    return uncertainty if uncertainty.ndim == 1 else uncertainty.sum(axis=1)


def _quotient(a: Floats, b: Floats) -> Floats:
    """A / b; 1 where both are 0, infinite where only b is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((a == 0) & (b == 0), 1.0, a / b)


def _arrays(**given: ArrayLike) -> list[Floats]:
    """All arguments as float64 arrays without NaN and with equally many rows."""
    arrays = {}
    for name, values in given.items():
        try:
            arrays[name] = np.asarray(values, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be numbers: {error}.") from None
    n = None
    for name, values in arrays.items():
        if values.ndim not in (1, 2) or len(values) == 0:
            raise ValueError(f"{name} must have one value a sample, got an array of shape {values.shape}.")
        if np.isnan(values).any():
            raise ValueError(f"{name} contains NaN, the first in row {np.argwhere(np.isnan(values))[0][0]}.")
        if n is not None and len(values) != n:
            first = next(iter(arrays))
            raise ValueError(f"{name} has {len(values)} rows, {first} has {n}.")
        n = len(values)
    free = {"uncertainty", "expected_loss"}  # may be one for all outputs
    (first, values), *others = ((name, values) for name, values in arrays.items() if name not in free)
    for name, other in others:
        if other.shape != values.shape:
            raise ValueError(f"{first} has shape {values.shape}, {name} {other.shape}.")
    if "scale" in arrays and (arrays["scale"] <= 0).any():
        raise ValueError(f"scale must be positive; in row {np.argwhere(arrays['scale'] <= 0)[0][0]} it is not.")
    return list(arrays.values())
