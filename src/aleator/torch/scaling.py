"""Standardisation that travels with a model: inputs in, predictions out, both in the user's units."""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor

from aleator.engine.kernels import FARTHEST
from aleator.torch.float64_buffers import ExactModule
from aleator.torch.process_group import World


class Scaling(ExactModule):
    """Standardisation as a module: x -> (x - x_mean) / x_spread, and back for predictions, in float64.

    Columns of a table, x (n, d) and y (n,) or (n, m), each have their own mean and spread; images, signals and fields
    have one in common. Inputs are clipped to the range `x_clip`, in spreads. An input that never changes has spread 0
    and is ignored, even if it changes later.

    Parameters
    ----------
    x_mean : tensor, default=0
        Means of the inputs.
    x_spread : tensor, default=1
        Standard deviations of the inputs.
    y_mean : tensor, default=0
        Means of the targets.
    y_spread : tensor, default=1
        Standard deviations of the targets.
    x_clip : tensor of shape (2,) or (2, d), default=(-1e4, 1e4)
        Range of the standardised inputs.

    Examples
    --------
    >>> from aleator.torch import Pair
    >>> from torch import nn
    >>> import torch
    >>> pair = Pair(nn.Sequential(nn.Linear(1, 1), nn.Flatten(0))).standardise((torch.ones(4, 1), torch.arange(4.0)))
    >>> float(pair.scaling.y_mean)
    1.5
    """

    x_mean: Tensor
    x_spread: Tensor
    y_mean: Tensor
    y_spread: Tensor
    x_clip: Tensor
    newer: ClassVar[dict[str, Any]] = {"x_clip": (-FARTHEST, FARTHEST)}

    def __init__(
        self,
        x_mean: Any = 0.0,
        x_spread: Any = 1.0,
        y_mean: Any = 0.0,
        y_spread: Any = 1.0,
        x_clip: Any = (-FARTHEST, FARTHEST),
    ) -> None:
        super().__init__()
        parts = {"x_mean": x_mean, "x_spread": x_spread, "y_mean": y_mean, "y_spread": y_spread, "x_clip": x_clip}
        for name, values in parts.items():
            self.keep(name, values)

    def inputs(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Standardise inputs.

        Parameters
        ----------
        x : tensor
            Inputs.
        dtype : dtype
            Type of the result.

        Returns
        -------
        tensor
            Standardised inputs.
        """
        scale = torch.where(self.x_spread > 1e-300, 1.0 / self.x_spread, 0.0)
        z = (x.to(scale.dtype) - self.x_mean) * scale
        return z.clamp(self.x_clip[0], self.x_clip[1]).to(dtype)

    def outputs(self, y_r: Tensor) -> Tensor:
        """Give predictions in the target's units.

        Parameters
        ----------
        y_r : tensor
            Standardised predictions.

        Returns
        -------
        tensor
            Predictions.
        """
        return self.y_mean + self.y_spread * y_r.to(self.y_mean.dtype)


class Moments:
    """Mean and standard deviation over batches, for each column of a table, or for all numbers of other data."""

    def __init__(self) -> None:
        zero = torch.zeros((), dtype=torch.float64)
        self.count, self.mean, self.squares = 0.0, zero, zero

    def add(self, batch: Tensor, weight: Tensor | None) -> None:
        """Add a batch, by the rule of Chan et al. for merging two sets."""
        values = batch.detach().double().cpu()
        w = torch.ones(len(values), dtype=torch.float64) if weight is None else weight.double().cpu()
        if values.ndim != 2:  # one for all numbers
            w = w.repeat_interleave(values[0].numel())
            values = values.reshape(-1)
        count = float(w.sum())
        if count == 0:
            return
        mean = w @ values / count
        gap, total = mean - self.mean, self.count + count
        self.squares = self.squares + w @ (values - mean).square() + gap.square() * self.count * count / total
        self.mean, self.count = self.mean + gap * count / total, total

    def merged(self, world: World) -> None:
        """Add the batches of the other processes."""
        count = world.summed(torch.tensor(self.count, dtype=torch.float64))
        mean = world.summed(self.count * self.mean) / count
        self.squares = world.summed(self.squares + self.count * (self.mean - mean).square())
        self.mean, self.count = mean, float(count)

    @property
    def spread(self) -> Tensor:
        """Standard deviation; 0 for what never changes."""
        variance = self.squares / self.count
        return torch.where(variance > 1e-28 * self.mean.square(), variance.sqrt(), 0.0)


def moments(batches: Iterable[tuple[Tensor, Tensor, Tensor | None]], world: World) -> tuple[Moments, Moments]:
    """Those of the inputs and of the targets, of all processes."""
    of_x, of_y = Moments(), Moments()
    for x, y, weight in batches:
        of_x.add(x, weight)
        of_y.add(y, weight)
    if of_x.count == 0:
        raise ValueError("there are no rows to learn mean and spread from.")
    if world.size > 1:
        of_x.merged(world)
        of_y.merged(world)
    return of_x, of_y
