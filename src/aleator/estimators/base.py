"""What follows from predictions and expected losses alone, whatever estimator they come from."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from aleator import conformal, recalibration
from aleator.array_types import Floats
from aleator.estimators.prediction import Prediction
from aleator.loss_correction import LossCorrection
from aleator.losses import Cost, Loss
from aleator.mixtures import Parts
from aleator.model_files import serialization
from aleator.model_files.layout import Layout
from aleator.preprocessing.parameter_checks import is_number
from aleator.preprocessing.standardisation import repetitions
from aleator.preprocessing.validation import columns, targets
from aleator.suggestions import suggestion
from aleator.training.held_out import HeldOutLosses, UnreliableWarning

MOST_SCORES = 10_000_000  # that calibrate intervals, if rows have whole-number weights


class QuantifiedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Abstract: a regressor that predicts the expected loss of each of its predictions.

    A fitted one has `n_outputs_`, `y_is_1d_` and `loss_correction_`. It may have `check_`, and sorted conformal
    `scores_` (n, Q), where Q is 1 or the number of outputs. `conformalized_` says whether the scores come from
    `conformalize`, and `recalibrated_after_` whether `recalibrate` made these worthless.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns of X, if they are strings.
    loss_scale_ : ndarray of shape (n_quantifiers,)
        The factor of the expected loss that held-out rows give.
    loss_limits_ : ndarray of shape (2, n_quantifiers)
        Least and largest expected loss that held-out rows support. Only if rows were held out.
    """

    _layout: ClassVar[Layout]  # of its model file

    @abstractmethod
    def _predict(self, X: Any) -> Floats:
        """The predictions (n, M)."""

    @abstractmethod
    def _predict_parts(self, X: Any) -> Parts:
        """Prediction (n, M), aleatoric and epistemic loss (n, Q), before any correction."""

    @abstractmethod
    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fitted model as values and arrays for a file; the class method `_unpacked` is the inverse."""

    @abstractmethod
    def _loss(self) -> Loss | Cost:
        """The loss at the time of `fit`; setting the parameter later does not change a fitted model."""

    # ------------------------------------------------------------ fit

    @contextmanager
    def _restored_on_error(self) -> Iterator[None]:
        """Around `fit`: after an error or an interruption the model is what it was before."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _warn_if_unreliable(self) -> None:
        """Warn after `fit` if the model failed its check."""
        if hasattr(self, "check_") and not self.check_.passed:
            message = self.check_.message
            warnings.warn(f"{message[:1].upper()}{message[1:]}", UnreliableWarning, stacklevel=3)

    @property
    def loss_scale_(self) -> Floats:
        """The factor (Q,) that held-out rows give for the expected loss."""
        return self._correction().scale

    @property
    def loss_limits_(self) -> Floats:
        """The least and the largest expected loss (2, Q); only if rows were held out."""
        limits = self._correction().limits
        if limits is None:
            raise AttributeError("no rows were held out in fit, so the expected loss has no limits.")
        return limits

    def _correction(self) -> LossCorrection:
        if "loss_correction_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet.")
        correction: LossCorrection = self.__dict__["loss_correction_"]
        return correction

    # ------------------------------------------------------------ predict

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the target of each row.

        Parameters
        ----------
        X : table of shape (n, d)
            New rows.
        return_std : bool, default=False
            Whether to return the standard deviation too, which needs the squared loss.

        Returns
        -------
        prediction : ndarray of shape (n,) or (n, m)
            Predictions.
        std : ndarray of the same shape
            Standard deviations of the target around the prediction; only if `return_std`.
        """
        if return_std:
            found = self.predict_uncertainty(X)
            return found.prediction, found.std
        check_is_fitted(self)
        return self._shaped(self._predict(X))

    def predict_loss(self, X: Any) -> Floats:
        """Predict the expected loss of each prediction.

        Parameters
        ----------
        X : table of shape (n, d)
            New rows.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
            Expected losses, in the units of the loss.
        """
        return self.predict_uncertainty(X).expected_loss

    def predict_uncertainty(self, X: Any) -> Prediction:
        """Predict targets and expected losses, with their aleatoric and epistemic parts.

        Parameters
        ----------
        X : table of shape (n, d)
            New rows.

        Returns
        -------
        Prediction
            Predictions, expected losses and their parts; `to_frame` makes a table of it.
        """
        check_is_fitted(self)
        prediction, aleatoric, epistemic = self._predict_parts(X)
        raw = aleatoric + epistemic
        expected = self._correction()(raw) + self._implausible_loss(prediction)
        epistemic = expected * np.divide(epistemic, raw, out=np.zeros_like(raw), where=raw > 0)
        index = X.index if isinstance(X, pd.DataFrame) else None
        return Prediction(
            self._shaped(prediction),
            self._shaped(expected),
            self._shaped(expected - epistemic),
            self._shaped(epistemic),
            self._loss(),
            index,
        )

    def _clipped(self, prediction: Floats) -> Floats:
        """Predictions (n, M), implausible ones replaced by the nearest plausible ones."""
        return prediction

    def _implausible_loss(self, prediction: Floats) -> Floats | float:
        """The loss that a prediction has at least because it is implausible; 0 unless an estimator knows better."""
        return 0.0

    def _shaped(self, values: Floats) -> Floats:
        """(n, m) in the shape of y: (n,) if y was one-dimensional; a loss over all outputs is (n,) too."""
        shared = values.shape[1] < self.n_outputs_
        return values[:, 0] if self.y_is_1d_ or shared else values

    # ------------------------------------------------------------ held-out rows

    def _targets(self, y: Any, n_rows: int) -> Floats:
        """Targets (n, M) of rows that were not used in `fit`."""
        Y = columns(targets(y, n_rows))
        if Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y has {Y.shape[1]} outputs, the model was fitted with {self.n_outputs_}.")
        return Y

    def _realised(self, Y: Floats, prediction: Floats) -> Floats:
        """The loss (n, Q) of predictions (n, M)."""
        return realised_losses(self._loss(), self._shaped(Y), self._shaped(prediction), len(self.loss_scale_))

    def _set_correction(self, held_out: HeldOutLosses | None, n_losses: int, loss_share: Floats | float = 1.0) -> None:
        """Take the scale and the limits of the expected loss from held-out rows, if there are any, and check it.

        `loss_share` is the part of these losses that is left for the model that has learned from all rows. A quantifier
        that fails the check, and is no better than the mean loss, is replaced by the mean loss.
        """
        for name in ("check_", "scores_", "conformalized_", "recalibrated_after_"):
            self.__dict__.pop(name, None)
        self.loss_correction_ = LossCorrection(np.ones(n_losses))
        if held_out is None:
            return
        self.check_ = held_out.check()
        limits = held_out.limits
        problems = zip(self.check_.problems, held_out.beats_constant, strict=True)
        replaced = [bool(problem) and not better for problem, better in problems]
        if any(replaced):
            limits = np.where(replaced, held_out.mean, limits)
            each = list(zip(replaced, self.check_.problems, strict=True))
            remaining = tuple("" if gone else problem for gone, problem in each)
            rejected = tuple(problem for gone, problem in each if gone)
            self.check_ = replace(self.check_, problems=remaining, quantifier="constant", rejected=rejected)
        self.loss_correction_ = LossCorrection(loss_share * held_out.scale, loss_share * limits)

    def _set_scores(self, held_out: HeldOutLosses | None, implausible: Floats | float = 0.0) -> None:
        """Let the rows held out in `fit`, if there are any, calibrate intervals.

        Equal rows are merged, and count as often as they are there. `implausible` (n, Q) is the loss these rows have at
        least because their predictions are implausible.
        """
        self.__dict__.pop("scores_", None)
        if held_out is not None and len(self.loss_scale_) == self.n_outputs_:
            correction = self._correction()
            expected = correction.within_limits(correction.scale * held_out.predicted) + implausible
            times = repetitions(held_out.weight, float(held_out.weight.min()), MOST_SCORES)
            times = np.ones(len(expected), np.int64) if times is None else times
            side = None if held_out.side is None else np.repeat(held_out.side, times, axis=0)
            realised, expected = (np.repeat(part, times, axis=0) for part in (held_out.realised, expected))
            self.scores_ = conformal.scores(realised, expected, side)
            self.conformalized_ = False

    def recalibrate(self, X: Any, y: Any, method: str = "factor") -> Self:
        """Correct the expected loss on rows that were not used in `fit`.

        Intervals that rest on the rows held out in `fit` follow the new expected loss. The guarantee of `conformalize`
        is lost: call it again, with rows not used here.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows not used in `fit`.
        y : array-like of shape (n,) or (n, m)
            Their targets.
        method : {"factor", "isotonic"}, default="factor"
            ``"factor"`` multiplies the expected loss by mean realised over mean expected loss. ``"isotonic"`` learns a
            rising curve through the means of bins of 25 rows; it needs some hundred rows, and below 50 it is a factor.

        Returns
        -------
        self
            The same estimator, with a corrected expected loss.
        """
        if method not in recalibration.METHODS:
            raise ValueError(f"unknown method {method!r}{suggestion(str(method), recalibration.METHODS)}")
        check_is_fitted(self)
        uncorrected = replace(self._correction(), curves=None)
        prediction, aleatoric, epistemic = self._predict_parts(X)
        realised = self._realised(self._targets(y, len(prediction)), self._clipped(prediction))
        expected = uncorrected(aleatoric + epistemic)
        pairs = zip(realised.T, expected.T, strict=True)
        self.loss_correction_ = replace(uncorrected, curves=tuple(recalibration.learn(*pair, method) for pair in pairs))
        if getattr(self, "conformalized_", True) and hasattr(self, "scores_"):
            del self.scores_
            self.recalibrated_after_ = True
        return self

    def conformalize(self, X: Any, y: Any) -> Self:
        """Give intervals guaranteed coverage, with rows used neither in `fit` nor in `recalibrate`.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows from the distribution of the new rows.
        y : array-like of shape (n,) or (n, m)
            Their targets.

        Returns
        -------
        self
            The same estimator, with intervals that rest on these rows.
        """
        check_is_fitted(self)
        self._require_losses_by_output()
        prediction, aleatoric, epistemic = self._predict_parts(X)
        Y = self._targets(y, len(prediction))
        expected = self._correction()(aleatoric + epistemic) + self._implausible_loss(prediction)
        self.scores_ = conformal.scores(self._realised(Y, prediction), expected, np.sign(Y - prediction))
        self.conformalized_ = True
        self.__dict__.pop("recalibrated_after_", None)
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9, symmetric: bool = False) -> tuple[Floats, Floats]:
        """Predict an interval for the target of each row.

        After `conformalize` the probability is at least `coverage`, whatever the distribution and however few the rows
        are. Before, the rows that `fit` held out in turn take their place: the coverage is close to `coverage` in
        practice, but not guaranteed. Each end has its own level, so that as many targets are expected below as above,
        also if errors are skewed.

        Parameters
        ----------
        X : table of shape (n, d)
            New rows.
        coverage : float, default=0.9
            Probability that the interval contains the target, for each output.
        symmetric : bool, default=False
            Whether both ends have the same loss. This is also done if there are fewer than ``2 / (1 - coverage) - 1``
            held-out rows.

        Returns
        -------
        lower, upper : ndarray of shape (n,) or (n, m)
            The ends. A custom cost must grow on both sides of the prediction, otherwise the interval is too short, with
            a warning.

        Raises
        ------
        ValueError
            If no rows were held out, or if `recalibrate` was called after `conformalize`.
        """
        return self.interval_of(self.predict_uncertainty(X), coverage, symmetric)

    def interval_of(
        self, prediction: Prediction, coverage: float = 0.9, symmetric: bool = False
    ) -> tuple[Floats, Floats]:
        """Give the interval of predictions that `predict_uncertainty` returned.

        Parameters
        ----------
        prediction : Prediction
            The result of `predict_uncertainty`.
        coverage : float, default=0.9
            Probability that the interval contains the target, for each output.
        symmetric : bool, default=False
            Whether both ends have the same loss.

        Returns
        -------
        lower, upper : ndarray of shape (n,) or (n, m)
            The ends, as of `predict_interval`.
        """
        if not (is_number(coverage) and 0 < coverage < 1):
            raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage!r}.")
        self._require_scores()
        if not conformal.grows(prediction.loss, prediction.prediction):
            warnings.warn(
                f"loss {prediction.loss.name!r} does not grow with the distance from the prediction: targets that cost "
                "little are not one interval, and the coverage is not what is asked for.",
                stacklevel=2,
            )
        y_pred, expected = prediction.prediction, prediction.expected_loss
        both = None if symmetric else conformal.quantiles(self.scores_, coverage)
        if both is not None:
            lower, upper = (q[0] if self.y_is_1d_ else q for q in both)
            low, high = conformal.ends(prediction.loss, y_pred, expected, (lower, upper))
        else:
            factor = conformal.quantile(self.scores_, coverage)
            factor = factor[0] if self.y_is_1d_ else factor
            low, high = conformal.level_set(prediction.loss, y_pred, conformal.levels(factor, expected))
        margin = self._resolution()
        margin = margin[0] if self.y_is_1d_ else margin
        return low - margin, high + margin

    def _resolution(self) -> Floats:
        """How far apart predictions (M,) must be to differ; intervals reach at least so far."""
        return np.zeros(self.n_outputs_)

    def _require_losses_by_output(self) -> None:
        if len(self.loss_scale_) < self.n_outputs_:
            raise ValueError("intervals for several outputs need one quantifier each: set per_output=True.")

    def _require_scores(self) -> None:
        if hasattr(self, "scores_"):
            return
        self._require_losses_by_output()
        if hasattr(self, "recalibrated_after_"):
            raise ValueError(
                "recalibrate was called after conformalize, and the guarantee of the intervals is lost: call "
                "conformalize(X, y) again, with held-out rows used neither in fit nor in recalibrate."
            )
        raise ValueError(
            "predict_interval needs held-out rows, and fit held none out: call conformalize(X, y) with rows used "
            "neither in fit nor in recalibrate."
        )

    # ------------------------------------------------------------ files

    def save(self, path: str | PathLike[str], *, key: bytes | None = None) -> None:
        """Write the fitted model to a file that `aleator.load` reads. The file contains no code.

        Parameters
        ----------
        path : str or PathLike
            The file. It appears whole or not at all.
        key : bytes, default=None
            A secret key with which the file is signed (HMAC-SHA-256). ``aleator.load(path, key=key)`` then refuses any
            file that was not signed with it.

        Raises
        ------
        ValueError
            If the model holds something that a file cannot hold, such as a custom function.
        """
        check_is_fitted(self)
        serialization.save(self, path, key)

    # ------------------------------------------------------------ scikit-learn

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def realised_losses(loss: Loss | Cost, y: Floats, y_pred: Floats, n_losses: int) -> Floats:
    """The loss (n, Q) of each row: of each output, or summed over all of them."""
    if isinstance(loss, Loss) and loss.over_rows and np.ndim(y) < 2:
        raise ValueError(f"the loss {loss.name!r} is over rows of several outputs, and y has one.")
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
    """The columns of (n, Q) by name; a single one has no number."""
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
