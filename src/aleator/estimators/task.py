"""What lam="auto" has to learn, and from which rows: the common ground of its steps (`automatic.py`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aleator import engine
from aleator.estimators import fitting
from aleator.estimators.fitting import LeftOut, MakeMember, Rows, Training
from aleator.estimators.held_out import HeldOut
from aleator.estimators.prediction import Readout

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

    def of_constant(self) -> float:
        """The mean loss, in the units of the networks, of who always says the same: of the mean of y and 19 quantiles.

        The least of these, by quantifier.
        """
        Y, unit = self.read.scaling.restored(self.data.Y[self.rows]), self.read.units.unit
        weight, unit = self.data.weight[self.rows], np.where(unit > 0, unit, 1.0)
        constants = [self.read.scaling.y_mean, *np.quantile(Y, np.linspace(0.05, 0.95, 19), axis=0)]
        lost = [weight @ self.read.losses(Y, np.broadcast_to(each, Y.shape)) / weight.sum() for each in constants]
        return float(np.mean(np.min(lost, axis=0) / unit))

    def by_row(self, said: HeldOut) -> Floats:
        """The losses (n, Q) in the order of the data, without what is implausible; NaN for rows not left out."""
        losses = np.full((len(self.data.Y), said.realised.shape[1]), np.nan)
        losses[said.rows] = said.credible
        return losses
