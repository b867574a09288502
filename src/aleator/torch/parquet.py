"""Tables larger than memory: Parquet or CSV files as batches, read in pieces, shuffled through a buffer.

The pieces of a Parquet table are its row groups, in another order in each epoch; those of a CSV file are blocks, in
theirs. Workers of a `DataLoader` and processes of `torchrun` each read their own share of the pieces. What an epoch
gives is a function of files, seed, epoch and share alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from aleator.suggestions import suggestion
from aleator.torch.process_group import world

try:
    import pyarrow as pa
    from pyarrow import csv, parquet
except ImportError as error:
    raise ImportError("ParquetRegression needs the extra: pip install 'aleator[parquet]'.") from error

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
ROWS = 16_384  # read together
BLOCK = 4 << 20  # bytes of a CSV file


class ParquetRegression(IterableDataset[tuple[Tensor, ...]]):
    """Batches (x, y) or (x, y, weight) from Parquet or CSV files, in bounded memory.

    Use it with `fit_pair`, or with ``DataLoader(dataset, batch_size=None)`` in a loop of your own; then call
    `set_epoch` in each epoch for a new order.

    Parameters
    ----------
    path : str, PathLike or list
        A file, a folder of files, or a list; all files must have the same columns.
    target : str or list of str
        The column to predict, or several.
    features : list of str, default=None
        The columns to predict from; None takes all others.
    weight : str, default=None
        A column of sample weights.
    batch_size : int, default=1024
        Rows of a batch.
    buffer : int, default=65536
        Rows that are shuffled among each other; 0 keeps the order of the files.
    seed : int, default=0
        Seed of the order.
    dtype : dtype, default=torch.float32
        Type of the tensors.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from aleator.torch import ParquetRegression
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]}).to_csv(f"{folder}/table.csv", index=False)
    ...     x, y = next(iter(ParquetRegression(f"{folder}/table.csv", target="y")))
    >>> x.shape
    torch.Size([2, 1])
    """

    def __init__(
        self,
        path: Paths,
        target: str | Sequence[str],
        *,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        batch_size: int = 1024,
        buffer: int = 65_536,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if batch_size < 1 or buffer < 0:
            raise ValueError(f"batch_size must be >= 1 and buffer >= 0, got {batch_size!r} and {buffer!r}.")
        self.files = _files(path)
        self.batch_size, self.buffer, self.seed, self.dtype = batch_size, buffer, seed, dtype
        self.targets = [target] if isinstance(target, str) else list(target)
        self.one_target = isinstance(target, str)
        self.weight = weight
        special = [*self.targets, *([] if weight is None else [weight])]
        known = _types(self.files[0])
        self.features = [name for name in known if name not in special] if features is None else list(features)
        if not self.features or not self.targets:
            raise ValueError("there must be at least one feature and one target.")
        for name in self.features:
            if name in special:
                raise ValueError(f"column {name!r} is a feature and a target or weight at once.")
        for file in self.files:
            _check(file, [*self.features, *special])
        if len(set(self.features)) < len(self.features):
            raise ValueError("a feature is named twice.")
        self.epoch = 0
        self.processes = world()  # spawned workers do not share the state of the parent

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the next pass.

        Parameters
        ----------
        epoch : int
            The epoch, from 0.
        """
        self.epoch = epoch
        self.processes = world()

    @property
    def n_rows(self) -> int | None:
        """Rows of all files; not known of CSV files without reading them."""
        if any(not _is_parquet(file) for file in self.files):
            return None
        return sum(int(parquet.read_metadata(file).num_rows) for file in self.files)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        worker = get_worker_info()
        processes = world() if worker is None else self.processes
        workers = 1 if worker is None else worker.num_workers
        share = Share(processes.rank * workers + (0 if worker is None else worker.id), processes.size * workers)
        rng = np.random.default_rng([self.seed, self.epoch, share.number])
        for rows in _batches(self._rows(share), self.batch_size, self.buffer, rng):
            yield self._batch(rows)

    def _batch(self, rows: NDArray[Any]) -> tuple[Tensor, ...]:
        D, M = len(self.features), len(self.targets)
        values = torch.from_numpy(rows)
        y = values[:, D] if self.one_target else values[:, D : D + M]
        parts = values[:, :D].contiguous(), y.contiguous()
        return parts if self.weight is None else (*parts, values[:, -1].contiguous())

    def _rows(self, share: "Share") -> Iterator[NDArray[Any]]:
        """The rows of this share, some thousands at a time, (n, D + M) or with the weight behind."""
        names = [*self.features, *self.targets, *([] if self.weight is None else [self.weight])]
        pieces = [piece for file in self.files for piece in _pieces(file)]
        if self.buffer:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(len(pieces))  # the same for all shares
            pieces = [pieces[k] for k in order]
        few = len(pieces) < 2 * share.of or any(piece.group is None for piece in pieces)
        numpy_dtype = torch.empty(0, dtype=self.dtype).numpy().dtype
        number = 0
        for k, piece in enumerate(pieces):
            if not few and k % share.of != share.number:
                continue
            for first, table in piece.tables(names):
                number += 1
                if few and (number - 1) % share.of != share.number:
                    continue
                yield _numbers(table, piece, first, numpy_dtype)


@dataclass(frozen=True)
class Share:
    """Which part of the pieces is read here, of how many."""

    number: int
    of: int


@dataclass(frozen=True)
class Piece:
    """A row group of a Parquet file, beginning at row `first`; a CSV file is one piece."""

    file: Path
    group: int | None
    first: int = 0

    def tables(self, names: list[str]) -> Iterator[tuple[int, Any]]:
        """Its rows in order, with the number of the first of them in the file."""
        row = self.first
        for table in self._parquet(names) if self.group is not None else self._csv(names):
            yield row, table
            row += table.num_rows

    def _parquet(self, names: list[str]) -> Iterator[Any]:
        with parquet.ParquetFile(self.file, pre_buffer=False, buffer_size=1 << 18) as file:
            yield from file.iter_batches(ROWS, row_groups=[self.group], columns=names, use_threads=False)

    def _csv(self, names: list[str]) -> Iterator[Any]:
        kinds = csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.float64()))
        try:
            with csv.open_csv(self.file, csv.ReadOptions(block_size=BLOCK, use_threads=False), None, kinds) as reader:
                yield from reader
        except pa.ArrowInvalid as error:
            raise ValueError(f"{self.file}: {error}") from None


def _batches(
    pieces: Iterator[NDArray[Any]], size: int, buffer: int, rng: np.random.Generator
) -> Iterator[NDArray[Any]]:
    """Batches of `size` rows; a buffer of rows is kept back and shuffled with what comes next."""
    held: NDArray[Any] | None = None
    for piece in pieces:
        held = piece if held is None else np.concatenate([held, piece])
        if len(held) < buffer + max(ROWS, size):
            continue
        held = held[rng.permutation(len(held))] if buffer else held
        give = (len(held) - buffer) // size * size
        yield from np.split(held[:give], range(size, give, size)) if give else ()
        held = held[give:].copy()
    if held is not None and len(held):
        held = held[rng.permutation(len(held))] if buffer else held
        yield from np.split(held, range(size, len(held), size))


def _numbers(table: Any, piece: Piece, first: int, dtype: Any) -> NDArray[Any]:
    """The columns as an array (n, columns); an error unless all numbers are finite."""
    rows = np.empty((table.num_rows, table.num_columns), dtype)
    for k, (name, column) in enumerate(zip(table.schema.names, table.columns, strict=True)):
        rows[:, k] = column.to_numpy(zero_copy_only=False)
        if not np.isfinite(rows[:, k]).all():
            row = int(np.argmin(np.isfinite(rows[:, k])))
            value = column[row].as_py()
            raise ValueError(f"{piece.file}: column {name!r} is {value!r} in row {first + row}; numbers are needed.")
    return rows


# ---------------------------------------------------------------- files


def _files(path: Paths) -> list[Path]:
    if isinstance(path, (str, PathLike)):
        place = Path(path)
        found = sorted(p for p in place.iterdir() if _is_table(p)) if place.is_dir() else [place]
        if not found:
            raise FileNotFoundError(f"there is no Parquet or CSV file in {place}.")
    else:
        found = [Path(part) for part in path]
    for file in found:
        if not file.is_file():
            raise FileNotFoundError(f"there is no file {file}.")
        if not _is_table(file):
            raise ValueError(f"{file} is neither Parquet nor CSV by its name.")
    if not found:
        raise ValueError("no files were given.")
    return found


def _is_table(file: Path) -> bool:
    return _is_parquet(file) or file.name.removesuffix(".gz").endswith((".csv", ".CSV"))


def _is_parquet(file: Path) -> bool:
    return file.suffix in (".parquet", ".pq")


def _pieces(file: Path) -> list[Piece]:
    if not _is_parquet(file):
        return [Piece(file, None)]
    with parquet.ParquetFile(file) as opened:
        sizes = [opened.metadata.row_group(g).num_rows for g in range(opened.num_row_groups)]
    return [Piece(file, g, sum(sizes[:g])) for g in range(len(sizes))]


def _types(file: Path) -> dict[str, Any]:
    """Names and types of the columns; those of a CSV file are found out while it is read."""
    try:
        if _is_parquet(file):
            schema = parquet.read_schema(file)
        else:
            with csv.open_csv(file, csv.ReadOptions(block_size=BLOCK, use_threads=False)) as reader:
                schema = reader.schema
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{file} has two columns {twice!r}.")
    return dict(zip(schema.names, schema.types, strict=True))


def _check(file: Path, names: list[str]) -> None:
    known = _types(file)
    for name in names:
        if name not in known:
            raise ValueError(f"{file} has no column {name!r}{suggestion(name, known)}")
        kind = known[name]
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise ValueError(f"{file}: column {name!r} holds {kind}, numbers are needed; name the features to use.")
