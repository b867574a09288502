"""What every estimator made of small networks has in common: fit, predict, and the uncertainty, for K members.

Subclasses are final. They list their parameters and say which head they train with (``heads.py``); how the members'
answers become one is a mixture (``mixtures.py``), and how long they train is in ``fitting.py``.
"""

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from aleator import engine, heads, losses
from aleator.estimators import fitting, intervals, saving
from aleator.estimators.prediction import Prediction, Readout
from aleator.estimators.reading import check_parameters, columns, new_rows, number, schedule, training_rows
from aleator.estimators.table import Table, framed, table
from aleator.heads import Head

Floats = NDArray[np.float64]
Validation = tuple[ArrayLike, ArrayLike]


class NetworkRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Abstract: one or several members, each a regressor with perhaps a quantifier, trained by the engine."""

    @abstractmethod
    def _head(self) -> Head:
        """What one sample adds to the objective."""

    @abstractmethod
    def _n_members(self) -> int:
        """How many networks there are."""

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Validation | None = None) -> Self:
        """Train on X (n, d) and y (n,) or (n, m).

        `validation` = (X, y) is a table to watch: its losses go into ``history_``, and with ``early_stopping`` it
        decides when to stop, in place of rows held back from training.
        """
        before = dict(self.__dict__)
        try:
            return self._learn(X, y, sample_weight, validation)
        except BaseException:  # also an interruption: the model stays as it was
            self.__dict__ = before
            raise

    def _learn(self, X: Any, y: Any, sample_weight: Any, validation: Validation | None) -> Self:
        check_parameters(self)
        loss, head = losses.get(self.loss), self._head()
        X, y, weight = training_rows(self, X, y, sample_weight)
        Y = columns(y)
        losses.check(loss, Y)
        learned = table(X, Y, weight, loss, self.per_output)
        plan = self._plan(learned, loss, head)
        self.network_, self.scaling_, self.units_ = plan.network, learned.scaling, learned.units
        readout = Readout(plan.network, head, loss, learned.scaling, learned.units)
        # Joint losses compare from epoch to epoch only if lam stays the same.
        judge = replace(plan, head=heads.log_score(head)) if callable(getattr(self, "lam", None)) else plan
        training = fitting.Training(plan, judge, readout, self._threads(), self.verbose)
        fit = self._fit(training, learned, validation)
        self.settings_ = self.get_params(deep=False)
        self.params_, self.n_epochs_ = fit.params, fit.epochs
        self.lam_ = self._lams(int(fit.epochs.max()))[fit.epochs - 1]
        self.loss_scale_ = fit.scale if self.rescale else np.ones_like(fit.scale)
        self.history_ = self._history(fit.history)
        self.y_is_1d_ = y.ndim == 1
        self.__dict__.pop("scores_", None)  # an earlier calibration
        return self

    def _readout(self) -> Readout:
        """How outputs are read, by the parameters at the time of `fit`: setting one later must not change the model."""
        fitted = type(self)(**self.settings_)
        return Readout(self.network_, fitted._head(), losses.get(fitted.loss), self.scaling_, self.units_)

    def _plan(self, learned: Table, loss: losses.Loss, head: Head) -> engine.Plan:
        return engine.Plan(
            network=self._network(learned.data.X.shape[1], learned.data.Y.shape[1], len(learned.units.unit)),
            loss=loss,
            head=head,
            batch_size=self.batch_size,
            optimizer=self.optimizer,
            momentum=self.momentum,
            l2=self.l2 / len(learned.rows),
            clip=self.clip or 0.0,
        )

    def _network(self, n_inputs: int, n_outputs: int, n_losses: int) -> engine.Network:
        return engine.network(
            n_inputs,
            tuple(self.hidden),
            n_outputs=n_outputs,
            n_quantifiers=n_losses if self._head().quantifies else 0,
            shared_layers=self.shared_layers,
            activation=self.activation,
        )

    def _fit(self, training: fitting.Training, learned: Table, validation: Validation | None) -> fitting.Fit:
        data, rows = learned.data, learned.rows
        seeds = member_seeds(self.random_state, self._n_members())
        watched = None if validation is None else self._watched(validation, learned)

        def make_member(rows: NDArray[np.int64], seed: int, epochs: int) -> engine.Member:
            rates = schedule("learning_rate", self.learning_rate, epochs)
            return engine.Member(data, rows, seed, self._lams(epochs), rates, self.dropout)

        if self.early_stopping:
            kept, held = (rows, np.arange(len(watched.Y))) if watched else self._split(rows, seeds[0])
            members = [make_member(kept, seed, self.epochs or fitting.MOST) for seed in seeds]
            return fitting.stopped_early(training, members, watched or data, held, self.patience)
        if self.epochs is None:
            return fitting.cross_validated(training, data, rows, seeds, make_member, watched)
        return fitting.fixed(training, [make_member(rows, seed, self.epochs) for seed in seeds], watched)

    def _lams(self, epochs: int) -> Floats:
        return schedule("lam", getattr(self, "lam", 1.0), epochs)

    def _threads(self) -> int:
        return int(joblib.effective_n_jobs(self.n_jobs))

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

    def _history(self, tables: list[pd.DataFrame]) -> pd.DataFrame:
        """Losses by member and epoch, in the units of the loss (per_output: in units of each output's own)."""
        history = pd.concat(tables, keys=range(len(tables)), names=["member", None]).reset_index(level=0)
        if not self.per_output:
            history.loc[:, "joint_loss":] *= self.units_.unit[0]
        return history.reset_index(drop=True)

    # ------------------------------------------------------------ predict

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The prediction for each row; with `return_std`, which needs the squared loss, also its standard deviation."""
        if return_std:
            said = self.predict_uncertainty(X)
            return said.mean, said.std
        check_is_fitted(self)
        outputs = self._outputs(self._readout(), new_rows(self, X))
        return self._shaped(np.mean([mu for mu, _ in outputs], axis=0))

    def predict_loss(self, X: Any) -> Floats:
        """The expected loss of each prediction, in the units of the loss."""
        return self.predict_uncertainty(X).expected_loss

    def predict_uncertainty(self, X: Any) -> Prediction:
        """Predictions with their expected loss, and its aleatoric and epistemic parts."""
        check_is_fitted(self)
        read = self._readout()
        mean, aleatoric, epistemic = read.mixed(self._outputs(read, new_rows(self, X)), self.lam_)
        aleatoric, epistemic = self._shaped(self.loss_scale_ * aleatoric), self._shaped(self.loss_scale_ * epistemic)
        index = X.index if isinstance(X, pd.DataFrame) else None
        return Prediction(self._shaped(mean), aleatoric + epistemic, aleatoric, epistemic, read.loss, index)

    def _outputs(self, read: Readout, X: NDArray[np.floating]) -> list[tuple[Floats, NDArray[np.float32]]]:
        """Prediction (n, M) in the target's units and xi (n, Q) of every member."""
        if len(self.params_) == 1:
            return [read.outputs(self.params_[0], X)]
        with ThreadPoolExecutor(self._threads()) as pool:
            return list(pool.map(lambda params: read.outputs(params, X), self.params_))

    def _shaped(self, values: Floats) -> Floats:
        """(n, m) as the user's y was: (n,) where it was; a loss over all outputs is (n,) too."""
        shared = values.shape[1] < len(self.scaling_.y_mean)
        return values[:, 0] if self.y_is_1d_ or shared else values

    # ------------------------------------------------------------ intervals

    def calibrate(self, X: Any, y: Any) -> Self:
        """Learn how often the expected loss is exceeded, from rows that were not used in `fit`."""
        said = self.predict_uncertainty(X)
        Y = columns(training_rows(self, X, y, None, reset=False)[1])
        n_outputs = len(self.scaling_.y_mean)
        if Y.shape[1] != n_outputs:
            raise ValueError(f"y has {Y.shape[1]} outputs, the model was fitted with {n_outputs}.")
        if len(self.units_.unit) < n_outputs:
            raise ValueError("intervals for several outputs need one quantifier each: set per_output=True.")
        realised = self._readout().loss(Y, said.mean.reshape(Y.shape))
        self.scores_ = intervals.scores(realised, said.expected_loss.reshape(Y.shape))
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Floats, Floats]:
        """Lower and upper ends that contain the target with probability `coverage`, each output by itself.

        The rows given to `calibrate` must be like the new ones and must not have been used in `fit`.
        """
        check_is_fitted(self)
        if not hasattr(self, "scores_"):
            raise ValueError("predict_interval needs rows to calibrate on: call calibrate(X, y) with held-out rows.")
        if not (number(coverage) and 0 < coverage < 1):
            raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage!r}.")
        said = self.predict_uncertainty(X)
        factor = intervals.quantile(self.scores_, coverage)
        factor = factor[0] if self.y_is_1d_ else factor
        return intervals.level_set(self._readout().loss, said.mean, intervals.levels(factor, said.expected_loss))

    # ------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a file that `aleator.load` reads and that cannot execute anything."""
        check_is_fitted(self)
        saving.save(self, path)

    # ------------------------------------------------------------ scikit-learn

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def member_seeds(random_state: Any, n: int) -> list[int]:
    """One seed a member; the first does not depend on how many there are."""
    try:
        base = int(check_random_state(random_state).randint(2**32, dtype=np.uint64))
    except ValueError as error:
        raise ValueError(f"random_state: {error}") from None
    return [int(np.random.SeedSequence([base, k]).generate_state(1, np.uint64)[0]) for k in range(n)]
