"""From the outputs of networks to predictions and losses in the user's units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aleator import mixtures
from aleator.array_types import AnyFloats, Floats, Floats32, Rows
from aleator.engine import Data, Network, forward
from aleator.losses import Loss
from aleator.mixtures import Parts
from aleator.objectives import Objective
from aleator.preprocessing.standardisation import ROWS_PER_BLOCK, Scaling, Units
from aleator.training.results import HeldOutPart


def by_blocks(predict: Callable[[AnyFloats], Parts], X: AnyFloats) -> Parts:
    """What `predict` gives for the rows of X, a block at a time: many members need the memory of one block only."""
    parts = [predict(X[lo : lo + ROWS_PER_BLOCK]) for lo in range(0, len(X), ROWS_PER_BLOCK)]
    mean, aleatoric, epistemic = (np.concatenate(part) for part in zip(*parts, strict=True))
    return mean, aleatoric, epistemic


@dataclass(frozen=True)
class Readout:
    """How the outputs of a pair are read: what xi means to the objective, and the scaling and units of the table."""

    network: Network
    objective: Objective
    loss: Loss
    scaling: Scaling
    units: Units

    def outputs(self, params: Floats32, X: AnyFloats, xi_range: Floats32 | None = None) -> tuple[Floats, Floats32]:
        """Prediction (n, M) in the target's units and xi (n, Q) of one member, clipped to `xi_range` (2, Q)."""
        y_r, xi = forward(self.network, params, X, *self.scaling.to_inputs)
        return self.scaling.restored(y_r), xi if xi_range is None else np.clip(xi, *xi_range)

    def mixed(self, outputs: Sequence[tuple[Floats, Floats32]], lams: Floats) -> Parts:
        """Prediction (n, M), aleatoric and epistemic loss (n, Q) of a mixture of members, lams (K,) or (K, Q)."""
        if self.objective.expected_loss is None:
            raise ValueError(f"the objective {self.objective.name!r} has no quantifier, so there is no uncertainty.")
        mu = np.stack([mu for mu, _ in outputs])  # (K, n, M)
        expected = np.stack(
            [
                self.units.unit * self.objective.expected_loss(xi, lam)
                for (_, xi), lam in zip(outputs, lams, strict=True)
            ]
        )  # (K, n, Q)
        if len(mu) == 1:  # the same as the rules below, without rounding
            return mu[0], expected[0], np.zeros_like(expected[0])
        rule = mixtures.of(self.loss)
        if mu.shape == expected.shape and not self.loss.over_rows:
            return rule(mu, expected)
        mean, aleatoric, epistemic = rule(mu, expected[:, :, 0])
        return mean, aleatoric[:, None], epistemic[:, None]

    def compare(self, part: HeldOutPart) -> Floats:
        """Realised and predicted loss of held-out rows and the side of the target (3, n, Q), by the mixture of members.

        For the side see `HeldOutLosses`; it is 0 where outputs share a quantifier.
        """
        data, rows = part.data, part.rows
        ranges: Sequence[Floats32 | None] = part.xi_ranges or [None] * len(part.params)
        compared = np.zeros((3, len(rows), len(self.units.unit)))
        for lo in range(0, len(rows), ROWS_PER_BLOCK):
            block = rows[lo : lo + ROWS_PER_BLOCK]
            X = data.X[block]
            outputs = [self.outputs(params, X, held) for params, held in zip(part.params, ranges, strict=True)]
            mean, aleatoric, epistemic = self.mixed(outputs, part.corrected_lams)
            Y = self.targets(data, block)
            compared[:2, lo : lo + len(block)] = self.losses(Y, mean), aleatoric + epistemic
            if len(self.units.unit) == Y.shape[1]:
                compared[2, lo : lo + len(block)] = np.sign(Y - mean)
        return compared

    def targets(self, data: Data, rows: Rows) -> Floats:
        """The targets (n, M) of rows, as the user gave them."""
        return self.scaling.restored(data.Y[rows]) if data.truth is None else data.truth[rows]

    def losses(self, Y: Floats, mean: Floats) -> Floats:
        """Realised loss (n, Q): summed over the outputs that share a quantifier."""
        each = self.loss(Y, mean)  # (n, M), or (n,) if the loss is that of a row
        summed: Floats = each.reshape(len(each), len(self.units.unit), -1).sum(axis=2)
        return summed

    def constant_loss(self, data: Data, rows: Rows) -> float:
        """The least mean loss of a constant prediction, in units of the networks: the mean of y and 19 quantiles."""
        Y, unit = self.scaling.restored(data.Y[rows]), self.units.unit
        weight, unit = data.weight[rows], np.where(unit > 0, unit, 1.0)
        constants = [self.scaling.y_mean, *np.quantile(Y, np.linspace(0.05, 0.95, 19), axis=0)]
        losses = [weight @ self.losses(Y, np.broadcast_to(each, Y.shape)) / weight.sum() for each in constants]
        return float(np.mean(np.min(losses, axis=0) / unit))
