"""Data of any kind as batches: tensors, a `Dataset`, a `DataLoader`, or an iterable of batches.

A batch is (x, y) or (x, y, weight); x may be a tuple of tensors for modules with several inputs. Which rows a step sees
is a function of the seed and the epoch alone, so training can be resumed in the middle of an epoch. On several machines
each process takes its part of every batch.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from aleator.torch.criterion import check_weight
from aleator.torch.process_group import World
from aleator.torch.random_seeds import seed_of


@dataclass(frozen=True)
class Batch:
    """Inputs (a tensor or a tuple of them), targets, and weights (n,) or None; also all rows of data in memory."""

    x: Any
    y: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Tensor) -> "Batch":
        """Some of the rows."""
        x = tuple(part[rows] for part in self.x) if isinstance(self.x, tuple) else self.x[rows]
        return Batch(x, self.y[rows], None if self.weight is None else self.weight[rows])

    def to(self, device: torch.device) -> "Batch":
        """The same on a device."""
        x = tuple(part.to(device) for part in self.x) if isinstance(self.x, tuple) else self.x.to(device)
        return Batch(x, self.y.to(device), None if self.weight is None else self.weight.to(device))


# ---------------------------------------------------------------- rows that can be taken by number


@dataclass(frozen=True)
class Rows:
    """Tensors or a map-style dataset: reshuffled in each epoch; every process takes its part of each batch."""

    data: Any
    batch_size: int
    shuffle: bool
    seed: int

    @property
    def steps(self) -> int:
        return -(-len(self.data) // self.batch_size)

    def fingerprint(self) -> str:
        """A hash of the number of rows and of some hundred of them."""
        n = len(self.data)
        some = self.data.take(torch.linspace(0, n - 1, min(n, 256)).long())
        parts = some.x if isinstance(some.x, tuple) else (some.x,)
        arrays = [part.cpu().numpy() for part in (*parts, some.y, *([] if some.weight is None else [some.weight]))]
        return hashlib.sha256(
            str(n).encode() + b"".join(a.tobytes() + str(a.dtype).encode() for a in arrays)
        ).hexdigest()

    def epoch(self, number: int, world: World, begin: int = 0) -> Iterator[tuple[Batch, int]]:
        """Batches from number `begin` on, with the number of rows that all processes together have in this step."""
        generator = torch.Generator().manual_seed(seed_of(self.seed, number))
        n = len(self.data)
        order = torch.randperm(n, generator=generator) if self.shuffle else torch.arange(n)
        for step in range(begin, self.steps):
            rows = order[step * self.batch_size : (step + 1) * self.batch_size]
            yield self.data.take(rows[world.rank :: world.size]), len(rows)


@dataclass(frozen=True)
class Items:
    """Rows of a map-style dataset."""

    dataset: Any

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, rows: Tensor) -> Batch:
        taken = batch_of(default_collate([self.dataset[int(row)] for row in (rows if len(rows) else [0])]))
        return taken if len(rows) else taken.take(rows)  # a process may have no part of the last batch


# ---------------------------------------------------------------- batches somebody else makes


@dataclass(frozen=True)
class Stream:
    """A `DataLoader` or another iterable of batches: their order is its own, `set_epoch` is called where there is one.

    Under several processes it must give each its own part (a `DistributedSampler`, a `ParquetRegression`); the epoch
    ends for all when the first has nothing more.
    """

    source: Iterable[Any]
    steps = None

    def fingerprint(self) -> str:
        """A description without reading the data: its type."""
        return type(self.source).__name__

    def epoch(self, number: int, world: World, begin: int = 0) -> Iterator[tuple[Batch, int]]:
        """Batches, always from the first one; `begin` is ignored."""
        for part in (self.source, getattr(self.source, "sampler", None), getattr(self.source, "dataset", None)):
            tell = getattr(part, "set_epoch", None)
            if tell is not None:
                tell(number)
        batches = map(batch_of, self.source)
        while True:
            batch = next(batches, None)
            counts = world.gathered(0 if batch is None else len(batch))
            if batch is None or min(counts) == 0:
                return
            yield batch, sum(counts)


def read(data: Any, batch_size: int, seed: int, shuffle: bool = True) -> Rows | Stream:
    """Read any kind of data as batches."""
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        return Rows(Items(data), batch_size, shuffle, seed)
    if isinstance(data, DataLoader):
        return Stream(data)
    if isinstance(data, IterableDataset):
        return Stream(DataLoader(data, None if hasattr(data, "batch_size") else batch_size))
    if isinstance(data, (tuple, list)) and len(data) in (2, 3) and _rows_in(data[1]) is not None:
        return Rows(_tensors(*data), batch_size, shuffle, seed)
    if isinstance(data, Iterable) and not hasattr(data, "shape"):
        return Stream(data)
    raise TypeError(f"data must be (x, y), (x, y, weight), a Dataset, a DataLoader or batches, got {_kind(data)}.")


def rows_of(data: Any, batch_size: int = 1024, labelled: bool = True) -> Iterator[Batch]:
    """One pass in order; without labels `data` may be inputs alone."""
    if not labelled and (hasattr(data, "shape") or _are_inputs(data)):
        x = tuple(map(tensor, data)) if isinstance(data, tuple) else tensor(data)
        n = len(x[0]) if isinstance(x, tuple) else len(x)
        if n == 0:
            raise ValueError("there are no rows to predict.")
        data = (x, torch.zeros(n))
    return (batch for batch, _ in read(data, batch_size, 0, shuffle=False).epoch(0, World()))


def _are_inputs(data: Any) -> bool:
    return isinstance(data, tuple) and bool(data) and all(hasattr(part, "shape") for part in data)


def _tensors(x: Any, y: Any, weight: Any = None) -> Batch:
    x = tuple(map(tensor, x)) if isinstance(x, (tuple, list)) else tensor(x)
    y, weight = target(y), None if weight is None else weights(weight)
    for part in x if isinstance(x, tuple) else (x,):
        if part.ndim == 0 or len(part) != len(y):
            raise ValueError(f"x has shape {tuple(part.shape)}, y has shape {tuple(y.shape)}: not as many rows.")
    if not len(y):
        raise ValueError("there are no rows to learn from.")
    if weight is not None and len(weight) != len(y):
        raise ValueError(f"sample weights have shape {tuple(weight.shape)}, y has shape {tuple(y.shape)}.")
    return Batch(x, y, weight)


def tensor(values: Any) -> Tensor:
    """A tensor of numbers; what pandas and numpy hold is shared, not copied, where that is possible."""
    if isinstance(values, Tensor):
        return values
    held = np.asarray(values)
    if held.dtype.kind not in "fiub":
        raise TypeError(f"numbers are needed, got {_kind(values)} of {held.dtype}.")
    usable = held.flags.writeable and all(step >= 0 for step in held.strides)
    return torch.as_tensor(held if usable else held.copy())


def target(values: Any) -> Tensor:
    """Targets: numbers, true and false are 1 and 0."""
    y = tensor(values)
    return y.float() if y.dtype == torch.bool else y


def weights(values: Any) -> Tensor:
    """Sample weights: numbers >= 0."""
    weight = tensor(values)
    check_weight(weight)
    return weight


def batch_of(made: Any) -> Batch:
    """(x, y) or (x, y, weight), as a data loader gives it."""
    if isinstance(made, Batch):
        return made
    if not (isinstance(made, (tuple, list)) and len(made) in (2, 3)):
        raise TypeError(f"a batch must be (x, y) or (x, y, weight), got {_kind(made)}.")
    x = tuple(map(tensor, made[0])) if isinstance(made[0], (tuple, list)) else tensor(made[0])
    return Batch(x, target(made[1]), weights(made[2]) if len(made) == 3 else None)


def _rows_in(values: Any) -> int | None:
    return len(values) if hasattr(values, "shape") or hasattr(values, "__array__") else None


def _kind(data: Any) -> str:
    size = f" of {len(data)}" if isinstance(data, (tuple, list)) else ""
    return f"a {type(data).__name__}{size}"
