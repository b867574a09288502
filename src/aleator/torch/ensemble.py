"""Several torch pairs as a mixture: what they disagree on is the epistemic part (paper, sec. 4)."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from aleator import mixtures
from aleator.estimators.prediction import Prediction
from aleator.losses import Loss
from aleator.torch.batches import rows_of
from aleator.torch.criterion import JointLoss
from aleator.torch.exact import ExactModule
from aleator.torch.pair import BATCH, Pair, array, ratio


class Ensemble(ExactModule):
    """Pairs of one loss. Squared: eq. (4.11) of the paper; absolute: eq. (4.12); others: see `aleator.mixtures`."""

    loss_scale: Tensor

    def __init__(self, pairs: Sequence[Pair]) -> None:
        super().__init__()
        self.members = nn.ModuleList(pairs)
        self.keep("loss_scale", 1.0)
        self.history = pd.DataFrame()

    @property
    def pairs(self) -> list[Pair]:
        """The members."""
        return [pair for pair in self.members if isinstance(pair, Pair)]

    def criterion(self) -> JointLoss:
        """One criterion for outputs stacked along the first dimension, each member with its own lam."""
        own = [pair.criterion for pair in self.pairs]
        if any(
            (other.measure.name, other.coupling.name) != (own[0].measure.name, own[0].coupling.name) for other in own
        ):
            raise ValueError("all members of an ensemble must have one loss and one coupling.")
        first = own[0]
        lam: Any = first.schedule or torch.stack([part.lam for part in own])
        loss: Any = first.measure if isinstance(first.measure, Loss) else first.loss
        return JointLoss(loss, first.coupling, lam, unit=first.unit, reduction=first.reduction)

    def forward(self, *x: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions and xi of all members, (K, n, ...)."""
        outputs = [pair(*x) for pair in self.pairs]
        return torch.stack([y_pred for y_pred, _ in outputs]), torch.stack([xi for _, xi in outputs])

    def predict(self, x: Any, batch_size: int = BATCH) -> Prediction:
        """The mean of the members and its expected loss, in aleatoric and epistemic parts."""
        said = [pair.predict(x, batch_size) for pair in self.pairs]
        mu, expected = np.stack([one.mean for one in said]), np.stack([one.expected_loss for one in said])
        measure = self.pairs[0].criterion.measure
        mean, aleatoric, epistemic = mixtures.of(measure)(mu, expected)
        scale = array(self.loss_scale)
        aleatoric, epistemic = scale * aleatoric, scale * epistemic
        return Prediction(mean, aleatoric + epistemic, aleatoric, epistemic, measure)

    def recalibrate(self, data: Any) -> Self:
        """Multiply the expected loss by mean realised over mean expected loss on rows that were not trained on."""
        self.loss_scale.fill_(1.0)
        realised, expected = 0.0, 0.0
        for batch in rows_of(data):
            said = self.predict(batch.x)
            realised += float(said.loss(array(batch.y), said.mean).sum())
            expected += float(said.expected_loss.sum())
        self.loss_scale.fill_(ratio(realised, expected))
        return self

    def to_onnx(self, path: str | PathLike[str], example: Any = None) -> None:
        """What `aleator.export_onnx` calls."""
        from aleator.torch.answers import export

        export(self, path, example)
