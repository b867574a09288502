"""Modules whose buffers keep their precision."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class ExactModule(nn.Module):
    """Abstract: buffers stay float64 whatever the module is cast to, except on devices without float64.

    Means and spreads of a table, and the unit of its losses, may be far from 1; in half precision they would be lost.
    `newer`: buffers that states of earlier versions do not have, and what they are then.
    """

    newer: ClassVar[dict[str, Any]] = {}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        exact = dict(self._buffers)
        for name, values in exact.items():
            self._buffers[name] = None if values is None else values.float()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, values in exact.items():
            moved = self._buffers[name]
            if values is not None and moved is not None and moved.device.type != "mps":
                self._buffers[name] = values.to(moved.device)
        return self

    def keep(self, name: str, values: Any) -> None:
        """Register a buffer, or change one."""
        held = self._buffers.get(name)
        values = torch.as_tensor(values, dtype=torch.float64 if held is None else held.dtype).detach().clone()
        self.register_buffer(name, values if held is None else values.to(held.device))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        for name, value in self.newer.items():
            state_dict.setdefault(prefix + name, torch.as_tensor(value, dtype=torch.float64))
        for name in self._buffers:  # one number, or one for each column, as the state has it
            if prefix + name in state_dict:
                self.keep(name, state_dict[prefix + name])
        super()._load_from_state_dict(state_dict, prefix, *others)
