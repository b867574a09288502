"""Random seeds: modules and loaders draw from torch's global generators, which are seeded and then restored."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_of(*numbers: int) -> int:
    """One seed from several numbers, well mixed."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def given_back(device: torch.device) -> Iterator[None]:
    """A context in which the global generators may be seeded and drawn from; afterwards they are as before."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


def draw_from(device: torch.device, *numbers: int) -> None:
    """Seed the global generators by these numbers, within `given_back`."""
    seed = seed_of(*numbers)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a traceback each time
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
