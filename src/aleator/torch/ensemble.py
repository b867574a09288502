"""Several torch pairs as a mixture; their disagreement is the epistemic part (paper, sec. 4)."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar, Self

import pandas as pd
import torch
from torch import Tensor, nn

from aleator import mixtures
from aleator.estimators.prediction import Prediction
from aleator.losses import Cost, Loss
from aleator.torch.batches import rows_of
from aleator.torch.criterion import JointLoss
from aleator.torch.float64_buffers import ExactModule
from aleator.torch.modules import Sums, array, by_row
from aleator.torch.onnx_export import export
from aleator.torch.pair import ANY_LOSS, BATCH, Pair


class Ensemble(ExactModule):
    """Several pairs with one loss, as a mixture; their disagreement is the epistemic part (sec. 4).

    Squared loss: eq. (4.11); absolute loss: eq. (4.12); others: see `aleator.mixtures`.

    Parameters
    ----------
    pairs : sequence of Pair
        The members.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from aleator.torch import Ensemble, Pair
    >>> ensemble = Ensemble([Pair(nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))) for _ in range(2)])
    >>> ensemble.predict(torch.zeros(5, 3)).epistemic.shape
    (5,)
    """

    loss_scale: Tensor
    loss_limits: Tensor
    newer: ClassVar[dict[str, Any]] = {"loss_limits": ANY_LOSS}

    def __init__(self, pairs: Sequence[Pair]) -> None:
        super().__init__()
        self.members = nn.ModuleList(pairs)
        self.keep("loss_scale", 1.0)
        self.keep("loss_limits", ANY_LOSS)
        self.history = pd.DataFrame()

    @property
    def pairs(self) -> list[Pair]:
        """The members."""
        return [pair for pair in self.members if isinstance(pair, Pair)]

    def criterion(self) -> JointLoss:
        """Make one criterion for outputs stacked along the first dimension, each member with its own lam.

        Returns
        -------
        JointLoss
            The criterion.
        """
        own = [pair.criterion for pair in self.pairs]
        if len({(_identity(part), part.coupling.name) for part in own}) > 1:
            raise ValueError("all members of an ensemble must have one loss and one coupling.")

        def scheduled(epoch: int) -> Any:
            return [float(part.lam) if part.schedule is None else part.schedule(epoch) for part in own]

        first = own[0]
        lam: Any = scheduled if any(part.schedule for part in own) else torch.stack([part.lam for part in own])
        loss: Any = first.measure if isinstance(first.measure, Loss) else first.loss
        return JointLoss(loss, first.coupling, lam, unit=first.unit, reduction=first.reduction)

    def forward(self, *x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute predictions and xi of all members.

        Parameters
        ----------
        *x : tensor
            Inputs.

        Returns
        -------
        y_pred, xi : tensor of shape (K, n, ...)
            Outputs of the members.
        """
        outputs = [pair(*x) for pair in self.pairs]
        return torch.stack([y_pred for y_pred, _ in outputs]), torch.stack([xi for _, xi in outputs])

    def predict(self, x: Any, batch_size: int = BATCH) -> Prediction:
        """Compute the mean of the members and its expected loss, in aleatoric and epistemic parts.

        Parameters
        ----------
        x : tensor, array or tuple
            Inputs.
        batch_size : int, default=1024
            Rows of a batch.

        Returns
        -------
        Prediction
            Predictions, expected losses and their parts.
        """
        members = [[(y_pred.cpu(), pair.expected_loss(xi).cpu()) for _, y_pred, xi in pair.answers(x, batch_size)]
                   for pair in self.pairs]  # fmt: skip
        mu, expected = (torch.stack([torch.cat([batch[k] for batch in one]) for one in members]) for k in (0, 1))
        mean, aleatoric, epistemic = map(array, self.mixed(mu, expected))
        aleatoric, epistemic = by_row(aleatoric, mean), by_row(epistemic, mean)
        return Prediction(mean, aleatoric + epistemic, aleatoric, epistemic, self.pairs[0].criterion.measure)

    def mixed(self, mu: Tensor, expected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, aleatoric and epistemic loss of members' predictions and expected losses, (K, n, ...) each."""
        criterion, mu = self.pairs[0].criterion, mu.double()
        mean = mu.mean(0)
        apart = criterion.loss(mean.expand_as(mu), mu)  # eq. (4.11), or the loss between a member and the mean
        shared = [k for k in range(1, apart.ndim) if apart.shape[k] != expected.shape[k]]
        apart = apart.sum(shared, keepdim=True) if shared else apart
        if mixtures.of(criterion.measure) is mixtures.laplace:  # eq. (4.12)
            apart = (apart + expected * torch.expm1(-apart / expected.clamp(min=1e-300))).clamp(min=0.0)
        aleatoric, epistemic = expected.mean(0), apart.mean(0)
        limits = self.loss_limits.to(mu.device)
        both = (self.loss_scale.to(mu.device) * (aleatoric + epistemic)).clamp(limits[0], limits[1])
        scale = both / (aleatoric + epistemic).clamp(min=1e-300)
        return mean, scale * aleatoric, scale * epistemic

    def recalibrate(self, data: Any) -> Self:
        """Multiply the expected loss by mean realised over mean expected loss on rows that were not trained on.

        Parameters
        ----------
        data : tuple, Dataset, DataLoader or iterable
            (x, y) or (x, y, weight) as tensors or arrays, a Dataset, a DataLoader, or an iterable of batches.

        Returns
        -------
        Ensemble
            The same ensemble.
        """
        sums = Sums()
        for batch in rows_of(data):
            prediction = self.predict(batch.x)
            realised = torch.as_tensor(prediction.loss(array(batch.y), prediction.prediction))
            sums.add(realised, torch.as_tensor(prediction.expected_loss), batch.weight)
        factor = sums.ratio()
        self.keep("loss_scale", factor * self.loss_scale.to(factor.device))
        self.keep("loss_limits", factor * self.loss_limits.to(factor.device))
        return self

    def to_onnx(self, path: str | PathLike[str], example: Any = None) -> None:
        """Write an ONNX file; called by `aleator.export_onnx`."""
        export(self, path, example)

    def onnx_outputs(self, *x: Tensor) -> dict[str, Tensor]:
        """Outputs of the ONNX graph by name."""
        answers = [(y_pred, pair.expected_loss(xi)) for pair in self.pairs for y_pred, xi in [pair(*x)]]
        mu, expected = (torch.stack([answer[k] for answer in answers]) for k in (0, 1))
        mean, aleatoric, epistemic = self.mixed(mu, expected)
        return {
            "prediction": mean,
            "expected_loss": by_row(aleatoric + epistemic, mean),
            "epistemic": by_row(epistemic, mean),
        }

    @property
    def measure(self) -> Loss | Cost:
        """The loss that the expected loss refers to."""
        return self.pairs[0].criterion.measure


def _identity(criterion: JointLoss) -> Any:
    """A loss by its name; a custom one by its code, since make_pair may define it again for each member."""
    return (
        criterion.measure.name
        if isinstance(criterion.measure, Loss)
        else getattr(criterion.loss, "__code__", criterion.loss)
    )
