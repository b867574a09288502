"""What lam="auto" has to learn, and from which rows: the common ground of its steps (`automatic.py`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import engine
from aleator.estimators import fitting, quantifiers, recipe
from aleator.estimators.fitting import HeldOut, LeftOut, MakeMember, Rows, Training
from aleator.estimators.prediction import Readout
from aleator.estimators.settings import NetworkSettings, Schedule
from aleator.estimators.table import ROWS_AT_A_TIME

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """What is to be learned: `rows` of `data`, each in a `fold` and a `group`, by members made from seeds.

    `read` says how the members' outputs are read.
    """

    training: Training
    read: Readout
    data: engine.Data
    rows: Rows
    fold: NDArray[np.int64]
    group: NDArray[np.int64]
    seeds: list[int]
    make_member: MakeMember

    def ensembles(self, kept: Sequence[Rows], epochs: int, seeds: Sequence[int]) -> list[list[engine.Member]]:
        """Members for each of these sets of rows."""
        return [[self.make_member(own, seed, epochs) for seed in seeds] for own in kept]

    def judged(self, left_out: Sequence[LeftOut]) -> HeldOut:
        """What was said of rows left out, and what was true, in the units of the networks."""
        held_out = fitting.held_out(left_out, self.read.compare)
        assert held_out is not None
        unit = np.where(self.read.units.unit > 0, self.read.units.unit, 1.0)  # 1 for a target that never varies
        return replace(held_out, realised=held_out.realised / unit, predicted=held_out.predicted / unit)


def by_row(task: Task, said: HeldOut) -> Floats:
    """The realised losses (n, Q) in the order of the data, NaN for rows that were not left out."""
    losses = np.full((len(task.data.Y), said.realised.shape[1]), np.nan)
    losses[said.rows] = said.realised
    return losses


@dataclass(kw_only=True)
class Given(NetworkSettings):
    """The training of quantifiers that learn given losses."""

    coupling: Any
    lam: float = recipe.GIVEN_LAM
    learning_rate: Schedule = recipe.GIVEN_RATE
    l2: float = recipe.GIVEN_L2


@dataclass(frozen=True)
class Alone:
    """Quantifiers of a task, without their regressors, that learn given losses."""

    task: Task
    settings: Given
    network: engine.Network
    training: Training

    def data(self, losses: Floats) -> tuple[engine.Data, float]:
        """Rows with their losses (n, Q), in units of the mean of those that are known, and that mean."""
        rows = self.task.rows  # in this order, sums do not depend on that of the table
        known = rows[~np.isnan(losses[rows, 0])]
        mean = float(np.average(losses[known].mean(axis=1), weights=self.task.data.weight[known]))
        Y = np.zeros(losses.shape, np.float32)
        Y[known] = losses[known] / (mean or 1.0)
        return replace(self.task.data, Y=Y, frame=quantifiers.as_they_are(losses.shape[1])), mean

    def expected(self, left_out: LeftOut, mean: float, known: Rows) -> Floats:
        """What they expect of rows left out, in all (Q,), in units of `mean`; never more than of any `known` row."""
        data, rows = left_out.data, left_out.rows
        expected_loss, total = self.training.plan.head.expected_loss, np.zeros(self.network.n_quantifiers)
        assert expected_loss is not None
        for params, lam in zip(left_out.params, left_out.lams, strict=True):
            low, high = quantifiers.reach(self.network, params, data, known)
            for lo in range(0, len(rows), ROWS_AT_A_TIME):
                block = rows[lo : lo + ROWS_AT_A_TIME]
                xi = engine.forward(self.network, params, data.X[block], data.shift, data.scale)[1]
                total += mean * (data.weight[block] @ expected_loss(np.clip(xi, low, high), lam))
        return total
