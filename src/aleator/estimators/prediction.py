"""What a model says about rows: from the networks' outputs to predictions and losses in the user's units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import losses, mixtures
from aleator.engine import Network, forward
from aleator.estimators.fitting import LeftOut
from aleator.estimators.table import ROWS_AT_A_TIME, Scaling, Units
from aleator.heads import Head
from aleator.losses import Cost, Loss
from aleator.mixtures import Parts

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions and how wrong they will be, in the units of the target and of the loss.

    mean (n,) or (n, m); expected_loss = aleatoric + epistemic, each (n,), or (n, m) with one quantifier per output.
    The epistemic part is what the members of an ensemble disagree on; the aleatoric part all else that is expected on
    new rows: the noise of the data and, where quantifiers learned from rows left out (lam="auto", `LossQuantifier`),
    also errors that all members share.
    `index` is that of the frame the rows came in.
    """

    mean: Floats
    expected_loss: Floats
    aleatoric: Floats
    epistemic: Floats
    loss: Loss | Cost = losses.squared
    index: pd.Index | None = None

    @property
    def std(self) -> Floats:
        """Standard deviation of the target around the prediction: the root of the expected squared loss."""
        if not self._has_std:
            raise ValueError(
                f"std belongs to the squared loss; this model was trained with the {self.loss.name} loss."
                if not losses.is_squared(self.loss)
                else "one quantifier for all outputs tells no standard deviation of each: set per_output=True."
            )
        return np.sqrt(self.expected_loss)

    @property
    def _has_std(self) -> bool:
        return losses.is_squared(self.loss) and self.mean.shape == self.expected_loss.shape

    def to_frame(self, index: pd.Index | None = None) -> pd.DataFrame:
        """A table, one row a sample, with the index of the frame that was asked about; outputs are numbered."""
        if self.mean.ndim > 2:
            raise ValueError(f"predictions of shape {self.mean.shape} are no table: take mean and expected_loss.")
        parts = {"mean": self.mean, "expected_loss": self.expected_loss}
        if self._has_std:
            parts["std"] = self.std
        parts |= {"aleatoric": self.aleatoric, "epistemic": self.epistemic}
        columns = {}
        for name, values in parts.items():
            if values.ndim == 1:
                columns[name] = values
            else:
                columns |= {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
        return pd.DataFrame(columns, index=self.index if index is None else index)


def by_blocks(answer: Callable[[NDArray[np.floating]], Parts], X: NDArray[np.floating]) -> Parts:
    """What `answer` says of the rows of X, asked a block at a time: the memory of many members is that of a block."""
    parts = [answer(X[lo : lo + ROWS_AT_A_TIME]) for lo in range(0, len(X), ROWS_AT_A_TIME)]
    mean, aleatoric, epistemic = (np.concatenate(part) for part in zip(*parts, strict=True))
    return mean, aleatoric, epistemic


@dataclass(frozen=True)
class Readout:
    """How the outputs of a network are read: the head's meaning of xi, and the scaling and units of the table."""

    network: Network
    head: Head
    loss: Loss
    scaling: Scaling
    units: Units

    def outputs(
        self, params: NDArray[np.float32], X: NDArray[np.floating], reach: NDArray[np.float32] | None = None
    ) -> tuple[Floats, NDArray[np.float32]]:
        """Prediction (n, M) in the target's units and xi (n, Q) of one member, held within the ends `reach` (2, Q)."""
        y_r, xi = forward(self.network, params, X, *self.scaling.place)
        return self.scaling.restored(y_r), xi if reach is None else np.clip(xi, *reach)

    def mixed(self, outputs: Sequence[tuple[Floats, NDArray[np.float32]]], lams: Floats) -> Parts:
        """Mean (n, M), aleatoric and epistemic loss (n, Q) of the mixture of members, their lams (K,) or (K, Q)."""
        if self.head.expected_loss is None:
            raise ValueError(f"the head {self.head.name!r} has no quantifier, so there is no uncertainty to tell.")
        mu = np.stack([mu for mu, _ in outputs])  # (K, n, M)
        expected = np.stack(
            [self.units.unit * self.head.expected_loss(xi, lam) for (_, xi), lam in zip(outputs, lams, strict=True)]
        )  # (K, n, Q)
        if len(mu) == 1:  # the rules below, exactly
            return mu[0], expected[0], np.zeros_like(expected[0])
        rule = mixtures.of(self.loss)
        if mu.shape == expected.shape:
            return rule(mu, expected)
        mean, aleatoric, epistemic = rule(mu, expected[:, :, 0])
        return mean, aleatoric[:, None], epistemic[:, None]

    def compare(self, left: LeftOut) -> Floats:
        """Realised and predicted loss and the side of the target (3, n, Q) of rows left out, by the mixture of members.

        Block by block. For the side see `HeldOut`; it is 0 where outputs share a quantifier.
        """
        data, rows = left.data, left.rows
        reach: Sequence[NDArray[np.float32] | None] = left.reach or [None] * len(left.params)
        compared = np.zeros((3, len(rows), len(self.units.unit)))
        for lo in range(0, len(rows), ROWS_AT_A_TIME):
            block = rows[lo : lo + ROWS_AT_A_TIME]
            X = data.X[block]
            outputs = [self.outputs(params, X, held) for params, held in zip(left.params, reach, strict=True)]
            mean, aleatoric, epistemic = self.mixed(outputs, left.lams)
            Y = self.scaling.restored(data.Y[block]) if data.truth is None else data.truth[block]
            compared[:2, lo : lo + len(block)] = self.losses(Y, mean), aleatoric + epistemic
            if len(self.units.unit) == Y.shape[1]:
                compared[2, lo : lo + len(block)] = np.sign(Y - mean)
        return compared

    def losses(self, Y: Floats, mean: Floats) -> Floats:
        """Realised loss (n, Q): summed over the outputs that share a quantifier."""
        each = self.loss(Y, mean)  # (n, M)
        summed: Floats = each.reshape(len(each), len(self.units.unit), -1).sum(axis=2)
        return summed
