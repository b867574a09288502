"""What all estimators made of small networks have in common: fit, predict and uncertainty, for K members.

Subclasses are final. They list their parameters and name their objective (`objectives.py`). A mixture combines the
members (`mixtures.py`), and `training/strategies.py` decides how long they train.
"""

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags, _safe_indexing

from aleator import engine, losses
from aleator.array_types import AnyFloats, Floats, Floats32, Integers
from aleator.estimators.base import QuantifiedRegressor, numbered
from aleator.losses import Loss
from aleator.mixtures import Parts
from aleator.model_files import layout, serialization
from aleator.objectives import Objective
from aleator.preprocessing import splits, table_encoder
from aleator.preprocessing.parameter_checks import check_parameters, increasing
from aleator.preprocessing.standardisation import engine_data, training_set
from aleator.preprocessing.table_encoder import TableEncoder
from aleator.preprocessing.validation import (
    any_rows,
    as_pandas,
    columns,
    groups_of_rows,
    new_rows,
    targets,
    training_rows,
    weights_of_rows,
)
from aleator.training import defaults, strategies
from aleator.training.auto import procedure
from aleator.training.auto.pair_problem import PairProblem
from aleator.training.held_out import held_out_losses
from aleator.training.history import in_units
from aleator.training.network_outputs import Readout
from aleator.training.problem import Problem, member_seeds, problem, threads
from aleator.training.results import HeldOutPart, TrainingResult
from aleator.training.settings import lam_is_auto

RESOLUTION = 1e-6  # spreads of y: networks compute in float32, and closer predictions are the same
Validation = tuple[ArrayLike, ArrayLike]


class NetworkRegressor(QuantifiedRegressor):
    """Abstract: one or several members, each a regressor, perhaps with a quantifier, trained by the engine.

    Subclasses have the parameters of `RegressorSettings`. `judging_members`: how many members are trained without each
    fold, if not all.

    Attributes
    ----------
    n_epochs_ : ndarray of int
        Epochs of each member.
    lam_ : ndarray of float
        lam of each member at the end of the training.
    history_ : DataFrame
        Losses by member and epoch, in the units of the loss: joint_loss and loss on the training rows,
        ``validation_*`` on the validation rows, ``cv_*`` on the rows held out in turn. Where lam changes, ``*_score``
        takes the place of ``*_joint_loss``: the mean of L / e + ln e, where e is the expected loss.
    xi_range_ : ndarray of shape (n_members, 2, n_quantifiers)
        The range to which the quantifier's output is clipped, if rows were held out.
    out_of_fold_ : DataFrame
        The held-out rows: row, loss, and the expected loss by members that had not seen the row. Rows equal in X and y
        count once. Only if rows were held out.
    check_ : Check
        The model's own check on held-out rows: `passed`, `message`, `groups`. A quantifier that fails and is no better
        than a constant is replaced by the constant. Only if rows were held out.
    """

    loss: str | Loss
    n_jobs: int | None
    shared_layers: int
    per_output: bool
    rescale: bool
    n_members: int = 1  # a parameter of ensembles
    judging_members: int | None = None
    encoder: Any = None  # a parameter of pairs
    _layout: ClassVar[layout.Layout] = layout.NETWORK

    @abstractmethod
    def _objective(self) -> Objective:
        """What one sample adds to the training objective."""

    # ------------------------------------------------------------ fit

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, validation: Validation | None = None, groups: Any = None
    ) -> Self:
        """Train on a table.

        Parameters
        ----------
        X : table of shape (n, d)
            Numbers, or any table that `encoder` accepts.
        y : array-like of shape (n,) or (n, m)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weights; a weight of 2 is the row twice. An encoder counts rows without weights.
        validation : tuple (X, y), default=None
            A table whose losses are recorded in `history_`. With `early_stopping` it decides when to stop.
        groups : array-like of shape (n,), default=None
            Rows of one group, such as measurements of one patient, are held out together.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If the table or a parameter is invalid; the message names what and where.
        """
        with self._restored_on_error():
            if self.early_stopping and groups is not None and validation is None:
                raise ValueError(
                    "early_stopping holds rows back one by one, not by groups: give fit a validation table."
                )
            task = self._problem(X, y, sample_weight, groups)
            self._set_fitted(self._train(task, validation), task)
        self._warn_if_unreliable()
        return self

    def fit_staged(self, X: Any, y: Any, epochs: Sequence[int], sample_weight: Any = None) -> Iterator[Self]:
        """Give the model after each of several numbers of epochs, from one training.

        Each stage is a model of its own, equal to the bit to `fit` with that number of `epochs` and ``rescale=False``.
        This estimator is not changed, and its own `epochs` is ignored.

        Parameters
        ----------
        X : table of shape (n, d)
            Numbers, or any table that `encoder` accepts.
        y : array-like of shape (n,) or (n, m)
            Targets.
        epochs : sequence of int
            Increasing numbers of epochs.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        iterator of NetworkRegressor
            The fitted model after each number of epochs.

        Raises
        ------
        ValueError
            If `early_stopping` is set or `lam` is "auto".
        """
        stages = increasing("epochs", epochs)
        if self.early_stopping:
            raise ValueError("fit_staged trains for the given epochs; it has no early_stopping.")
        if lam_is_auto(self):
            raise ValueError("lam='auto' falls until the last epoch, so a stage is not a training of its own: set lam.")
        learner = clone(self).set_params(epochs=stages[-1])
        task = learner._problem(X, y, sample_weight)
        results = strategies.staged(task, task.members(stages[-1]), stages)
        return (learner._at_stage(result, task) for result in results)

    def _at_stage(self, result: TrainingResult, task: Problem) -> Self:
        stage: Self = copy.copy(self).set_params(epochs=int(result.epochs[0]))
        stage._set_fitted(result, task)
        return stage

    def _problem(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> Problem:
        """Check the parameters and the table, and set what does not depend on training."""
        check_parameters(self)
        loss, objective = losses.get(self.loss), self._objective()
        seeds = member_seeds(self.random_state, self.n_members)
        X, y, weight = self._training_table(X, y, sample_weight, groups, seeds[0])
        Y = columns(y)
        losses.check(loss, Y)
        per_output = self.per_output and (objective.quantifies or not loss.over_rows)
        learned = training_set(X, Y, weight, loss, per_output, self.scaling)
        network = self._network(X.shape[1], Y.shape[1], len(learned.units.unit))
        self.network_, self.scaling_, self.units_ = network, learned.scaling, learned.units
        self.y_is_1d_, self.n_outputs_ = y.ndim == 1, Y.shape[1]
        group, keys = None, splits.without_ties(splits.array_keys(X, learned.rows), *Y[learned.rows].T)
        if groups is not None:
            group = groups_of_rows(groups, len(y))[learned.rows]
            group = _two_or_more(groups_of_rows(group, len(group)))  # numbered in the order of the rows
            keys = splits.group_keys(keys, group)
        fold = splits.folds(keys, splits.FOLDS, seeds[0])
        return problem(self, network, loss, objective, learned.data, learned.rows, fold, seeds, group)

    def _training_table(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, seed: int
    ) -> tuple[AnyFloats, Floats, Floats | None]:
        """X (n, D) as numbers, y and weights; sets the encoder, if there is one."""
        self.__dict__.pop("encoder_", None)
        X = as_pandas(X)
        encoder = table_encoder.chosen(self.encoder, X)
        if encoder is None:
            return training_rows(self, X, y, sample_weight)
        X, n_rows = any_rows(self, X, y, general=not isinstance(encoder, TableEncoder), at_least=2)
        if not hasattr(self, "n_features_in_") and np.ndim(X) == 2:
            self.n_features_in_ = int(np.shape(X)[1])
        y = targets(y, n_rows)
        weight = weights_of_rows(sample_weight, n_rows)
        group = None if groups is None else _two_or_more(groups_of_rows(groups, n_rows))
        # Rows of weight zero are as if they were not there.
        kept = np.arange(n_rows) if weight is None else np.flatnonzero(weight)
        part = X if len(kept) == n_rows else _safe_indexing(X, kept)
        Y, group = columns(y)[kept], None if group is None else group[kept]
        self.encoder_, of_kept = table_encoder.fitted(encoder, part, _mixed(Y), _group_folds(part, Y, group, seed))
        if not of_kept.shape[1]:
            raise ValueError(
                "no column is left to learn from: the encoder ignores all of them (identifiers: strings of which not "
                "even words repeat)."
            )
        encoded = np.zeros((n_rows, of_kept.shape[1]))
        encoded[kept] = of_kept
        return encoded, y, weight

    def _resolution(self) -> Floats:
        resolution: Floats = RESOLUTION * self.scaling_.y_spread
        return resolution

    def _rows(self, X: Any) -> AnyFloats:
        """New rows as the network's inputs (n, D)."""
        X = as_pandas(X)
        if not hasattr(self, "encoder_"):
            return new_rows(self, X)
        X, n_rows = any_rows(self, X, general=not isinstance(self.encoder_, TableEncoder))
        Z = table_encoder.applied(self.encoder_, X, n_rows)
        if Z.shape[1] != self.network_.n_inputs:
            raise ValueError(f"the encoder gives {Z.shape[1]} columns, and in fit it gave {self.network_.n_inputs}.")
        return Z

    def _set_fitted(self, result: TrainingResult, task: Problem) -> None:
        """Set what does depend on training."""
        self.settings_ = self.get_params(deep=False)
        self.params_, self.lam_, self.n_epochs_ = result.params, result.lams, result.epochs
        self.gave_up_ = result.gave_up
        self.__dict__.pop("xi_range_", None)
        if result.xi_ranges is not None:
            self.xi_range_ = np.stack(result.xi_ranges)
        self.history_ = in_units(result.history, self.units_.unit)
        self._set_uncertainty(self._held_out_parts(result, task), task.seeds, result.loss_share)

    def _held_out_parts(self, result: TrainingResult, task: Problem) -> tuple[HeldOutPart, ...]:
        """Rows that members have not seen: those that training held out."""
        return result.held_out

    def _set_uncertainty(self, parts: Sequence[HeldOutPart], seeds: list[int], loss_share: Floats) -> None:
        """Set the scale of the expected loss and the scores of intervals from held-out rows."""
        quantified = parts if self._objective().quantifies else ()
        held_out = held_out_losses(quantified, self._readout().compare)
        loss_share = loss_share if self.rescale else np.ones(1)
        self._set_correction(held_out if self.rescale else None, len(self.units_.unit), loss_share)
        self._set_scores(None if held_out is None else replace(held_out, realised=loss_share * held_out.realised))
        self.__dict__.pop("out_of_fold_", None)
        if held_out is not None:
            expected = self._correction().within_limits(self.loss_scale_ * held_out.predicted) / loss_share
            found = numbered("loss", held_out.realised) | numbered("expected_loss", expected)
            table = pd.DataFrame({"row": held_out.rows} | found)
            self.out_of_fold_ = table.sort_values("row", ignore_index=True)

    def _readout(self) -> Readout:
        """How outputs are read, by the parameters at the time of `fit`; setting one later does not change the model."""
        fitted = type(self)(**self.settings_)
        return Readout(self.network_, fitted._objective(), losses.get(fitted.loss), self.scaling_, self.units_)

    def _network(self, n_inputs: int, n_outputs: int, n_losses: int) -> engine.Network:
        return engine.network(
            n_inputs,
            tuple(self.hidden),
            n_outputs=n_outputs,
            n_quantifiers=n_losses if self._objective().quantifies else 0,
            shared_layers=self.shared_layers,
            activation=self.activation,
        )

    def _train(self, task: Problem, validation: Validation | None) -> TrainingResult:
        watched = None if validation is None else self._validation_data(validation)
        if self.early_stopping:
            rows, held = (task.rows, np.arange(len(watched.Y))) if watched else self._split(task.rows, task.seeds[0])
            longest = defaults.lengths(len(rows))[-1] if lam_is_auto(self) else strategies.MAX_EPOCHS
            members = [task.make_member(rows, seed, self.epochs or longest) for seed in task.seeds]
            return strategies.early_stopping(task, members, watched or task.data, held, self.patience)
        if self.epochs is not None and not self.rescale:
            return strategies.fixed(task, task.members(self.epochs), watched)
        if lam_is_auto(self):
            readout = Readout(self.network_, self._objective(), losses.get(self.loss), self.scaling_, self.units_)
            return procedure.automatic(self, PairProblem(task, readout), watched, self.epochs)
        if self.epochs is None:
            return strategies.cross_validated(task, watched, self.judging_members)
        return strategies.given_length(task, self.epochs, watched, self.judging_members)

    def _split(self, rows: Integers, seed: int) -> tuple[Integers, Integers]:
        """Rows to learn from and rows held back."""
        n_held = max(1, round(self.validation_fraction * len(rows)))
        if len(rows) - n_held < 1:
            raise ValueError(f"early_stopping would hold back all {len(rows)} distinct rows; add rows or set epochs.")
        place = np.random.default_rng([seed, 1]).permutation(len(rows))
        return rows[place >= n_held], rows[place < n_held]

    def _validation_data(self, validation: Validation) -> engine.Data:
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise ValueError("validation must be a tuple (X, y).")
        try:
            if hasattr(self, "encoder_"):
                X = self._rows(validation[0])
                y = targets(validation[1], len(X))
            else:
                X, y, _ = training_rows(self, as_pandas(validation[0]), validation[1], None, reset=False)
        except ValueError as error:
            raise ValueError(f"in the validation table: {error}") from None
        Y = columns(y)
        if Y.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y of the validation table has {Y.shape[1]} outputs, that of the training {self.n_outputs_}."
            )
        return engine_data(X, Y, np.ones(len(X)), self.scaling_, self.units_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = isinstance(self.encoder, (str, TableEncoder))
        return tags

    # ------------------------------------------------------------ predict

    def _predict(self, X: Any) -> Floats:
        mean: Floats = np.mean([mu for mu, _ in self._outputs(self._readout(), self._rows(X))], axis=0)
        return mean

    def _predict_parts(self, X: Any) -> Parts:
        readout = self._readout()
        return readout.mixed(self._outputs(readout, self._rows(X)), self.lam_)

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return serialization.pack_network(self)

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        return serialization.unpack_network(cls, facts, arrays)

    def _loss(self) -> Loss:
        return losses.get(self.settings_["loss"])

    def _outputs(self, readout: Readout, X: AnyFloats) -> list[tuple[Floats, Floats32]]:
        """Prediction (n, M) in the target's units and xi (n, Q) of every member."""
        ranges = getattr(self, "xi_range_", [None] * len(self.params_))
        if len(self.params_) == 1:
            return [readout.outputs(self.params_[0], X, ranges[0])]
        with ThreadPoolExecutor(threads(self.n_jobs)) as pool:
            return list(pool.map(lambda params, held: readout.outputs(params, X, held), self.params_, ranges))


def _group_folds(X: Any, Y: Floats, group: Integers | None, seed: int) -> Integers | None:
    """Folds of whole groups for an encoder; None if there are no groups."""
    if group is None:
        return None
    keys = splits.without_ties(splits.table_keys(X, len(Y)), *Y.T)
    return splits.folds(splits.group_keys(keys, group), splits.FOLDS, seed)


def _two_or_more(groups: Integers) -> Integers:
    if (groups == groups[0]).all():
        raise ValueError("all rows are of one group; to hold out one group in turn there must be at least two.")
    return groups


def _mixed(Y: Floats) -> Floats:
    """One number (n,) for the outputs (n, M) of each row, in which none is lost, whatever their units and signs are."""
    spread = np.where(np.ptp(Y, axis=0) > 0, Y.std(axis=0), 1.0)
    mixed: Floats = ((Y - Y.mean(axis=0)) / spread) @ (1 / np.arange(1, Y.shape[1] + 1))
    return mixed
