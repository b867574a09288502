"""Beyond its rows an estimator's quantifier claims little more than it has seen; so does the layer made of it."""

import torch
from torch import Tensor, nn


class Within(nn.Module):
    """Holds xi to the range an estimator knows it from, `reach` (2, Q), when it is asked; training is free."""

    reach: Tensor

    def __init__(self, reach: Tensor) -> None:
        super().__init__()
        self.register_buffer("reach", reach)

    def forward(self, xi: Tensor) -> Tensor:
        return xi if self.training else xi.clamp(self.reach[0], self.reach[1])


def release(module: nn.Module) -> None:
    """Who is trained on has another range, which nobody has measured: from now on there is none."""
    for part in module.modules():
        if isinstance(part, Within):
            part.reach[0], part.reach[1] = -torch.inf, torch.inf
        limits = getattr(part, "loss_limits", None)
        if isinstance(limits, Tensor):
            limits[0], limits[1] = 0.0, torch.inf
