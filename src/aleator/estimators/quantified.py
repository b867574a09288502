"""What follows from predictions and their expected losses alone, however these came about."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from aleator.estimators import intervals, recalibration, saving
from aleator.estimators.held_out import HeldOut, UnreliableWarning
from aleator.estimators.prediction import Prediction
from aleator.estimators.reading import columns, number, targets
from aleator.losses import Cost, Loss
from aleator.model_files.layout import Layout
from aleator.names import suggestion

Floats = NDArray[np.float64]


class QuantifiedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Abstract: a regressor that knows the expected loss of each of its predictions.

    A fitted one has `n_outputs_`, `y_is_1d_`, `loss_scale_` (Q,), and may have `loss_limits_` (2, Q), `check_`,
    `corrections_` (Q of them) and sorted `scores_` (n, Q), where Q is 1 or the number of outputs.
    """

    _layout: ClassVar[Layout]  # of its model file

    @abstractmethod
    def _means(self, X: Any) -> Floats:
        """The predictions (n, M)."""

    @abstractmethod
    def _answers(self, X: Any) -> tuple[Floats, Floats, Floats]:
        """Mean (n, M), aleatoric and epistemic loss (n, Q), before any scaling."""

    @abstractmethod
    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fitted model as facts and arrays; the class method `_unpacked` is its inverse."""

    @abstractmethod
    def _loss(self) -> Loss | Cost:
        """The loss at the time of `fit`: setting the parameter later must not change the model."""

    # ------------------------------------------------------------ fit

    @contextmanager
    def _as_it_was_on_error(self) -> Iterator[None]:
        """Around `fit`: after an error, or an interruption, the model is the one before."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _warn_if_unreliable(self) -> None:
        """After `fit`, for whoever does not look at `check_`."""
        if hasattr(self, "check_") and not self.check_.passed:
            message = self.check_.message
            warnings.warn(f"{message[:1].upper()}{message[1:]}", UnreliableWarning, stacklevel=3)

    # ------------------------------------------------------------ predict

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The prediction for each row; with `return_std`, which needs the squared loss, also its standard deviation."""
        if return_std:
            said = self.predict_uncertainty(X)
            return said.mean, said.std
        check_is_fitted(self)
        return self._shaped(self._means(X))

    def predict_loss(self, X: Any) -> Floats:
        """The expected loss of each prediction, in the units of the loss."""
        return self.predict_uncertainty(X).expected_loss

    def predict_uncertainty(self, X: Any) -> Prediction:
        """Predictions with their expected loss, and its aleatoric and epistemic parts."""
        check_is_fitted(self)
        mean, aleatoric, epistemic = self._answers(X)
        raw = aleatoric + epistemic
        expected = self._corrected(raw) + self._beyond(mean)
        epistemic = expected * np.divide(epistemic, raw, out=np.zeros_like(raw), where=raw > 0)
        index = X.index if isinstance(X, pd.DataFrame) else None
        return Prediction(
            self._shaped(mean),
            self._shaped(expected),
            self._shaped(expected - epistemic),
            self._shaped(epistemic),
            self._loss(),
            index,
        )

    def _corrected(self, raw: Floats) -> Floats:
        """The expected loss (n, Q), with the scale and limits of `fit` and the correction of `recalibrate`."""
        expected = self._within_limits(self.loss_scale_ * raw)
        if hasattr(self, "corrections_"):
            expected = np.column_stack([curve(e) for curve, e in zip(self.corrections_, expected.T, strict=True)])
        return expected

    def _inside(self, mean: Floats) -> Floats:
        """Predictions (n, M), those that are implausible replaced by the nearest that is not."""
        return mean

    def _beyond(self, mean: Floats) -> Floats | float:
        """What a prediction loses at least because it is implausible: nothing, unless an estimator knows better."""
        return 0.0

    def _within_limits(self, expected: Floats) -> Floats:
        """The expected loss (n, Q), clipped to what the held-out rows of `fit` support."""
        return np.clip(expected, *self.loss_limits_) if hasattr(self, "loss_limits_") else expected

    def _shaped(self, values: Floats) -> Floats:
        """(n, m) as the user's y was: (n,) where it was; a loss over all outputs is (n,) too."""
        shared = values.shape[1] < self.n_outputs_
        return values[:, 0] if self.y_is_1d_ or shared else values

    # ------------------------------------------------------------ held-out rows

    def _compared(self, X: Any, y: Any) -> tuple[Floats, Floats, Floats]:
        """Realised and expected loss (n, Q) of rows that were not used in `fit`, and the side of the target (n, M)."""
        mean, aleatoric, epistemic = self._answers(X)
        Y = self._targets(y, len(mean))
        expected = self._corrected(aleatoric + epistemic) + self._beyond(mean)
        return self._realised(Y, mean), expected, np.sign(Y - mean)

    def _targets(self, y: Any, n_rows: int) -> Floats:
        """Targets (n, M) of rows that were not used in `fit`."""
        Y = columns(targets(y, n_rows))
        if Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y has {Y.shape[1]} outputs, the model was fitted with {self.n_outputs_}.")
        return Y

    def _realised(self, Y: Floats, mean: Floats) -> Floats:
        """The loss (n, Q) of predictions (n, M)."""
        return realised_losses(self._loss(), self._shaped(Y), self._shaped(mean), len(self.loss_scale_))

    def _calibrated_by(self, held_out: HeldOut | None, beyond: Floats | float = 0.0) -> None:
        """Begin anew after `fit`: no corrections, and the rows held out there, if any, to calibrate intervals.

        `beyond` (n, Q) is what these rows lose at least because their predictions are implausible.
        """
        for name in ("corrections_", "scores_"):
            self.__dict__.pop(name, None)
        if held_out is not None and len(self.loss_scale_) == self.n_outputs_:
            expected = self._within_limits(self.loss_scale_ * held_out.predicted) + beyond
            self.scores_ = intervals.scores(held_out.realised, expected, held_out.side)

    def _judged_by(self, held_out: HeldOut | None, gain: Floats | float = 1.0) -> None:
        """Take the scale, the limits and the check of the expected loss from held-out rows, if there are any.

        `gain`: the part of these losses that is left for the model that knows all rows. A quantifier that fails the
        check, and is no better than the mean loss, is replaced by that.
        """
        for name in ("loss_limits_", "check_"):
            self.__dict__.pop(name, None)
        if held_out is None:
            return
        self.loss_scale_, self.check_ = gain * held_out.scale, held_out.check()
        self.loss_limits_ = gain * held_out.limits
        problems = zip(self.check_.problems, held_out.beats_constant, strict=True)
        replaced = [bool(problem) and not better for problem, better in problems]
        if any(replaced):
            self.loss_limits_ = gain * np.where(replaced, held_out.mean, held_out.limits)
            each = list(zip(replaced, self.check_.problems, strict=True))
            left = tuple("" if gone else problem for gone, problem in each)
            rejected = tuple(problem for gone, problem in each if gone)
            self.check_ = replace(self.check_, problems=left, quantifier="constant", rejected=rejected)

    def recalibrate(self, X: Any, y: Any, method: str = "factor") -> Self:
        """Correct the expected loss on rows that were not used in `fit`.

        "factor" multiplies it by mean realised over mean expected loss there. "isotonic" learns a rising curve, through
        the means of bins of 25 rows; give it some hundreds of rows, below 50 it is a factor. Intervals then
        need `calibrate` again, with rows not used here.
        """
        if method not in recalibration.METHODS:
            raise ValueError(f"unknown method {method!r}{suggestion(str(method), recalibration.METHODS)}")
        check_is_fitted(self)
        before = self.__dict__.pop("corrections_", None)
        try:
            mean, aleatoric, epistemic = self._answers(X)
            realised = self._realised(self._targets(y, len(mean)), self._inside(mean))
            expected = self._corrected(aleatoric + epistemic)
            self.corrections_ = [
                recalibration.learn(*pair, method) for pair in zip(realised.T, expected.T, strict=True)
            ]
        except BaseException:
            if before is not None:
                self.corrections_ = before
            raise
        self.__dict__.pop("scores_", None)
        return self

    def calibrate(self, X: Any, y: Any) -> Self:
        """Learn how often the expected loss is exceeded, from rows used neither in `fit` nor in `recalibrate`."""
        check_is_fitted(self)
        if len(self.loss_scale_) < self.n_outputs_:
            raise ValueError("intervals for several outputs need one quantifier each: set per_output=True.")
        self.scores_ = intervals.scores(*self._compared(X, y))
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9, symmetric: bool = False) -> tuple[Floats, Floats]:
        """Lower and upper ends that contain the target with probability `coverage`, each output by itself.

        Each end has its own level: as many targets are expected below as above, also where errors are skewed. If
        `symmetric`, or if there are fewer than 2 / (1 - coverage) - 1 rows to learn two levels from, one level of the
        loss serves for both.
        After `calibrate(X, y)`, with rows like the new ones and used neither in `fit` nor in `recalibrate`, the
        probability is at least `coverage`, whatever the distribution and however few they are. Without, the rows that
        `fit` held out in turn take their place: no row is lost, the coverage is close to `coverage` in practice, and is
        not guaranteed. A custom cost must grow on both sides of the prediction, or the interval is too short.
        """
        return self.interval_of(self.predict_uncertainty(X), coverage, symmetric)

    def interval_of(self, said: Prediction, coverage: float = 0.9, symmetric: bool = False) -> tuple[Floats, Floats]:
        """The same for what `predict_uncertainty` said, without asking again."""
        if not (number(coverage) and 0 < coverage < 1):
            raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage!r}.")
        if not hasattr(self, "scores_"):
            raise ValueError(
                "predict_interval needs rows to calibrate on: call calibrate(X, y) with held-out rows, not used "
                "in fit or in recalibrate."
                if len(self.loss_scale_) == self.n_outputs_
                else "intervals for several outputs need one quantifier each: set per_output=True."
            )
        if not intervals.grows(said.loss, said.mean):
            warnings.warn(
                f"loss {said.loss.name!r} does not grow with the distance from the prediction: what costs little is "
                "not one interval, and the coverage is not what is asked for.",
                stacklevel=2,
            )
        both = None if symmetric else intervals.quantiles(self.scores_, coverage)
        if both is not None:
            lower, upper = (q[0] if self.y_is_1d_ else q for q in both)
            low, high = intervals.ends(said.loss, said.mean, said.expected_loss, (lower, upper))
        else:
            factor = intervals.quantile(self.scores_, coverage)
            factor = factor[0] if self.y_is_1d_ else factor
            low, high = intervals.level_set(said.loss, said.mean, intervals.levels(factor, said.expected_loss))
        blur = self._resolution()
        blur = blur[0] if self.y_is_1d_ else blur
        return low - blur, high + blur

    def _resolution(self) -> Floats:
        """How far apart predictions (M,) must be to differ: intervals reach at least so far."""
        return np.zeros(self.n_outputs_)

    # ------------------------------------------------------------ files

    def save(self, path: str | PathLike[str], *, key: bytes | None = None) -> None:
        """Write the fitted model to a file that `aleator.load` reads and that cannot execute anything.

        With a secret `key` the file is signed (HMAC-SHA-256), and `aleator.load(path, key=key)` proves that whoever
        wrote it had the key.
        """
        check_is_fitted(self)
        saving.save(self, path, key)

    # ------------------------------------------------------------ scikit-learn

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def realised_losses(loss: Loss | Cost, y: Floats, y_pred: Floats, n_losses: int) -> Floats:
    """The loss (n, Q) of each row: of each output, or summed over all of them."""
    each = loss(y, y_pred)
    if not np.isfinite(each).all():
        row = int(np.argmax(~np.isfinite(columns(each)).all(axis=1)))
        raise ValueError(f"loss {loss.name!r} is {columns(each)[row].max():g} in row {row}: {_at(y, y_pred, row)}.")
    if (each < 0).any():
        row = int(np.argmax((columns(each) < 0).any(axis=1)))
        raise ValueError(
            f"loss {loss.name!r} is negative in row {row}, {columns(each)[row].min():g}: {_at(y, y_pred, row)}. "
            "The method needs losses >= 0."
        )
    each = columns(each)
    if n_losses > 1 and each.shape[1] != n_losses:
        raise ValueError(f"per_output=True needs a loss for each of {n_losses} outputs, {loss.name!r} gives one a row.")
    return each if n_losses > 1 or each.shape[1] == 1 else each.sum(axis=1, keepdims=True)


def _at(y: Floats, y_pred: Floats, row: int) -> str:
    return f"y={y[row]}, prediction={y_pred[row]}"


def numbered(name: str, values: Floats) -> dict[str, Floats]:
    """The columns of (n, Q) by names; a single one needs no number."""
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
