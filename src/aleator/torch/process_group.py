"""Processes that `torchrun` started, on one or more machines, or just this one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class World:
    """Which process this is, of how many."""

    rank: int = 0
    size: int = 1

    def gathered(self, number: int) -> list[int]:
        """The number of each process."""
        if self.size == 1:
            return [number]
        numbers = [torch.zeros(1, dtype=torch.int64, device=_device()) for _ in range(self.size)]
        dist.all_gather(numbers, torch.tensor([number], device=_device()))
        return [int(value) for value in numbers]

    def summed(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of `values` over all processes."""
        if self.size > 1:
            there = values.to(_device())
            dist.all_reduce(there)
            values = there.to(values.device)
        return values

    def shared(self, content: bytes | None, source: int) -> bytes | None:
        """Copy the value of the process `source` to all; no shared disk is needed."""
        if self.size == 1:
            return content
        length = torch.tensor([0 if content is None else len(content)], device=_device())
        dist.broadcast(length, source)
        mine = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content and self.rank == source else None
        held = (torch.zeros(int(length), dtype=torch.uint8) if mine is None else mine).to(_device())
        dist.broadcast(held, source)
        return held.cpu().numpy().tobytes()


def world() -> World:
    """The current process group."""
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    return World()


@contextmanager
def distributed(timeout: float = 60.0, backend: str | None = None) -> Iterator[World]:
    """Join the processes that `torchrun` started; without it nothing happens, so one script serves both.

    A process that waits longer than `timeout` seconds for another raises an error, and `torchrun` ends all.

    Parameters
    ----------
    timeout : float, default=60
        Seconds.
    backend : str, default=None
        Backend of torch.distributed; None chooses by the device.

    Yields
    ------
    World
        The number of this process, and of all.

    Examples
    --------
    >>> from aleator.torch import distributed
    >>> with distributed(timeout=60) as world:
    ...     world.size
    1
    """
    if "RANK" not in os.environ or dist.is_initialized():
        yield world()
        return
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group(backend or ("nccl" if cuda else "gloo"), timeout=timedelta(seconds=timeout))
    try:
        yield world()
        dist.barrier()  # on a busy machine gloo may abort a process whose peer has left before it
    finally:
        dist.destroy_process_group()


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
