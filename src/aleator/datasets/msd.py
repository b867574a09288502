"""Year Prediction MSD: 515,345 songs, 90 numbers each; the first 463,715 train, the others test (every artist on one
side). And data of its shape, made up, for those who want to know what such a size costs.

UCI's text file (the year first, no header) or its zip is read in blocks into float32 arrays in the cache, and from then
on mapped into memory from there. No SHA-256 of it could be taken when this was written, so its rows, columns and years
are checked.
"""

import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from aleator import atomic_write
from aleator.datasets import real
from aleator.datasets.download import DownloadError, fetch
from aleator.datasets.synthetic import drawn_by

Singles = NDArray[np.float32]

ROWS, TRAIN, COLUMNS = 515_345, 463_715, 90
YEARS = 1922, 2011
TEXT = "YearPredictionMSD.txt"
ZIPS = ("yearpredictionmsd.zip", "YearPredictionMSD.txt.zip", "YearPredictionMSD.zip")
URL = "https://archive.ics.uci.edu/static/public/203/yearpredictionmsd.zip"
BLOCK = 20_000  # rows read at a time


def load(mirror: str | None = None) -> real.Dataset:
    """The set, X (515345, 90) and y float32, with its official split."""
    if not all(path.is_file() for path in _kept()):
        source = where()
        if source is not None:
            _convert(source)
        else:
            _download(mirror or os.environ.get("ALEATOR_MIRROR"))
    X, y = (np.load(path, mmap_mode="r") for path in _kept())
    facts = real.FACTS["msd_sample"]
    citation = facts.citation.split(" A random")[0]
    return real.Dataset("msd", X, y, facts.names, facts.target, citation, real.sha256(X, y), TRAIN)


def _download(mirror: str | None) -> None:
    """From the internet into the cache; the zip itself is not kept."""
    url = f"{real.address(mirror)}/{ZIPS[0]}" if mirror else URL
    with tempfile.TemporaryDirectory() as folder:
        try:
            _convert(fetch(url, Path(folder) / ZIPS[0]))
        except (DownloadError, ValueError) as error:
            raise DownloadError(
                f"the data set msd is not here and could not be downloaded ({error}). Put {TEXT} or "
                f"{ZIPS[0]} into {real.folders()[0]}, or the directory that has it into ALEATOR_DATA."
            ) from error


def where() -> Path | None:
    """The file that `load` would read."""
    if all(path.is_file() for path in _kept()):
        return _kept()[0]
    names = (TEXT, *ZIPS)
    return next((folder / name for folder in real.folders() for name in names if (folder / name).is_file()), None)


def _kept() -> tuple[Path, Path]:
    return real.cache() / "msd-X.npy", real.cache() / "msd-y.npy"


def _convert(source: Path) -> None:
    """The text as arrays in the cache, a block at a time; the set is there if both are."""
    real.cache().mkdir(parents=True, exist_ok=True)
    X_path, y_path = _kept()
    with atomic_write.whole(X_path, "data set") as X_file, atomic_write.whole(y_path, "data set") as y_file:
        X = np.lib.format.open_memmap(X_file, "w+", np.float32, (ROWS, COLUMNS))
        y, n = np.empty(ROWS, np.float32), 0
        for block in _blocks(source):
            if n + len(block) > ROWS or block.shape[1] != COLUMNS + 1:
                raise ValueError(f"{source} is not Year Prediction MSD: it has {_shape(n, block)}, not {ROWS:,} x 91.")
            if not np.isfinite(block).all():
                raise ValueError(
                    f"{source} is damaged: row {n + int(np.argwhere(~np.isfinite(block))[0, 0])} has a gap."
                )
            y[n : n + len(block)], X[n : n + len(block)] = block[:, 0], block[:, 1:]
            n += len(block)
        if n != ROWS:
            raise ValueError(f"{source} was cut: it has {n:,} rows, not {ROWS:,}.")
        if y.min() < YEARS[0] or y.max() > YEARS[1]:
            raise ValueError(f"{source} is not Year Prediction MSD: its years go from {y.min():g} to {y.max():g}.")
        X.flush()
        del X
        with y_file.open("wb") as file:
            np.save(file, y)


def _shape(n: int, block: NDArray[Any]) -> str:
    return f"{n + len(block):,} rows or more of {block.shape[1]} columns"


def _blocks(source: Path) -> Iterator[Singles]:
    console = Console(stderr=True)
    with _opened(source) as text:
        try:
            blocks = pd.read_csv(text, header=None, chunksize=BLOCK, dtype=np.float32)
            total = -(-ROWS // BLOCK)
            yield from track(
                (block.to_numpy() for block in blocks),
                "reading",
                total,
                console=console,
                disable=not console.is_terminal,
            )
        except (ValueError, zipfile.BadZipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{source} is damaged: {' '.join(str(error).split())}") from error


@contextmanager
def _opened(source: Path) -> Iterator[IO[bytes]]:
    if source.suffix != ".zip":
        with source.open("rb") as text:
            yield text
        return
    try:
        archive = zipfile.ZipFile(source)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{source} is damaged: {error}") from error
    with archive:
        if TEXT not in archive.namelist():
            raise ValueError(f"{source} does not hold {TEXT}.")
        with archive.open(TEXT) as text:
            yield text


def msd_shaped(n: int = ROWS, random_state: object = 0) -> real.Dataset:
    """Make data of the shape of Year Prediction MSD: 90 correlated columns, float32, and a smooth target.

    Where the first column is high, the standard deviation of the noise is eight times that where it is low.

    Parameters
    ----------
    n : int, default=515345
        Number of rows.
    random_state : int, RandomState instance or None, default=0
        Random seed.

    Returns
    -------
    Dataset
        The table.

    Examples
    --------
    >>> from aleator.datasets import msd_shaped
    >>> msd_shaped(100).X.shape
    (100, 90)
    """
    rng = drawn_by(n, random_state)
    mixing = (rng.normal(size=(COLUMNS, COLUMNS)) / np.sqrt(COLUMNS) + np.eye(COLUMNS)).astype(np.float32)
    X, y = np.empty((n, COLUMNS), np.float32), np.empty(n, np.float32)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(start + BLOCK, n))
        x = rng.normal(size=(rows.stop - start, COLUMNS)).astype(np.float32) @ mixing
        spread = 1.0 + 7.0 / (1.0 + np.exp(-3.0 * x[:, 0]))  # of the noise
        mean = 1998 + 5 * np.tanh(x[:, 0] + 0.5 * x[:, 1]) + 3 * np.sin(x[:, 2]) + x[:, 3] * np.abs(x[:, 4])
        X[rows], y[rows] = x, mean + spread * rng.normal(size=len(x))
    names = tuple(f"x{k}" for k in range(1, COLUMNS + 1))
    split = n * TRAIN // ROWS
    return real.Dataset("msd_shaped", X, y, names, "y", "made up by aleator", real.sha256(X, y), split)
