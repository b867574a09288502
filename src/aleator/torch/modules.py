"""Helpers for any module: device and dtype, training mode, outputs as arrays, sums of losses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Numbers = TypeVar("Numbers", NDArray[np.float64], Tensor)


def device_of(module: nn.Module) -> torch.device:
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def first(x: Tensor | tuple[Tensor, ...]) -> Tensor:
    return x if isinstance(x, Tensor) else x[0]


def dtype_of(module: nn.Module) -> torch.dtype:
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)


def inputs_on(x: Any, device: torch.device, dtype: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """The inputs of a module, one or several, on its device; float64 as `dtype`."""
    parts = x if isinstance(x, (tuple, list)) else (x,)
    return tuple(part.to(device, dtype if part.dtype == torch.float64 else None, non_blocking=True) for part in parts)


@contextmanager
def modes_kept(module: nn.Module) -> Iterator[None]:
    """A context after which each submodule is in the mode it was in before."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """A context in evaluation mode: dropout off, statistics frozen."""
    with modes_kept(module):
        module.train(False)
        yield


def array(values: Tensor) -> NDArray[np.float64]:
    return values.detach().double().cpu().numpy()


class Sums:
    """Sums of realised and expected losses, for each output of a table, or over all numbers of other data."""

    def __init__(self) -> None:
        self.realised, self.expected = torch.zeros(()), torch.zeros(())

    def add(self, realised: Tensor, expected: Tensor, weight: Tensor | None) -> None:
        """Add a batch; losses of outputs that share an expected loss are summed."""
        table = expected.ndim == 2
        for name, values in (("realised", realised), ("expected", expected)):
            values = values.double().cpu()
            values = values if weight is None else values * weight.double().reshape(-1, *[1] * (values.ndim - 1))
            setattr(self, name, getattr(self, name) + (values.sum(0) if table else values.sum()))

    def ratio(self) -> Tensor:
        """The factor for the expected loss; an error if expected and realised loss are unrelated."""
        fine = (self.expected > 0) & torch.isfinite(self.expected) & torch.isfinite(self.realised)
        if not fine.all():
            added = f"realised losses add up to {self.realised.tolist()}, expected ones to {self.expected.tolist()}"
            raise ValueError(f"cannot recalibrate: {added}.")
        made = self.realised / self.expected
        return made[0] if made.ndim and len(made) == 1 else made


def by_row(expected: Numbers, mean: Numbers) -> Numbers:
    """The expected loss (n, 1) of several outputs together as (n,), as the estimators have it."""
    alone = expected.ndim == 2 and expected.shape[1] == 1 and mean.shape[1] > 1
    return expected[:, 0] if alone else expected
