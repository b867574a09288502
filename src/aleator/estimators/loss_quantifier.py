"""The quantifier of a regressor that exists already: any regressor, any loss (sec. 9 of the paper).

The regressor predicts rows it was not fitted to. Quantifiers learn its losses there from the table and the prediction.
The regressor is then fitted to all rows. With `rounds` the two are trained in turn, which minimises the joint loss
L f(z) + lam g(z) for any regressor that takes weights and is trained with L: its part is a fit with weights f(z). Where
trees are part of the quantifier, f is that of the trees, one over the expected loss.
"""

import numbers
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.model_selection import check_cv
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.validation import check_consistent_length, column_or_1d

from aleator import losses
from aleator.array_types import Floats, Rows
from aleator.couplings import Coupling
from aleator.estimators import cross_fitting
from aleator.estimators.base import QuantifiedRegressor, numbered, realised_losses
from aleator.estimators.cross_fitting import OutOfFold
from aleator.estimators.documented import documented
from aleator.losses import Cost, Loss
from aleator.mixtures import Parts
from aleator.model_files import layout, loss_quantifier_file
from aleator.preprocessing import outliers, table_encoder
from aleator.preprocessing.parameter_checks import check_parameters
from aleator.preprocessing.standardisation import ROWS_PER_BLOCK
from aleator.preprocessing.table_encoder import TableEncoder
from aleator.preprocessing.validation import (
    any_rows,
    as_pandas,
    columns,
    regressor_predictions,
    targets,
    weights_of_rows,
)
from aleator.training import defaults, progress
from aleator.training.fold_share import certain_part, extrapolated_share
from aleator.training.held_out import HeldOutLosses, plausible_losses
from aleator.training.problem import member_seeds, threads
from aleator.training.quantifier import fit_loss_model
from aleator.training.settings import Lam, NetworkSettings, Schedule


@documented
@dataclass(eq=False, repr=False)
class LossQuantifier(NetworkSettings, MetaEstimatorMixin, QuantifiedRegressor):  # type: ignore[misc]
    """Adds to any regressor the expected loss of each of its predictions.

    The regressor is cross-fitted, small networks and gradient-boosted trees learn its out-of-fold losses, and the
    regressor is then fitted to all rows. Networks and trees minimise the joint loss of [1]_ with the regressor held
    fixed, so their output is the expected loss, whatever the noise.

    Parameters
    ----------
    estimator : estimator or callable
        The regressor: anything with `predict`, or a function ``X -> y``. It is cloned and never changed. An object
        without `fit` is used as it is, as with ``cv="prefit"``.
    loss : str, Loss or callable
        Loss of a prediction: "squared", "absolute", "huber(delta)", "pinball(q)", "logcosh", a `Loss`, or a plain
        function ``(y, y_pred) -> losses`` with one loss for each row. It need not be the loss that the regressor was
        trained with.
    coupling : str or Coupling
        The functions f and g of the joint loss: "sigmoid", "softplus", or a `Coupling`.
    lam : {"auto"}, float or callable
        The factor of the joint loss, in units of the mean loss. ``"auto"`` is 0.1.
    quantifier : {"auto", "network", "trees", "mixed"}
        What learns the losses: neural networks, which see smooth structure, gradient-boosted trees, which see local
        structure, or a mixture. A mixture is half of each, unless another share is clearly better on held-out rows.
        ``"auto"`` is a mixture, or one kind alone if that is clearly better; it is networks with fewer than 200 rows,
        with ``hidden=()``, and where no rows are held out. `coupling`, `lam`, `epochs` and the other parameters of
        networks do not concern trees.
    cv : {"auto", "prefit"}, int or splitter
        Number of folds, or a splitter of scikit-learn; with ``fit(groups=...)`` groups stay together. ``"auto"`` is 10
        folds below 4,000 different rows, else 5, and at most one for each group: the losses are those of regressors
        fitted without a fold, which matters most on small tables. ``"prefit"`` takes a fitted regressor as it is; `fit`
        then needs rows that the regressor was not trained on.
    n_members : int
        Number of quantifiers with different random seeds; their expected losses are averaged.
    rounds : int
        1 leaves the regressor as it is. With more, regressor and quantifier are trained in turn: each round weights the
        rows by f(z), so that the regressor fits clean rows better. The regressor must accept sample weights.
    encoder : {"auto"}, None, transformer or callable
        What turns X into numbers for the quantifier. ``"auto"`` takes numbers as they are, and text, categories, dates
        and missing values through `TableEncoder`. None accepts numbers only.
    use_prediction : bool
        Whether the prediction is an input of the quantifier.
    per_output : bool
        For several outputs: an expected loss for each output, instead of one for the sum of the losses.
    rescale : bool
        Multiply the expected loss by mean realised over mean expected loss on held-out rows.
    learning_rate : float or callable
        Learning rate, or a function of the epoch, from 0.
    l2 : float
        Penalty ``l2 / (2 n)`` on the squared weights, where n is the number of rows.
    epochs : int or None
        Passes over the rows when the quantifiers are trained. None finds the number on the folds of `cv`. These folds
        also give scale and intervals, unless `epochs` is a number and `rescale` is False.

    Attributes
    ----------
    estimator_ : estimator
        The regressor that predicts, fitted to all rows; with ``cv="prefit"`` the given one.
    encoder_ : transformer
        The fitted encoder of the quantifier's inputs.
    out_of_fold_ : DataFrame
        The held-out rows: row, fold, prediction, loss, and the expected loss by quantifiers that had not seen the row.
        Rows equal in X, prediction and loss count once.
    prediction_range_ : ndarray of shape (2, n_outputs)
        Least and largest plausible prediction, twice as far from the median of y as y reaches. The loss between a
        prediction outside and the range is added to its expected loss. Infinite for a custom loss.
    fold_share_ : ndarray of shape (n_losses,)
        The factor from out-of-fold losses to those of `estimator_`, which learns from all rows; `loss_scale_` includes
        it. It is measured by regressors fitted without two folds: about half as many as there are folds below 1,000
        rows, about a quarter below 10,000. It is 1 where nothing is measured: with more rows, two folds, a splitter,
        ``cv="prefit"``, ``rescale=False``, or a regressor that cannot be fitted without two folds.
    check_ : Check
        The model's own check on held-out rows: `passed`, `message`, `groups`. A quantifier that fails is replaced by
        another mixture that does not, else by a linear one or a constant, if that has a better score; see
        `check_.quantifier`.
    n_epochs_ : ndarray of int
        Epochs of each network; 0 if there are trees only.
    history_ : DataFrame
        Losses of the networks by member and epoch, in the units of the loss. With trees only, their joint loss on
        held-out rows by the number of trees.

    See Also
    --------
    PairEnsemble : Networks trained together with their expected loss.
    aleator.torch.Quantifier : The same for a trained torch module.

    References
    ----------
    .. [1] P. Gurevich, H. Stuke, "Pairing an arbitrary regressor with an artificial neural network estimating aleatoric
       uncertainty".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from aleator import LossQuantifier
    >>> X = np.linspace(0, 1, 400)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=400)
    >>> model = LossQuantifier(Ridge(), loss="absolute").fit(X, y)
    >>> low, high = model.predict_loss([[0.1], [0.9]])
    >>> bool(low < 0.2 < high)
    True
    """

    estimator: Any
    _: KW_ONLY
    loss: str | Loss | Callable[..., Any] = "squared"
    coupling: str | Coupling = "sigmoid"
    lam: Lam = "auto"
    quantifier: str = "auto"
    cv: Any = "auto"
    n_members: int = 5
    rounds: int = 1
    encoder: Any = "auto"
    use_prediction: bool = True
    per_output: bool = False
    rescale: bool = True
    learning_rate: Schedule = defaults.GIVEN_RATE
    l2: float = defaults.GIVEN_L2
    _layout: ClassVar[layout.Layout] = layout.QUANTIFIER

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any) -> Self:
        """Cross-fit the regressor, learn its losses, and fit it to all rows.

        Parameters
        ----------
        X : table of shape (n, d)
            Any table that the regressor accepts.
        y : array-like of shape (n,) or (n, m)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows, for the regressor and the quantifiers alike.
        groups : array-like of shape (n,), default=None
            Groups for the splitter; rows of one group are held out together.
        **fit_params : dict
            Further arguments of the regressor's `fit`. With metadata routing enabled, requests decide where they go.

        Returns
        -------
        LossQuantifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If the table, the parameters or the losses are invalid; the message names what and where.
        """
        with self._restored_on_error():
            self._fit(X, y, sample_weight, groups, fit_params)
        self._warn_if_unreliable()
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any, fit_params: dict[str, Any]) -> None:
        check_parameters(self)
        cross_fitting.check_regressor(self.estimator)
        self.settings_ = self.get_params(deep=False)
        X, n_rows = any_rows(self, as_pandas(X), y, general=not isinstance(self._encoder(), TableEncoder))
        y = targets(y, n_rows)
        self.y_is_1d_, self.n_outputs_ = y.ndim == 1, columns(y).shape[1]
        weight = weights_of_rows(sample_weight, n_rows)
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(y, groups)
        if cross_fitting.is_given(self.estimator, self.cv):
            self._take_as_it_is(X, y, weight, groups, fit_params)
        else:
            self._fit_in_turn(X, y, weight, groups, fit_params)

    def _take_as_it_is(self, X: Any, y: Floats, weight: Floats | None, groups: Any, fit_params: dict[str, Any]) -> None:
        if self.rounds > 1 or fit_params:
            what = "rounds > 1" if self.rounds > 1 else f"the fit parameter {next(iter(fit_params))!r}"
            raise ValueError(f"{what} asks to fit the estimator, which is to be taken as it is (prefit).")
        cross_fitting.check_fitted(self.estimator)
        self.estimator_ = self.estimator
        prediction = regressor_predictions(self.estimator, X, len(y), self.n_outputs_)
        cross_fitting.warn_if_training_rows(self.estimator, X, y, prediction)
        self._quantify(X, y, weight, groups, OutOfFold(np.arange(len(y)), np.zeros(len(y), np.int64), prediction))

    def _fit_in_turn(self, X: Any, y: Floats, weight: Floats | None, groups: Any, fit_params: dict[str, Any]) -> None:
        """Regressor and quantifiers in turn; the final regressor has the weights of the last turn."""
        n_rows, own = len(y), np.ones(len(y)) if weight is None else weight
        counts = None if weight is None or _routing_enabled() else cross_fitting.counts(self.estimator, weight)
        fit_params, split_params = self._routed(None if counts is not None else weight, groups, fit_params)
        folds = cross_fitting.folds(self.cv, X, y, weight, self._seed(), split_params)
        n_pairs = 0
        if self.rescale and cross_fitting.makes_own_folds(self.cv):
            n_pairs = defaults.pairs_of_folds(len(folds), cross_fitting.distinct_rows(X, y, weight))
        n_fits = self.rounds * len(folds) + n_pairs + 1
        bar, tick = progress.progress_bar(self.verbose, "fitting the estimator", n_fits)

        def fit(rows: Rows) -> Any:
            rows = rows if counts is None else np.repeat(rows, counts[rows])
            return cross_fitting.fitted(self.estimator, X, y, rows, fit_params)

        with bar:
            for turn in range(self.rounds):
                oof = cross_fitting.out_of_fold(fit, X, folds, self.n_outputs_, tick)
                n_pairs_now = n_pairs if turn + 1 == self.rounds else 0
                without_two = cross_fitting.without_two_folds(fit, X, folds, n_pairs_now, self.n_outputs_, tick)
                f = self._quantify(X, y, weight, groups, oof, without_two)
                if turn + 1 < self.rounds:
                    name = cross_fitting.weight_parameter(self.estimator)
                    weights = f if counts is not None else own * f
                    fit_params = fit_params | {name: weights / weights.mean()}
            self.estimator_ = fit(np.arange(n_rows))
            tick(1)

    def _quantify(
        self,
        X: Any,
        y: Floats,
        weight: Floats | None,
        groups: Any,
        oof: OutOfFold,
        without_two: OutOfFold | None = None,
    ) -> Floats:
        """Train the quantifiers of the losses in `oof`; returns f(z) of each row of X.

        A row that was predicted k times enters k times with 1/k of its weight, a row of weight zero not at all.
        `without_two` has predictions by regressors that lack one fold more.
        """
        own = np.ones(len(y)) if weight is None else weight
        oof = oof.of(own[oof.rows] > 0)
        self.prediction_range_ = self._plausible_predictions(y, own)
        realised, L = self._losses_of(oof, oof.predictions, y), self._losses_of(oof, self._clipped(oof.predictions), y)
        fold = cross_fitting.held_out_together(oof, X, y, groups, self._seed())
        seen = _safe_indexing(X, oof.rows)
        encoder = self._encoder()
        self.encoder_, encoded = table_encoder.fitted(encoder, seen, L.mean(axis=1), fold)
        Z = self._with_prediction(encoded, oof.predictions)
        side = np.sign(columns(y)[oof.rows] - oof.predictions)
        trained = fit_loss_model(self, Z, L, own[oof.rows] / oof.times(), fold)
        self.quantifiers_, self.n_epochs_, self.history_ = trained.model, trained.epochs, trained.history
        held_out = trained.held_out and replace(trained.held_out, side=side[trained.held_out.rows])
        self.fold_share_ = np.ones(self._n_losses())
        if without_two is not None:
            self.fold_share_ = self._fold_share(oof, without_two, y, own)
        self._set_correction(held_out if self.rescale else None, self._n_losses(), self.fold_share_)
        if hasattr(self, "check_"):
            if self.check_.quantifier != "constant":
                rejected = trained.rejected or self.check_.rejected
                self.check_ = replace(self.check_, quantifier=self._kind(), rejected=rejected)
            self.check_ = replace(self.check_, outliers=tuple(int(oof.rows[row]) for row in self.check_.outliers))
        if held_out is not None:
            implausible = self._implausible_loss(oof.predictions[held_out.rows])
            self._set_scores(replace(held_out, realised=realised[held_out.rows]), implausible)
        self.out_of_fold_ = self._out_of_fold(oof, realised, held_out)
        return oof.mean_by_row(trained.model.weights(Z).mean(axis=1), len(y))

    def _losses_of(self, oof: OutOfFold, predictions: Floats, y: Floats) -> Floats:
        """The losses (k, Q) of predictions of rows of y."""
        seen_y = y[oof.rows]
        return realised_losses(losses.measured(self.loss), seen_y, predictions.reshape(seen_y.shape), self._n_losses())

    def _fold_share(self, oof: OutOfFold, without_two: OutOfFold, y: Floats, weight: Floats) -> Floats:
        """What is left (Q,) of the losses of regressors that lack a fold, for one that lacks none (`fold_share.py`)."""
        place = np.empty(len(y), np.int64)
        place[oof.rows] = np.arange(len(oof.rows))
        double = without_two.of(weight[without_two.rows] > 0)
        own = weight[double.rows]

        def plausible(predictions: Floats) -> Floats:
            each = self._losses_of(double, self._clipped(predictions), y)
            return np.column_stack([plausible_losses(L, own) for L in each.T])

        one, two = plausible(oof.predictions[place[double.rows]]), plausible(double.predictions)
        means = np.average(one, axis=0, weights=own), np.average(two, axis=0, weights=own)
        shares = extrapolated_share(*means, int(oof.fold.max()) + 1)
        return np.array([certain_part(float(s), a, b, own) for s, a, b in zip(shares, one.T, two.T, strict=True)])

    def _encoder(self) -> Any:
        """The encoder for the quantifier: "auto" is a `TableEncoder`, which leaves plain numbers as they are."""
        if isinstance(self.encoder, str) and self.encoder == "auto":
            return TableEncoder()
        return FunctionTransformer() if self.encoder is None else self.encoder

    def _kind(self) -> str:
        """What the quantifier is made of; with ``hidden=()`` a linear one replaces nothing."""
        kind = self.quantifiers_.kind
        return "network" if kind == "linear" and not tuple(self.settings_["hidden"]) else kind

    def _out_of_fold(self, oof: OutOfFold, L: Floats, held_out: HeldOutLosses | None) -> pd.DataFrame:
        columns_of = numbered("prediction", oof.predictions) | numbered("loss", L)
        table = pd.DataFrame({"row": oof.rows, "fold": oof.fold} | columns_of)
        if held_out is not None:
            expected_loss = self._correction().within_limits(self.loss_scale_ * held_out.predicted) / self.fold_share_
            expected_loss = expected_loss + self._implausible_loss(oof.predictions[held_out.rows])
            expected = pd.DataFrame(numbered("expected_loss", expected_loss))
            table = table.iloc[held_out.rows].reset_index(drop=True).join(expected)
        return table.sort_values(["row", "fold"], ignore_index=True)

    def _plausible_predictions(self, y: Floats, weight: Floats) -> Floats:
        """The smallest and the largest plausible prediction (2, M) of each output; infinite for a custom loss."""
        loss, ends = losses.measured(self.loss), np.tile([[-np.inf], [np.inf]], self.n_outputs_)
        if isinstance(loss, Loss) and losses.is_shipped(loss):
            weight = weight / weight.max()  # first, so that no sum can overflow
            weight = weight / weight[weight > 0].mean()
            ends = np.transpose([outliers.prediction_range(target, weight) for target in columns(y).T])
        return np.ascontiguousarray(ends)

    def _clipped(self, prediction: Floats) -> Floats:
        return np.clip(prediction, *self.prediction_range_)

    def _implausible_loss(self, prediction: Floats) -> Floats:
        """The loss (n, Q) between predictions (n, M) and the nearest plausible ones."""
        inside = self._clipped(prediction)
        each = self._loss()(inside, prediction) if (inside != prediction).any() else np.zeros_like(prediction)
        each = np.minimum(each, outliers.LARGEST)  # squares overflow
        return each if each.shape[1] == len(self.loss_scale_) else each.sum(axis=1, keepdims=True)

    def _seed(self) -> int:
        return member_seeds(self.random_state, 1)[0]

    def _n_losses(self) -> int:
        return self.n_outputs_ if self.settings_["per_output"] else 1

    # ------------------------------------------------------------ metadata

    def _routed(
        self, weight: Floats | None, groups: Any, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters of the estimator's `fit` and of the splitter's `split`."""
        by_groups = {} if groups is None else {"groups": groups}
        if not _routing_enabled():
            weights = {} if weight is None else {cross_fitting.weight_parameter(self.estimator): weight}
            return fit_params | weights, by_groups
        weights = {} if weight is None else {"sample_weight": weight}
        routed = process_routing(self, "fit", **weights, **by_groups, **fit_params)
        to_splitter = by_groups if cross_fitting.makes_own_folds(self.cv) else routed.splitter.split
        return dict(routed.estimator.fit), dict(to_splitter)

    def get_metadata_routing(self) -> MetadataRouter:
        """Get the metadata routing of this estimator.

        Returns
        -------
        MetadataRouter
            `fit` passes metadata to the regressor's `fit` and to the splitter's `split`.
        """
        splitter = None if isinstance(self.cv, (str, numbers.Integral)) else check_cv(self.cv)
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
            .add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    # ------------------------------------------------------------ predict

    def _predict(self, X: Any) -> Floats:
        X, n_rows = self._any_rows(X)
        return regressor_predictions(self.estimator_, X, n_rows, self.n_outputs_)

    def _any_rows(self, X: Any) -> tuple[Any, int]:
        return any_rows(self, as_pandas(X), general=not isinstance(self.encoder_, TableEncoder))

    def _predict_parts(self, X: Any) -> Parts:
        X, n_rows = self._any_rows(X)
        prediction = regressor_predictions(self.estimator_, X, n_rows, self.n_outputs_)
        # Numbers are encoded row by row, so a large table need not be held twice.
        size = ROWS_PER_BLOCK if getattr(self.encoder_, "kinds_", None) == [] else n_rows
        blocks = [slice(lo, min(lo + size, n_rows)) for lo in range(0, n_rows, size)]

        def expected(block: slice) -> Floats:
            encoded = table_encoder.applied(self.encoder_, _safe_indexing(X, block), block.stop - block.start)
            Z = self._with_prediction(encoded, prediction[block])
            if Z.shape[1] != self.quantifiers_.n_inputs:
                raise ValueError(
                    f"the encoder gives {encoded.shape[1]} columns, and in fit it gave "
                    f"{encoded.shape[1] + self.quantifiers_.n_inputs - Z.shape[1]}."
                )
            return self.quantifiers_.expected_loss(Z)

        with ThreadPoolExecutor(threads(self.n_jobs)) as pool:
            expected_loss = np.concatenate(list(pool.map(expected, blocks)))
        return prediction, expected_loss, np.zeros_like(expected_loss)

    def _with_prediction(self, encoded: Floats, prediction: Floats) -> Floats:
        seen = np.column_stack([encoded, prediction]) if self.settings_["use_prediction"] else encoded
        return np.ascontiguousarray(seen)

    def _loss(self) -> Loss | Cost:
        return losses.measured(self.settings_["loss"])

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return loss_quantifier_file.pack_given(self)

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any], estimator: Any = None) -> Any:
        return loss_quantifier_file.unpack_given(cls, facts, arrays, estimator)

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
