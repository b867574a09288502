"""Pictures. Each function draws on `ax` (a new one if None) and returns it."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from aleator import losses, metrics
from aleator.conformal import level_set
from aleator.estimators import Prediction
from aleator.losses import Cost, Loss
from aleator.metrics import Measure

__all__ = ["BLUE", "GREY", "ORANGE", "RED", "automation", "band", "calibration", "history", "rejection"]

BLUE, ORANGE, GREY, RED = "#2364aa", "#ea7317", "#9aa5b1", "#c1292e"
CURVES = (("validation", RED, "validation rows"), ("cv", ORANGE, "rows held out in turn"))


def band(
    x: ArrayLike,
    prediction: Prediction,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    width: float = 2.0,
    ax: Axes | None = None,
) -> Axes:
    """Draw predictions over one input, with a band of expected errors and the rows behind it.

    Parameters
    ----------
    x : array-like of shape (n,)
        The input, in increasing order.
    prediction : Prediction
        Predictions at x, with one output.
    X : array-like of shape (N,) or (N, 1), default=None
        Inputs of rows to draw.
    y : array-like of shape (N,), default=None
        Their targets.
    width : float, default=2.0
        Half of the width of the band, in standard deviations for the squared loss. For other losses the ends of the
        band are the points whose loss is `width` times the expected one.
    ax : Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from aleator import PairRegressor, plots
    >>> x = np.linspace(0, 1, 50)
    >>> model = PairRegressor(epochs=5, rescale=False).fit(x[:, None], x)
    >>> ax = plots.band(x, model.predict_uncertainty(x[:, None]), x, x, ax=Figure().subplots())
    """
    ax = _axes(ax)
    grid = np.asarray(x, np.float64).ravel()
    order = np.argsort(grid)
    if not isinstance(prediction, Prediction):
        raise ValueError(f"band draws what predict_uncertainty returns, got a {type(prediction).__name__}.")
    if len(grid) != len(prediction.prediction):
        raise ValueError(f"x has {len(grid)} values, the prediction is for {len(prediction.prediction)} rows.")
    low, high, text = _band_ends(prediction, width)
    if X is not None and y is not None:
        if np.size(X) != np.size(y):
            raise ValueError(f"band draws one input against y; X has shape {np.shape(X)}, y {np.shape(y)}.")
        ax.plot(np.ravel(X), np.ravel(y), ".", color=GREY, ms=4, alpha=0.6, mew=0, label="samples", zorder=1)
    ax.fill_between(grid[order], low[order], high[order], color=BLUE, alpha=0.22, lw=0, label=text, zorder=2)
    ax.plot(grid[order], prediction.prediction[order], color=BLUE, lw=2, label="prediction", zorder=3)
    ax.legend(frameon=False)
    return _finished(ax, "x", "y")


def _band_ends(prediction: Prediction, width: float) -> tuple[Any, Any, str]:
    if prediction.prediction.ndim != 1:
        raise ValueError("band draws one output; pass a Prediction of shape (n,).")
    if prediction.loss is losses.squared:
        return (
            prediction.prediction - width * prediction.std,
            prediction.prediction + width * prediction.std,
            f"± {width:g} standard deviations",
        )
    low, high = level_set(prediction.loss, prediction.prediction, width * prediction.expected_loss)
    return low, high, f"loss up to {width:g} times the expected"


def rejection(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    uncertainty: ArrayLike,
    error: Measure = "rmse",
    *,
    label: str = "refusing the least certain",
    ax: Axes | None = None,
) -> Axes:
    """Draw the error of the rest against the share of rows refused, between an oracle and refusing at random.

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
    label : str, default="refusing the least certain"
        Label of the curve.
    ax : Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from aleator import plots
    >>> ax = plots.rejection([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1, 2, 3], "mae", ax=Figure().subplots())
    """
    ax = _axes(ax)
    curve = metrics.rejection_curve(y_true, y_pred, uncertainty, error)
    oracle = metrics.oracle_curve(y_true, y_pred, error)
    share = 100 * np.arange(len(curve)) / len(curve)
    ax.axhline(curve[0], color=GREY, lw=1.2, ls="--", label="refusing at random")
    ax.fill_between(share, oracle, curve, color=BLUE, alpha=0.08, lw=0)
    ax.plot(share, curve, color=BLUE, lw=2, label=label)
    ax.plot(share, oracle, color=ORANGE, lw=1.2, label="oracle")
    ax.set(xlim=(0, 100), ylim=(0, 1.08 * max(curve.max(), 1e-300)))
    ax.legend(frameon=False, loc="lower left")
    known = isinstance(error, str) and error in metrics.ERRORS
    name = str(error).upper() if known else f"mean {_named(losses.measured(error))}"
    return _finished(ax, "predictions refused, %", f"{name} of the others")


def automation(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    expected_loss: ArrayLike,
    loss: Measure = "squared",
    *,
    limit: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean expected and realised loss of the accepted predictions, most certain first.

    The two curves agree if the expected loss is right in scale. Then the share to accept can be chosen before the
    targets are known.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    expected_loss : array-like of shape (n,)
        Expected losses.
    loss : str, Loss or callable, default="squared"
        The loss.
    limit : float, default=None
        Mark the share of rows that have a mean expected loss of at most this.
    ax : Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from aleator import plots
    >>> ax = plots.automation([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1, 4, 9], limit=2.0, ax=Figure().subplots())
    """
    ax = _axes(ax)
    measure = losses.measured(loss)
    realised = metrics.rejection_curve(y_true, y_pred, expected_loss, measure)[::-1]
    each = np.asarray(expected_loss, np.float64)
    expected = np.cumsum(np.sort(each if each.ndim == 1 else each.sum(axis=1))) / np.arange(1, len(each) + 1)
    share = 100 * np.arange(1, len(each) + 1) / len(each)
    ax.plot(share, realised, color=BLUE, lw=2, label="realised")
    ax.plot(share, expected, color=ORANGE, lw=1.6, ls=(0, (5, 2)), label="expected")
    top = 1.1 * float(max(expected[-1], np.max(realised[len(realised) // 20 :])))
    if limit is not None:
        n = int(np.searchsorted(expected, limit, side="right"))
        ax.axhline(limit, color=GREY, lw=1)
        ax.axvline(100 * n / len(each), color=GREY, lw=1)
        ax.fill_between([0, 100 * n / len(each)], 0, top, color=BLUE, alpha=0.08, lw=0)
        text, side = f"{100 * n / len(each):.0f} % accepted", "right" if n else "left"
        ax.annotate(text, (100 * n / len(each), 0.03 * top), ha=side, xytext=(-4 if n else 4, 0),
                    textcoords="offset points", fontsize="small")  # fmt: skip
    ax.set(xlim=(0, 100), ylim=(0, top))
    ax.legend(frameon=False, loc="upper left")
    return _finished(ax, "predictions accepted, most certain first, %", f"their mean {_named(measure)}")


def calibration(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    expected_loss: ArrayLike,
    loss: Measure = "squared",
    *,
    n_bins: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw expected against realised loss by bins of equally many rows; on the diagonal the scale is right.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets.
    y_pred : array-like of shape (n,)
        Predictions.
    expected_loss : array-like of shape (n,)
        Expected losses.
    loss : str, Loss or callable, default="squared"
        The loss.
    n_bins : int, default=10
        Number of bins.
    ax : Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from aleator import plots
    >>> ax = plots.calibration([0.0, 0.0], [1.0, 2.0], [1.0, 4.0], n_bins=2, ax=Figure().subplots())
    """
    ax = _axes(ax)
    result = metrics.loss_calibration(y_true, y_pred, expected_loss, loss, n_bins)
    bins = result.bins[(result.bins["predicted"] > 0) & (result.bins["realised"] > 0)]
    if bins.empty:
        raise ValueError("nothing to draw: the expected or the realised losses are all zero.")
    ends = np.array(
        [bins[["predicted", "realised"]].min().min() / 1.5, bins[["predicted", "realised"]].max().max() * 1.5]
    )
    ax.fill_between(ends, ends / 2, ends * 2, color=GREY, alpha=0.15, lw=0, label="within a factor of 2")
    ax.plot(ends, ends, color=GREY, lw=1.2, ls="--", label="right in scale")
    ax.plot(bins["predicted"], bins["realised"], "o-", color=BLUE, lw=1.2, ms=6, label=f"{n_bins} bins of samples")
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    ax.set_title(f"mean predicted / mean realised = {result.ratio:.2f}", fontsize="medium")
    ax.legend(frameon=False)
    name = _named(losses.measured(loss))
    return _finished(ax, f"expected {name}", f"realised {name}")


def history(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the joint loss by epoch, on training and held-out rows.

    Where lam changes, joint losses of held-out rows do not compare. Then the loss of the regressor or the score is
    drawn.

    Parameters
    ----------
    model : estimator or DataFrame
        A fitted estimator, or its ``history_``.
    ax : Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from aleator import PairRegressor, plots
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> ax = plots.history(PairRegressor(epochs=5, rescale=False).fit(X, X[:, 0]), ax=Figure().subplots())
    """
    ax = _axes(ax)
    if not isinstance(model, pd.DataFrame):
        check_is_fitted(model, "history_")
    table: pd.DataFrame = model if isinstance(model, pd.DataFrame) else model.history_
    held_out = [name for name in map(str, table) if name.startswith(("cv_", "validation_"))]
    if not held_out or any(name.endswith("joint_loss") for name in held_out):
        kind = "joint_loss"
    else:
        kind = "score" if "cv_score" in held_out else "loss"
    for k, (_, member) in enumerate(table.groupby("member")):
        if kind in member:
            label = "training rows" if k == 0 else None
            ax.plot(member["epoch"], member[kind], color=BLUE, lw=1.2, alpha=0.9, label=label)
        for rows, color, text in CURVES:
            name = f"{rows}_{kind}"
            if name in member and (k == 0 or rows != "cv"):  # all members share the search
                seen = member.dropna(subset=name)
                ax.plot(seen["epoch"], seen[name], ".-", color=color, lw=1.2, ms=4, label=text if k == 0 else None)
    ax.legend(frameon=False)
    return _finished(ax, "epoch", kind.replace("_", " "))


def _named(loss: Loss | Cost) -> str:
    """A function of the user's has a name of its own."""
    return loss.name if isinstance(loss, Cost) and loss.name != "own" else f"{loss.name} loss"


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


def _finished(ax: Axes, xlabel: str, ylabel: str) -> Axes:
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
