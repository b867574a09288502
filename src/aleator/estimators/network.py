"""What every estimator made of small networks has in common: fit, predict, and the uncertainty, for K members.

Subclasses are final. They list their parameters and say which head they train with (``heads.py``); how the members'
answers become one is a mixture (``mixtures.py``), and how long they train is in ``fitting.py``.
"""

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Tags, _safe_indexing

from aleator import engine, losses
from aleator.estimators import automatic, encoding, fitting, recipe, saving, splits
from aleator.estimators.encoding import TableEncoder
from aleator.estimators.prediction import Readout
from aleator.estimators.quantified import QuantifiedRegressor, numbered
from aleator.estimators.reading import (
    any_rows,
    check_parameters,
    columns,
    groups_of_rows,
    increasing,
    new_rows,
    targets,
    training_rows,
)
from aleator.estimators.table import Table, framed, table
from aleator.estimators.task import Task
from aleator.heads import Head
from aleator.losses import Loss
from aleator.model_files import layout

Floats = NDArray[np.float64]
RESOLUTION = 1e-6  # spreads of y: networks compute in float32, and closer predictions are not told apart
Validation = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True)
class Lesson:
    """What members learn, how, and by which chance.

    For each of the table's rows, the `fold` with which it is held out in turn, and the `group` it belongs to.
    """

    table: Table
    fold: NDArray[np.int64]
    group: NDArray[np.int64]
    training: fitting.Training
    seeds: list[int]


class NetworkRegressor(QuantifiedRegressor):
    """Abstract: one or several members, each a regressor with perhaps a quantifier, trained by the engine.

    Subclasses have the parameters of `RegressorSettings`. `judges`: how many members judge a row left out, if not all.
    """

    loss: str | Loss
    n_jobs: int | None
    shared_layers: int
    per_output: bool
    rescale: bool
    n_members: int = 1  # a parameter of ensembles
    judges: int | None = None
    encoder: Any = None  # a parameter of pairs
    _layout: ClassVar[layout.Layout] = layout.NETWORK

    @abstractmethod
    def _head(self) -> Head:
        """What one sample adds to the objective."""

    # ------------------------------------------------------------ fit

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, validation: Validation | None = None, groups: Any = None
    ) -> Self:
        """Train on X (n, d) and y (n,) or (n, m).

        `validation` = (X, y) is a table to watch: its losses go into ``history_``, and with ``early_stopping`` it
        decides when to stop, in place of rows held back from training. Rows that share one of `groups` (n,), as
        measurements of one patient do, are held out together.
        """
        with self._as_it_was_on_error():
            self._learn(X, y, sample_weight, validation, groups)
        self._warn_if_unreliable()
        return self

    def fit_staged(self, X: Any, y: Any, epochs: Sequence[int], sample_weight: Any = None) -> Iterator[Self]:
        """The model after each of these numbers of epochs, one after the other: what is learned first, and what later.

        One training goes through all of them. Each is a model of its own, bit for bit what `fit` with so many `epochs`
        gives; this one is left as it is, and its own `epochs` does not count. (A `DropoutRegressor` that looks for its
        noise on rows left out trains those folds anew for each stage.)
        """
        stages = increasing("epochs", epochs)
        if self.early_stopping:
            raise ValueError("fit_staged trains as long as `epochs` says; it has no early_stopping.")
        if recipe.is_auto(self):
            raise ValueError("lam='auto' falls until the last epoch, so a stage is no training of its own: set lam.")
        learner = clone(self).set_params(epochs=stages[-1])
        lesson = learner._prepare(X, y, sample_weight)
        make_member = fitting.member_maker(learner, lesson.table.data)
        members = [make_member(lesson.table.rows, seed, stages[-1]) for seed in lesson.seeds]
        return (learner._at_stage(fit, lesson) for fit in fitting.staged(lesson.training, members, stages))

    def _at_stage(self, fit: fitting.Fit, lesson: Lesson) -> Self:
        stage: Self = copy.copy(self).set_params(epochs=int(fit.epochs[0]))
        stage._finish(fit, lesson)
        return stage

    def _learn(self, X: Any, y: Any, sample_weight: Any, validation: Validation | None, groups: Any) -> Self:
        if self.early_stopping and groups is not None and validation is None:
            raise ValueError("early_stopping holds rows back one by one, not by groups: give fit a validation table.")
        lesson = self._prepare(X, y, sample_weight, groups)
        self._finish(self._fit(lesson, validation), lesson)
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> Lesson:
        """Read the parameters and the table, and set what of the model does not depend on training."""
        check_parameters(self)
        loss, head = losses.get(self.loss), self._head()
        seeds = fitting.member_seeds(self.random_state, self.n_members)
        self.__dict__.pop("encoder_", None)
        if self.encoder is None:
            X, y, weight = training_rows(self, X, y, sample_weight)
        else:
            X = self._learn_encoding(X, y, sample_weight, groups, seeds[0])
            X, y, weight = training_rows(clone(self), X, y, sample_weight)  # the columns seen are those of the table
        Y = columns(y)
        losses.check(loss, Y)
        learned = table(X, Y, weight, loss, self.per_output, self.scaling)
        network = self._network(X.shape[1], Y.shape[1], len(learned.units.unit))
        self.network_, self.scaling_, self.units_ = network, learned.scaling, learned.units
        self.y_is_1d_, self.n_outputs_ = y.ndim == 1, Y.shape[1]
        training = fitting.training(self, network, loss, head, len(learned.rows))
        keys = splits.without_ties(splits.array_keys(X, learned.rows), *Y[learned.rows].T)
        group = np.arange(len(learned.rows))
        if groups is not None:
            group = groups_of_rows(groups, len(y))[learned.rows]
            group = _two_or_more(groups_of_rows(group, len(group)))  # numbered in the order of the rows
            keys = splits.group_keys(keys, group)
        return Lesson(learned, splits.folds(keys, splits.FOLDS, seeds[0]), group, training, seeds)

    def _learn_encoding(self, X: Any, y: Any, sample_weight: Any, groups: Any, seed: int) -> Floats:
        """The table as the encoder, fitted to it, turns it into numbers."""
        self.__dict__.pop("n_features_in_", None)
        X, n_rows = any_rows(self, X, y, general=not isinstance(self.encoder, TableEncoder))
        if not hasattr(self, "n_features_in_") and np.ndim(X) == 2:
            self.n_features_in_ = int(np.shape(X)[1])
        Y = columns(targets(y, n_rows))
        group = None if groups is None else _two_or_more(groups_of_rows(groups, n_rows))
        if sample_weight is None or np.shape(sample_weight) != (n_rows,) or (np.asarray(sample_weight) != 0).all():
            self.encoder_, encoded = encoding.learned(self.encoder, X, _mixed(Y), _group_folds(X, Y, group, seed))
            return _with_columns(encoded)
        kept = np.flatnonzero(np.asarray(sample_weight))  # rows of weight zero are as if they were not there
        part, Y, group = _safe_indexing(X, kept), Y[kept], None if group is None else group[kept]
        self.encoder_, of_kept = encoding.learned(self.encoder, part, _mixed(Y), _group_folds(part, Y, group, seed))
        encoded = np.zeros((n_rows, of_kept.shape[1]))
        encoded[kept] = of_kept
        return _with_columns(encoded)

    def _resolution(self) -> Floats:
        resolution: Floats = RESOLUTION * self.scaling_.y_spread
        return resolution

    def _rows(self, X: Any) -> NDArray[np.floating]:
        """New rows as the network's inputs (n, D)."""
        if not hasattr(self, "encoder_"):
            return new_rows(self, X)
        X, n_rows = any_rows(self, X, general=not isinstance(self.encoder_, TableEncoder))
        Z = encoding.applied(self.encoder_, X, n_rows)
        if Z.shape[1] != self.network_.n_inputs:
            raise ValueError(f"the encoder gives {Z.shape[1]} columns, and in fit it gave {self.network_.n_inputs}.")
        return Z

    def _finish(self, fit: fitting.Fit, lesson: Lesson) -> None:
        """Set what does depend on training."""
        self.settings_ = self.get_params(deep=False)
        self.params_, self.lam_, self.n_epochs_ = fit.params, fit.lams, fit.epochs
        self.gave_up_ = fit.gave_up
        self.__dict__.pop("reach_", None)
        if fit.reach is not None:
            self.reach_ = np.stack(fit.reach)
        self.history_ = fitting.history(fit.history, self.units_.unit)
        self._learn_from(self._left_out(fit, lesson), lesson.seeds, fit.gain)

    def _left_out(self, fit: fitting.Fit, lesson: Lesson) -> tuple[fitting.LeftOut, ...]:
        """Rows that members have not seen: those that training left out anyway."""
        return fit.left_out

    def _learn_from(self, left_out: Sequence[fitting.LeftOut], seeds: list[int], gain: Floats) -> None:
        """From rows that were left out: the scale of the expected loss, and how often it is exceeded."""
        held_out = fitting.held_out(left_out if self._head().quantifies else (), self._readout().compare)
        gain = gain if self.rescale else np.ones(1)
        self.loss_scale_ = np.ones(len(self.units_.unit))
        self._judged_by(held_out if self.rescale else None, gain)
        self._calibrated_by(None if held_out is None else replace(held_out, realised=gain * held_out.realised))
        self.__dict__.pop("out_of_fold_", None)
        if held_out is not None:
            told = numbered("loss", held_out.realised)
            told |= numbered("expected_loss", self._within_limits(self.loss_scale_ * held_out.predicted) / gain)
            table = pd.DataFrame({"row": held_out.rows} | told)
            self.out_of_fold_ = table.sort_values("row", ignore_index=True)

    def _readout(self) -> Readout:
        """How outputs are read, by the parameters at the time of `fit`: setting one later must not change the model."""
        fitted = type(self)(**self.settings_)
        return Readout(self.network_, fitted._head(), losses.get(fitted.loss), self.scaling_, self.units_)

    def _network(self, n_inputs: int, n_outputs: int, n_losses: int) -> engine.Network:
        return engine.network(
            n_inputs,
            tuple(self.hidden),
            n_outputs=n_outputs,
            n_quantifiers=n_losses if self._head().quantifies else 0,
            shared_layers=self.shared_layers,
            activation=self.activation,
        )

    def _fit(self, lesson: Lesson, validation: Validation | None) -> fitting.Fit:
        training, seeds = lesson.training, lesson.seeds
        data, rows = lesson.table.data, lesson.table.rows
        watched = None if validation is None else self._watched(validation, lesson.table)
        make_member = fitting.member_maker(self, data)
        if self.early_stopping:
            kept, held = (rows, np.arange(len(watched.Y))) if watched else self._split(rows, seeds[0])
            longest = recipe.lengths(len(kept))[-1] if recipe.is_auto(self) else fitting.MOST
            members = [make_member(kept, seed, self.epochs or longest) for seed in seeds]
            return fitting.stopped_early(training, members, watched or data, held, self.patience)
        if self.epochs is None and recipe.is_auto(self):
            read = Readout(self.network_, self._head(), losses.get(self.loss), self.scaling_, self.units_)
            task = Task(training, read, data, rows, lesson.fold, lesson.group, seeds, make_member)
            return automatic.learn(self, task, watched)
        if self.epochs is None:
            return fitting.cross_validated(training, data, rows, lesson.fold, seeds, make_member, watched, self.judges)
        return fitting.fixed(training, [make_member(rows, seed, self.epochs) for seed in seeds], watched)

    def _split(self, rows: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows to learn from and rows held back."""
        n_held = max(1, round(self.validation_fraction * len(rows)))
        if len(rows) - n_held < 1:
            raise ValueError(f"early_stopping would hold back all {len(rows)} distinct rows; add rows or set epochs.")
        place = np.random.default_rng([seed, 1]).permutation(len(rows))
        return rows[place >= n_held], rows[place < n_held]

    def _watched(self, validation: Validation, learned: Table) -> engine.Data:
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise ValueError("validation must be a tuple (X, y).")
        try:
            if self.encoder is None:
                X, y, _ = training_rows(self, *validation, None, reset=False)
            else:
                X, y, _ = training_rows(clone(self), self._rows(validation[0]), validation[1], None)
        except ValueError as error:
            raise ValueError(f"in the validation table: {error}") from None
        Y = columns(y)
        n_outputs = learned.data.Y.shape[1]
        if Y.shape[1] != n_outputs:
            raise ValueError(f"y of the validation table has {Y.shape[1]} outputs, that of the training {n_outputs}.")
        return framed(X, Y, np.ones(len(X)), learned.scaling, learned.units)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = isinstance(self.encoder, TableEncoder)
        return tags

    # ------------------------------------------------------------ predict

    def _means(self, X: Any) -> Floats:
        mean: Floats = np.mean([mu for mu, _ in self._outputs(self._readout(), self._rows(X))], axis=0)
        return mean

    def _answers(self, X: Any) -> tuple[Floats, Floats, Floats]:
        read = self._readout()
        return read.mixed(self._outputs(read, self._rows(X)), self.lam_)

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return saving.pack_network(self)

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        return saving.unpack_network(cls, facts, arrays)

    def _loss(self) -> Loss:
        return losses.get(self.settings_["loss"])

    def _outputs(self, read: Readout, X: NDArray[np.floating]) -> list[tuple[Floats, NDArray[np.float32]]]:
        """Prediction (n, M) in the target's units and xi (n, Q) of every member."""
        reach = getattr(self, "reach_", [None] * len(self.params_))
        if len(self.params_) == 1:
            return [read.outputs(self.params_[0], X, reach[0])]
        with ThreadPoolExecutor(fitting.threads(self.n_jobs)) as pool:
            return list(pool.map(lambda params, held: read.outputs(params, X, held), self.params_, reach))


def _group_folds(X: Any, Y: Floats, group: NDArray[np.int64] | None, seed: int) -> NDArray[np.int64] | None:
    """Folds of whole groups for an encoder; None if there are no groups."""
    if group is None:
        return None
    keys = splits.without_ties(splits.table_keys(X, len(Y)), *Y.T)
    return splits.folds(splits.group_keys(keys, group), splits.FOLDS, seed)


def _two_or_more(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    if (groups == groups[0]).all():
        raise ValueError("all rows are of one group; to hold out one group in turn there must be at least two.")
    return groups


def _with_columns(encoded: Floats) -> Floats:
    if not encoded.shape[1]:
        raise ValueError(
            "no column is left to learn from: the encoder ignores all of them (identifiers: strings of which not even "
            "words repeat)."
        )
    return encoded


def _mixed(Y: Floats) -> Floats:
    """One number (n,) for the outputs (n, M) of each row, in which none is lost, whatever their units and signs are."""
    spread = np.where(np.ptp(Y, axis=0) > 0, Y.std(axis=0), 1.0)
    mixed: Floats = ((Y - Y.mean(axis=0)) / spread) @ (1 / np.arange(1, Y.shape[1] + 1))
    return mixed
