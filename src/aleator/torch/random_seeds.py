"""Chance: modules and loaders draw from torch's global generators, which are seeded and given back as they were."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_of(*numbers: int) -> int:
    """One seed from several numbers, well mixed."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def given_back(device: torch.device) -> Iterator[None]:
    """Inside, the global generators may be drawn from and seeded; afterwards they are as before."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


def draw_from(device: torch.device, *numbers: int) -> None:
    """Inside of `given_back`: what is drawn from now on depends on these numbers alone."""
    seed = seed_of(*numbers)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a traceback each time
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
