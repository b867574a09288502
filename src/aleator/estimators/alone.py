"""Quantifiers that learn losses on rows left out, without their regressors: step 3 of lam="auto" (`automatic.py`)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import engine, heads
from aleator.estimators import fitting, quantifiers, recipe
from aleator.estimators.fitting import LeftOut, Rows, Training
from aleator.estimators.settings import NetworkSettings, Schedule
from aleator.estimators.table import ROWS_AT_A_TIME
from aleator.estimators.task import Task

Floats = NDArray[np.float64]


@dataclass(kw_only=True)
class Given(NetworkSettings):
    """The training of quantifiers that learn given losses."""

    coupling: Any
    lam: float = recipe.GIVEN_LAM
    learning_rate: Schedule = recipe.GIVEN_RATE
    l2: float = recipe.GIVEN_L2


@dataclass(frozen=True)
class Alone:
    """Quantifiers of a task, and how they are trained."""

    task: Task
    settings: Given
    training: Training

    def data(self, losses: Floats) -> tuple[engine.Data, float] | None:
        """Rows with their losses (n, Q), in units of the mean of those that are known, and that mean.

        None if there is nothing to be learned: all are zero, or some too large for the networks' numbers.
        """
        rows = self.task.rows  # in this order, sums do not depend on that of the table
        known = rows[~np.isnan(losses[rows, 0])]
        mean = float(np.average(losses[known].mean(axis=1), weights=self.task.data.weight[known]))
        if not 0 < mean < np.inf or losses[known].max() / mean > np.finfo(np.float32).max:
            return None
        Y = np.zeros(losses.shape, np.float32)
        Y[known] = losses[known] / mean
        return replace(self.task.data, Y=Y, frame=quantifiers.as_they_are(losses.shape[1])), mean

    def expected(self, left_out: LeftOut, mean: float, known: Rows) -> Floats:
        """What members expect of rows left out, all added up (Q,), where `mean` is the unit they learned in.

        xi is held to the range it has on the rows they know.
        """
        network, data, rows = self.training.plan.network, left_out.data, left_out.rows
        expected_loss, total = self.training.plan.head.expected_loss, np.zeros(network.n_quantifiers)
        assert expected_loss is not None
        for params, lam in zip(left_out.params, left_out.lams, strict=True):
            low, high = fitting.ends(network, params, data, known)
            for lo in range(0, len(rows), ROWS_AT_A_TIME):
                block = rows[lo : lo + ROWS_AT_A_TIME]
                xi = engine.forward(network, params, data.X[block], data.shift, data.scale, data.clip)[1]
                total += mean * (data.weight[block] @ expected_loss(np.clip(xi, low, high), lam))
        return total

    def paired(self, pair: NDArray[np.float32], quantifier: NDArray[np.float32]) -> NDArray[np.float32]:
        """The parameters of a pair, with those of a quantifier in place of its own."""
        params = pair.copy()
        network, alone = self.task.training.plan.network, self.training.plan.network
        for own, other in zip(network.quantifier, alone.matrices, strict=True):
            own.of(params)[:] = other.of(quantifier)
            own.bias_of(params)[:] = other.bias_of(quantifier)
        return params


def alone(settings: Any, task: Task) -> Alone:
    """Quantifiers of the shape that an estimator's settings ask for."""
    given = Given(
        hidden=settings.hidden,
        activation=settings.activation,
        coupling=settings.coupling,
        n_jobs=settings.n_jobs,
        verbose=settings.verbose,
    )
    pair = task.training.plan.network
    network = quantifiers.alone(pair.n_inputs, pair.n_quantifiers, given)
    return Alone(task, given, fitting.training(given, network, heads.given, task.read.head, len(task.rows)))
