"""The quantifier for a regressor that is already there: post hoc, for any regressor and any loss (sec. 9 of the paper).

The regressor predicts rows it was not fitted to; quantifiers learn its losses there from the table and the prediction;
the regressor is then fitted to all rows. With `rounds` the two are trained in turn, which is the joint loss
L f(z) + lam g(z) for any regressor that takes weights and is trained with L: its part is a fit with weights f(z).
"""

import numbers
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d

from aleator import losses
from aleator.couplings import Coupling
from aleator.estimators import crossfit, encoding, fitting, quantifiers, recipe, robust, saving_given
from aleator.estimators.crossfit import OutOfFold
from aleator.estimators.encoding import TableEncoder
from aleator.estimators.held_out import HeldOut
from aleator.estimators.quantified import QuantifiedRegressor, numbered, realised_losses
from aleator.estimators.reading import any_rows, check_parameters, columns, targets
from aleator.estimators.settings import Lam, NetworkSettings, Schedule
from aleator.estimators.table import ROWS_AT_A_TIME
from aleator.losses import Cost, Loss
from aleator.model_files import layout

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class LossQuantifier(NetworkSettings, MetaEstimatorMixin, QuantifiedRegressor):  # type: ignore[misc]
    """Adds to any regressor the expected loss of each of its predictions, right in scale.

    Parameters
    ----------
    estimator : the regressor: anything with `predict`, or a function X -> y. It is cloned, never changed. Without `fit`
        it is taken as it is, as with cv="prefit".
    loss : what a wrong prediction costs, not necessarily what the regressor was trained with: "squared", "absolute",
        "huber(delta)", "pinball(q)", "logcosh", a `Loss`, or a plain function (y, y_pred) -> losses, one for each row.
    coupling, lam : the joint loss L f(z) + lam g(z) the quantifier minimises; lam is in units of the mean loss, and
        "auto" is 0.1: nothing has to be learned first, so there is nothing to fall from.
    cv : a number of folds, or a splitter of scikit-learn's; with `fit(groups=...)` groups stay together. The losses are
        those of regressors fitted without a fold; the regressor that answers is fitted to all rows and a little better,
        so with a few hundred rows take 10 or 20. "prefit": take the fitted estimator as it is, and give `fit` rows that
        it was not trained on. (There is a warning if it predicts them with R^2 > 0.999, or holds that very table. Most
        training rows do not give themselves away: a forest's losses on them are three times too small.)
    n_members : quantifiers, which differ by chance; their expected losses are averaged.
    rounds : 1 leaves the regressor as it is. More train the two in turn: each round weights the rows by f(z), which is
        small where the loss is large, so that the regressor fits better what is clean; it must take sample_weight.
    encoder : what turns X into numbers for the quantifier: a transformer or a function; None for `TableEncoder`, which
        takes text, categories, dates and missing values: see `aleator.estimators.encoding`.
    use_prediction : whether the quantifier sees the prediction too.
    per_output : for targets with several outputs, an expected loss for each instead of one for their sum.
    hidden, activation, scaling, dropout, optimizer, learning_rate, momentum, l2, clip, epochs, batch_size : network and
        training of the quantifiers, as in `PairRegressor`. epochs=None finds the number on the folds of `cv`, scales
        the expected loss to mean realised over mean predicted loss there (`rescale`), and leaves intervals; with a
        number nothing is held out, and intervals need `calibrate`.
    n_jobs : threads of the quantifiers; -1 for all. The result does not depend on it.
    random_state : seed, or numpy's RandomState, of folds and quantifiers; the randomness of the estimator is its own.
    verbose : show progress bars.

    Attributes
    ----------
    estimator_ : the regressor that answers, fitted to all rows (prefit: the one given).
    out_of_fold_ : DataFrame of the rows it was judged by: row, fold, prediction, loss, and the expected loss by
        quantifiers that had not seen the row. Rows equal in X, prediction and loss count once.
    prediction_range_ : the least and the largest plausible prediction, twice as far from the median of y as y reaches.
        What a prediction beyond loses at least, the loss between the end of the range and it, is added to its
        expected loss.
    loss_scale_, loss_limits_, check_, n_epochs_, history_ : as in `PairRegressor`. A network that fails its check is
        replaced by a linear quantifier or by a constant, whichever has the better score.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> X = np.linspace(0, 1, 400)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=400)
    >>> model = LossQuantifier(Ridge(), loss="absolute").fit(X, y)
    >>> low, high = model.predict_loss([[0.1], [0.9]])
    >>> bool(low < 0.2 < high)
    True
    """

    estimator: Any
    loss: str | Loss | Callable[..., Any] = "squared"
    coupling: str | Coupling = "sigmoid"
    lam: Lam = "auto"
    _: KW_ONLY
    cv: Any = 5
    n_members: int = 5
    rounds: int = 1
    encoder: Any = None
    use_prediction: bool = True
    per_output: bool = False
    rescale: bool = True
    learning_rate: Schedule = recipe.GIVEN_RATE
    l2: float = recipe.GIVEN_L2
    _layout: ClassVar[layout.Layout] = layout.QUANTIFIER

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any) -> Self:
        """Cross-fit the estimator on X and y (n,) or (n, m), learn its losses, and fit it to all rows.

        `sample_weight` weights the rows for the estimator and the quantifiers alike. `groups` goes to the splitter, any
        further parameter to the estimator's `fit`. With scikit-learn's metadata routing enabled, requests decide.
        """
        with self._as_it_was_on_error():
            self._learn(X, y, sample_weight, groups, fit_params)
        self._warn_if_unreliable()
        return self

    def _learn(self, X: Any, y: Any, sample_weight: Any, groups: Any, fit_params: dict[str, Any]) -> Self:
        check_parameters(self)
        crossfit.check_regressor(self.estimator)
        self.settings_ = self.get_params(deep=False)
        X, n_rows = any_rows(self, X, y, general=self.encoder is not None)
        y = targets(y, n_rows)
        self.y_is_1d_, self.n_outputs_ = y.ndim == 1, columns(y).shape[1]
        weight = sample_weight
        if weight is not None:
            weight = _check_sample_weight(weight, y, dtype=np.float64, ensure_non_negative=True)
            if np.count_nonzero(weight) < 2:
                raise ValueError("sample_weight is zero for all rows but at most one; nothing is left to learn from.")
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(y, groups)
        if crossfit.is_given(self.estimator, self.cv):
            self._take_as_it_is(X, y, weight, groups, fit_params)
        else:
            self._fit_in_turn(X, y, weight, groups, fit_params)
        return self

    def _take_as_it_is(self, X: Any, y: Floats, weight: Floats | None, groups: Any, fit_params: dict[str, Any]) -> None:
        if self.rounds > 1 or fit_params:
            what = "rounds > 1" if self.rounds > 1 else f"the fit parameter {next(iter(fit_params))!r}"
            raise ValueError(f"{what} asks to fit the estimator, which is to be taken as it is (prefit).")
        crossfit.check_fitted(self.estimator)
        self.estimator_ = self.estimator
        said = crossfit.predictions(self.estimator, X, len(y), self.n_outputs_)
        crossfit.warn_if_training_rows(self.estimator, X, y, said)
        self._quantify(X, y, weight, groups, OutOfFold(np.arange(len(y)), np.zeros(len(y), np.int64), said))

    def _fit_in_turn(self, X: Any, y: Floats, weight: Floats | None, groups: Any, fit_params: dict[str, Any]) -> None:
        """Regressor and quantifiers by turns; the regressor that answers has the weights of the last turn."""
        n_rows, own = len(y), np.ones(len(y)) if weight is None else weight
        counts = None if weight is None or _routing_enabled() else crossfit.counts(self.estimator, weight)
        fit_params, split_params = self._routed(None if counts is not None else weight, groups, fit_params)
        folds = crossfit.folds(self.cv, X, y, weight, self._seed(), split_params)
        bar, tick = fitting.progress(self.verbose, "fitting the estimator", self.rounds * len(folds) + 1)

        def fit(rows: NDArray[np.int64]) -> Any:
            rows = rows if counts is None else np.repeat(rows, counts[rows])
            return crossfit.fitted(self.estimator, X, y, rows, fit_params)

        with bar:
            for turn in range(self.rounds):
                oof = crossfit.out_of_fold(fit, X, folds, self.n_outputs_, tick)
                f = self._quantify(X, y, weight, groups, oof)
                if turn + 1 < self.rounds:
                    name = crossfit.weight_parameter(self.estimator)
                    weights = f if counts is not None else own * f
                    fit_params = fit_params | {name: weights / weights.mean()}
            self.estimator_ = fit(np.arange(n_rows))
            tick(1)

    def _quantify(self, X: Any, y: Floats, weight: Floats | None, groups: Any, oof: OutOfFold) -> Floats:
        """Train the quantifiers of the losses in `oof`; returns f(z) of each row of X.

        A row that was predicted k times enters k times with 1/k of its weight, a row of weight zero not at all.
        """
        own = np.ones(len(y)) if weight is None else weight
        oof = oof.of(own[oof.rows] > 0)
        self.prediction_range_ = self._plausible(y, own)
        loss, seen_y = losses.measured(self.loss), y[oof.rows]
        realised = realised_losses(loss, seen_y, oof.predictions.reshape(seen_y.shape), self._n_losses())
        L = realised_losses(loss, seen_y, self._inside(oof.predictions).reshape(seen_y.shape), self._n_losses())
        part = crossfit.held_out_together(oof, X, y, groups, self._seed())
        seen = _safe_indexing(X, oof.rows)
        encoder = TableEncoder() if self.encoder is None else self.encoder
        self.encoder_, encoded = encoding.learned(encoder, seen, L.mean(axis=1), part)
        Z = self._with_prediction(encoded, oof.predictions)
        side = np.sign(columns(y)[oof.rows] - oof.predictions)
        trained, rejected = self._trusted(Z, L, own[oof.rows] / oof.times(), part)
        self.quantifiers_, self.n_epochs_, self.history_ = trained.quantifiers, trained.epochs, trained.history
        held_out = trained.held_out and replace(trained.held_out, side=side[trained.held_out.rows])
        self.loss_scale_ = np.ones(self._n_losses())
        self._judged_by(held_out if self.rescale else None)
        if rejected and self.check_.quantifier == "network":
            self.check_ = replace(self.check_, quantifier="linear", rejected=rejected)
        if hasattr(self, "check_"):
            self.check_ = replace(self.check_, outliers=tuple(int(oof.rows[row]) for row in self.check_.outliers))
        if held_out is not None:
            beyond = self._beyond(oof.predictions[held_out.rows])
            self._calibrated_by(replace(held_out, realised=realised[held_out.rows]), beyond)
        else:
            self._calibrated_by(None)
        self.out_of_fold_ = self._out_of_fold(oof, realised, held_out)
        return oof.mean_by_row(trained.quantifiers.weights(Z).mean(axis=1), len(y))

    def _trusted(
        self, Z: Floats, L: Floats, weight: Floats, part: NDArray[np.int64]
    ) -> tuple[quantifiers.Trained, tuple[str, ...]]:
        """Trained quantifiers: linear ones if networks fail their check on held-out rows, for what reasons."""
        trained = quantifiers.learn(self, Z, L, weight, part)
        if not (self.rescale and trained.held_out and tuple(self.hidden)):
            return trained, ()
        problems = tuple(filter(None, trained.held_out.check().problems))
        if not problems:
            return trained, ()
        simpler = quantifiers.learn(replace(self, hidden=()), Z, L, weight, part)
        assert simpler.held_out is not None
        return (simpler, problems) if simpler.held_out.score < trained.held_out.score else (trained, ())

    def _out_of_fold(self, oof: OutOfFold, L: Floats, held_out: HeldOut | None) -> pd.DataFrame:
        columns_of = numbered("prediction", oof.predictions) | numbered("loss", L)
        table = pd.DataFrame({"row": oof.rows, "fold": oof.fold} | columns_of)
        if held_out is not None:
            known = self._within_limits(self.loss_scale_ * held_out.predicted)
            known = known + self._beyond(oof.predictions[held_out.rows])
            expected = pd.DataFrame(numbered("expected_loss", known))
            table = table.iloc[held_out.rows].reset_index(drop=True).join(expected)
        return table.sort_values(["row", "fold"], ignore_index=True)

    def _plausible(self, y: Floats, weight: Floats) -> Floats:
        """The least and the largest plausible prediction (2, M) of each output; infinite for a custom loss."""
        loss, ends = losses.measured(self.loss), np.tile([[-np.inf], [np.inf]], self.n_outputs_)
        if isinstance(loss, Loss) and losses.is_shipped(loss):
            weight = weight / weight.max()  # first, so that no sum can overflow
            weight = weight / weight[weight > 0].mean()
            ends = np.transpose([robust.prediction_range(target, weight) for target in columns(y).T])
        return np.ascontiguousarray(ends)

    def _inside(self, mean: Floats) -> Floats:
        return np.clip(mean, *self.prediction_range_)

    def _beyond(self, mean: Floats) -> Floats:
        """What predictions (n, M) beyond all plausible ones lose at least (n, Q): the loss of the way back."""
        inside = self._inside(mean)
        each = self._loss()(inside, mean) if (inside != mean).any() else np.zeros_like(mean)
        each = np.minimum(each, robust.LARGEST)  # squares overflow
        return each if each.shape[1] == len(self.loss_scale_) else each.sum(axis=1, keepdims=True)

    def _seed(self) -> int:
        return fitting.member_seeds(self.random_state, 1)[0]

    def _n_losses(self) -> int:
        return self.n_outputs_ if self.settings_["per_output"] else 1

    # ------------------------------------------------------------ metadata

    def _routed(
        self, weight: Floats | None, groups: Any, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters of the estimator's `fit` and of the splitter's `split`."""
        by_groups = {} if groups is None else {"groups": groups}
        if not _routing_enabled():
            weights = {} if weight is None else {crossfit.weight_parameter(self.estimator): weight}
            return fit_params | weights, by_groups
        weights = {} if weight is None else {"sample_weight": weight}
        routed = process_routing(self, "fit", **weights, **by_groups, **fit_params)
        to_splitter = by_groups if isinstance(self.cv, numbers.Integral) else routed.splitter.split
        return dict(routed.estimator.fit), dict(to_splitter)

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata goes: `fit` to the estimator's `fit` and to the splitter's `split`."""
        splitter = None if isinstance(self.cv, (str, numbers.Integral)) else check_cv(self.cv)
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
            .add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    # ------------------------------------------------------------ predict

    def _means(self, X: Any) -> Floats:
        X, n_rows = any_rows(self, X, general=self.settings_["encoder"] is not None)
        return crossfit.predictions(self.estimator_, X, n_rows, self.n_outputs_)

    def _answers(self, X: Any) -> tuple[Floats, Floats, Floats]:
        X, n_rows = any_rows(self, X, general=self.settings_["encoder"] is not None)
        said = crossfit.predictions(self.estimator_, X, n_rows, self.n_outputs_)
        # Numbers are encoded row by row, so a large table need not be held twice.
        size = ROWS_AT_A_TIME if getattr(self.encoder_, "kinds_", None) == [] else n_rows
        blocks = [slice(lo, min(lo + size, n_rows)) for lo in range(0, n_rows, size)]

        def expected(block: slice) -> Floats:
            encoded = encoding.applied(self.encoder_, _safe_indexing(X, block), block.stop - block.start)
            Z = self._with_prediction(encoded, said[block])
            if Z.shape[1] != self.quantifiers_.network.n_inputs:
                raise ValueError(
                    f"the encoder gives {encoded.shape[1]} columns, and in fit it gave "
                    f"{encoded.shape[1] + self.quantifiers_.network.n_inputs - Z.shape[1]}."
                )
            return self.quantifiers_.expected(Z)

        with ThreadPoolExecutor(fitting.threads(self.n_jobs)) as pool:
            told = np.concatenate(list(pool.map(expected, blocks)))
        return said, told, np.zeros_like(told)

    def _with_prediction(self, encoded: Floats, said: Floats) -> Floats:
        seen = np.column_stack([encoded, said]) if self.settings_["use_prediction"] else encoded
        return np.ascontiguousarray(seen)

    def _loss(self) -> Loss | Cost:
        return losses.measured(self.settings_["loss"])

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return saving_given.pack_given(self)

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any], estimator: Any = None) -> Any:
        return saving_given.unpack_given(cls, facts, arrays, estimator)

    # ------------------------------------------------------------ scikit-learn

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, BaseEstimator):
            inner = get_tags(self.estimator)
            tags.input_tags.allow_nan = inner.input_tags.allow_nan
            tags.target_tags.multi_output = inner.target_tags.multi_output
            tags.target_tags.single_output = inner.target_tags.single_output
            tags.regressor_tags = inner.regressor_tags or tags.regressor_tags
        return tags
