"""The data sets of the paper by name, wherever they are."""

from pathlib import Path

from aleator.datasets import msd, real
from aleator.datasets.real import Dataset


def load(name: str, mirror: str | None = None) -> Dataset:
    """Load a data set of the paper.

    It is looked for in the folder named by the environment variable ALEATOR_DATA, in the cache (ALEATOR_CACHE), at
    `mirror` (or ALEATOR_MIRROR), and where it is published. Its values are checked by their SHA-256.

    Parameters
    ----------
    name : str
        "boston", "concrete", "power", "yacht", "kin8nm" or "msd" of the paper, the sample "msd_sample", or "diabetes",
        which comes with scikit-learn.
    mirror : str, default=None
        An address or a folder to look in.

    Returns
    -------
    Dataset
        The table.

    Raises
    ------
    OSError
        If the data set is nowhere; the message says which file to put where.
    ValueError
        If the name is unknown or the content is wrong.

    Examples
    --------
    >>> from aleator import datasets
    >>> datasets.load("diabetes").X.shape
    (442, 10)
    """
    return msd.load(mirror) if name == "msd" else real.load(name, mirror)


def where(name: str) -> Path | None:
    """The file that `load` would read; None if it would have to be downloaded."""
    return msd.where() if name == "msd" else real.where(name)
