"""The data sets of the paper by name, wherever they are."""

from pathlib import Path

from aleator.datasets import msd, real
from aleator.datasets.real import Dataset


def load(name: str, mirror: str | None = None) -> Dataset:
    """A data set of the paper by name: boston, concrete, power, yacht, kin8nm, msd; or the sample msd_sample; or
    diabetes, which is not in the paper, comes with scikit-learn and needs no download.

    It is looked for in the directory named by the environment variable ALEATOR_DATA (boston.csv.gz and so on), in the
    cache (ALEATOR_CACHE), at `mirror` (or ALEATOR_MIRROR: an address, or a folder), and where it is published. Its
    values are checked by their SHA-256. An OSError tells which file to put where, if it is nowhere.
    """
    return msd.load(mirror) if name == "msd" else real.load(name, mirror)


def where(name: str) -> Path | None:
    """The file that `load` would read; None if it would have to be downloaded."""
    return msd.where() if name == "msd" else real.where(name)
