"""What every estimator made of small networks has in common: fit, predict, and the uncertainty, for K members.

Subclasses are final. They list their parameters and say which head they train with (``heads.py``); how the members'
answers become one is a mixture (``mixtures.py``), and how long they train is in ``fitting.py``.
"""

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from aleator import engine, losses
from aleator.estimators import fitting, saving
from aleator.estimators.prediction import Readout
from aleator.estimators.quantified import QuantifiedRegressor
from aleator.estimators.reading import check_parameters, columns, increasing, new_rows, training_rows
from aleator.estimators.table import Table, framed, table
from aleator.heads import Head
from aleator.losses import Loss

Floats = NDArray[np.float64]
Validation = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True)
class Lesson:
    """What members learn, how, and by which chance."""

    table: Table
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

    @abstractmethod
    def _head(self) -> Head:
        """What one sample adds to the objective."""

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Validation | None = None) -> Self:
        """Train on X (n, d) and y (n,) or (n, m).

        `validation` = (X, y) is a table to watch: its losses go into ``history_``, and with ``early_stopping`` it
        decides when to stop, in place of rows held back from training.
        """
        with self._as_it_was_on_error():
            return self._learn(X, y, sample_weight, validation)

    def fit_staged(self, X: Any, y: Any, epochs: Sequence[int], sample_weight: Any = None) -> Iterator[Self]:
        """The model after each of these numbers of epochs, one after the other: what is learned first, and what later.

        One training goes through all of them. Each is a model of its own, bit for bit what `fit` with so many `epochs`
        gives; this one is left as it is, and its own `epochs` does not count. (A `DropoutRegressor` that looks for its
        noise on rows left out trains those folds anew for each stage.)
        """
        stages = increasing("epochs", epochs)
        if self.early_stopping:
            raise ValueError("fit_staged trains as long as `epochs` says; it has no early_stopping.")
        learner = clone(self).set_params(epochs=stages[-1])
        lesson = learner._prepare(X, y, sample_weight)
        make_member = fitting.member_maker(learner, lesson.table.data)
        members = [make_member(lesson.table.rows, seed, stages[-1]) for seed in lesson.seeds]
        return (learner._at_stage(fit, lesson) for fit in fitting.staged(lesson.training, members, stages))

    def _at_stage(self, fit: fitting.Fit, lesson: Lesson) -> Self:
        stage: Self = copy.copy(self).set_params(epochs=int(fit.epochs[0]))
        stage._finish(fit, lesson)
        return stage

    def _learn(self, X: Any, y: Any, sample_weight: Any, validation: Validation | None) -> Self:
        lesson = self._prepare(X, y, sample_weight)
        self._finish(self._fit(lesson, validation), lesson)
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Lesson:
        """Read the parameters and the table, and set what of the model does not depend on training."""
        check_parameters(self)
        loss, head = losses.get(self.loss), self._head()
        X, y, weight = training_rows(self, X, y, sample_weight)
        Y = columns(y)
        losses.check(loss, Y)
        learned = table(X, Y, weight, loss, self.per_output)
        network = self._network(X.shape[1], Y.shape[1], len(learned.units.unit))
        self.network_, self.scaling_, self.units_ = network, learned.scaling, learned.units
        self.y_is_1d_, self.n_outputs_ = y.ndim == 1, Y.shape[1]
        training = fitting.training(self, network, loss, head, len(learned.rows))
        return Lesson(learned, training, fitting.member_seeds(self.random_state, self.n_members))

    def _finish(self, fit: fitting.Fit, lesson: Lesson) -> None:
        """Set what does depend on training."""
        self.settings_ = self.get_params(deep=False)
        self.params_, self.n_epochs_ = fit.params, fit.epochs
        self.lam_ = fitting.lams(self, int(fit.epochs.max()))[fit.epochs - 1]
        self.history_ = fitting.history(fit.history, self.units_.unit)
        self._learn_from(self._left_out(fit, lesson), lesson.seeds)

    def _left_out(self, fit: fitting.Fit, lesson: Lesson) -> tuple[fitting.LeftOut, ...]:
        """Rows that members have not seen: those that training left out anyway."""
        return fit.left_out

    def _learn_from(self, left_out: Sequence[fitting.LeftOut], seeds: list[int]) -> None:
        """From rows that were left out: the scale of the expected loss, and how often it is exceeded."""
        held_out = fitting.held_out(left_out if self._head().quantifies else (), self._readout().compare)
        self.loss_scale_ = held_out.scale if self.rescale and held_out else np.ones(len(self.units_.unit))
        self._calibrated_by(held_out)

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
            members = [make_member(kept, seed, self.epochs or fitting.MOST) for seed in seeds]
            return fitting.stopped_early(training, members, watched or data, held, self.patience)
        if self.epochs is None:
            fold = fitting.random_folds(len(rows), seeds[0])
            return fitting.cross_validated(training, data, rows, fold, seeds, make_member, watched, self.judges)
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
            X, y, _ = training_rows(self, *validation, None, reset=False)
        except ValueError as error:
            raise ValueError(f"in the validation table: {error}") from None
        Y = columns(y)
        n_outputs = learned.data.Y.shape[1]
        if Y.shape[1] != n_outputs:
            raise ValueError(f"y of the validation table has {Y.shape[1]} outputs, that of the training {n_outputs}.")
        return framed(X, Y, np.ones(len(X)), learned.scaling, learned.units)

    # ------------------------------------------------------------ predict

    def _means(self, X: Any) -> Floats:
        mean: Floats = np.mean([mu for mu, _ in self._outputs(self._readout(), new_rows(self, X))], axis=0)
        return mean

    def _answers(self, X: Any) -> tuple[Floats, Floats, Floats]:
        read = self._readout()
        return read.mixed(self._outputs(read, new_rows(self, X)), self.lam_)

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return saving.pack_network(self)

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        return saving.unpack_network(cls, facts, arrays)

    def _loss(self) -> Loss:
        return losses.get(self.settings_["loss"])

    def _outputs(self, read: Readout, X: NDArray[np.floating]) -> list[tuple[Floats, NDArray[np.float32]]]:
        """Prediction (n, M) in the target's units and xi (n, Q) of every member."""
        if len(self.params_) == 1:
            return [read.outputs(self.params_[0], X)]
        with ThreadPoolExecutor(fitting.threads(self.n_jobs)) as pool:
            return list(pool.map(lambda params: read.outputs(params, X), self.params_))
