"""The clipping of xi to its range on the training rows, as a layer."""

import torch
from torch import Tensor, nn


class Within(nn.Module):
    """Clips xi to the estimator's range `reach` (2, Q) in evaluation mode; in training mode it does nothing."""

    reach: Tensor

    def __init__(self, reach: Tensor) -> None:
        super().__init__()
        self.register_buffer("reach", reach)

    def forward(self, xi: Tensor) -> Tensor:
        return xi if self.training else xi.clamp(self.reach[0], self.reach[1])


def release(module: nn.Module) -> None:
    """Remove the range: after further training it no longer holds."""
    for part in module.modules():
        if isinstance(part, Within):
            part.reach[0], part.reach[1] = -torch.inf, torch.inf
        limits = getattr(part, "loss_limits", None)
        if isinstance(limits, Tensor):
            limits[0], limits[1] = 0.0, torch.inf
