"""A problem whose members are pairs, and how their outputs are read: what all steps of lam="auto" work on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aleator.array_types import Floats
from aleator.training.held_out import HeldOutLosses, held_out_losses
from aleator.training.network_outputs import Readout
from aleator.training.problem import Problem
from aleator.training.results import HeldOutPart


@dataclass(frozen=True)
class PairProblem:
    """Pairs to train, and their readout."""

    problem: Problem
    readout: Readout

    def held_out_losses(self, parts: Sequence[HeldOutPart]) -> HeldOutLosses:
        """Realised and predicted losses of held-out rows, in the units of the networks."""
        found = held_out_losses(parts, self.readout.compare)
        assert found is not None
        unit = np.where(self.readout.units.unit > 0, self.readout.units.unit, 1.0)  # 1 for a constant target
        return replace(found, realised=found.realised / unit, predicted=found.predicted / unit)

    def constant_loss(self) -> float:
        """The least mean loss of a constant prediction, in the units of the networks."""
        return self.readout.constant_loss(self.problem.data, self.problem.rows)

    def by_row(self, held_out: HeldOutLosses) -> Floats:
        """The plausible losses (n, Q) in the order of the data; NaN for rows that were not held out."""
        losses = np.full((len(self.problem.data.Y), held_out.realised.shape[1]), np.nan)
        losses[held_out.rows] = held_out.plausible
        return losses
