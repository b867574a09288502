"""The data sets of the paper (sec. 8): from a directory, the cache, a mirror, or the places that publish them.

Whatever the way, the outcome is the same arrays, checked by their SHA-256: rows in the order of the source, nothing
scaled, shuffled or left out. Sources in order:

1. the directory named by ALEATOR_DATA: ``boston.csv.gz`` or ``boston.csv`` and so on, a header, the target last;
2. the cache (ALEATOR_CACHE, else ``~/.cache/aleator``), files of the same form, left there by an earlier download;
3. a mirror, ``load(name, mirror=...)`` or ALEATOR_MIRROR: an address below which such files lie;
4. the repositories that publish the data, each read in its own format (`PLACES`).

Year Prediction MSD has a format and a size of its own: `aleator.datasets.msd`.
"""

import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn.datasets
from numpy.typing import NDArray

from aleator import atomic_write
from aleator.datasets.download import DownloadError, fetch
from aleator.suggestions import suggestion

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dataset:
    """A data set with names and citation.

    Attributes
    ----------
    name : str
        Name of the data set.
    X : ndarray of shape (n, d)
        Inputs.
    y : ndarray of shape (n,)
        Targets.
    names : tuple of str
        Names of the columns.
    target : str
        Name of the target.
    citation : str
        Whom to cite.
    sha256 : str
        Checksum of the arrays.
    split : int or None
        Number of training rows, the first ones, if the data set has an official split.

    Examples
    --------
    >>> from aleator import datasets
    >>> datasets.load("diabetes").target
    'progression'
    """

    name: str
    X: NDArray[np.floating[Any]]
    y: NDArray[np.floating[Any]]
    names: tuple[str, ...]
    target: str
    citation: str
    sha256: str
    split: int | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of a data set before it is there. `sha256`: of its (rows, columns) float64 values, target last."""

    rows: int
    names: tuple[str, ...]
    target: str
    sha256: str
    citation: str


FACTS = {
    "boston": Facts(
        506,
        ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
        "MEDV",
        "832e894115c56dd24ec63848d4a3d9bd921d268d0be1bee2a8f4ee5ea318f5f7",
        "Harrison, Rubinfeld: Hedonic housing prices and the demand for clean air. J. Environ. Econ. Manag. 5 (1978). "
        "Its column B encodes race; scikit-learn dropped the set for that reason.",
    ),
    "concrete": Facts(
        1030,
        (
            "Cement",
            "Blast Furnace Slag",
            "Fly Ash",
            "Water",
            "Superplasticizer",
            "Coarse Aggregate",
            "Fine Aggregate",
            "Age",
        ),
        "Concrete compressive strength",
        "8b9a7af0366e0f437ad04cfba6bb729ec0c3ea76fa780ff3d3f4d057356b6af6",
        "Yeh: Modeling of strength of high-performance concrete using artificial neural networks. "
        "Cement and Concrete Research 28 (1998). CC BY 4.0.",
    ),
    "power": Facts(
        9568,
        ("AT", "V", "AP", "RH"),
        "PE",
        "99a3e1a8b4d8640155030577f49c00789d0d390e4e5b4cd8e28f1a6a288abab2",
        "Tüfekci: Prediction of full load electrical power output of a base load operated combined cycle power plant. "
        "Int. J. Electrical Power & Energy Systems 60 (2014). CC BY 4.0.",
    ),
    "yacht": Facts(
        308,
        (
            "Longitudinal position of the center of buoyancy",
            "Prismatic coefficient",
            "Length-displacement ratio",
            "Beam-draught ratio",
            "Length-beam ratio",
            "Froude number",
        ),
        "Residuary resistance per unit weight of displacement",
        "ec08588637fd93582116a1ead33f0c1e787dae755168073608e030e5282a3f4e",
        "Gerritsma, Onnink, Versluis: Geometry, resistance and stability of the Delft systematic yacht hull series. "
        "Int. Shipbuilding Progress 28 (1981). CC BY 4.0.",
    ),
    "kin8nm": Facts(
        8192,
        tuple(f"theta{k}" for k in range(1, 9)),
        "y",
        "7fad37438fc1228ed099177766b084fb5577bf7457d7a6460f8d0389b21681ab",
        "Delve, University of Toronto: forward dynamics of an 8-link robot arm, simulated.",
    ),
    "msd_sample": Facts(
        7000,
        (*(f"TimbreAvg{k}" for k in range(1, 13)), *(f"TimbreCovariance{k}" for k in range(1, 79))),
        "year",
        "006f8e8e834ab23a378b88761998a3ac8403c7553b86c5bfb17d4760449b261b",
        "Bertin-Mahieux, Ellis, Whitman, Lamere: The Million Song Dataset. ISMIR 2011. CC BY 4.0. A random sample of "
        "its training rows: results on it compare with nothing published.",
    ),
}
NAMES = ("boston", "concrete", "power", "yacht", "kin8nm", "msd", "msd_sample", "diabetes")

# Another name under which a file may lie in the directory.
_ALSO = {"msd_sample": "msd_train_sample7000"}


def load(name: str, mirror: str | None = None) -> Dataset:
    """A data set other than MSD: see `aleator.datasets.load`."""
    if name == "diabetes":
        return _diabetes()
    if name not in FACTS:
        raise ValueError(f"there is no data set {name!r}{suggestion(str(name), NAMES)}")
    path = where(name)
    try:
        if path is not None:
            return _dataset(name, _checked(name, _csv(path), str(path)))
    except ValueError:
        if path is None or path.parent != cache():  # what is in the cache can be had again
            raise
    return _dataset(name, _downloaded(name, mirror or os.environ.get("ALEATOR_MIRROR")))


def folders() -> list[Path]:
    """Where files are looked for: the directory of the user, if there is one, and the cache."""
    own = os.environ.get("ALEATOR_DATA")
    return [*([Path(own)] if own else []), cache()]


def cache() -> Path:
    """Where downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ALEATOR_CACHE") or Path(base) / "aleator")


def where(name: str) -> Path | None:
    """The file that `load` would read; None if it would have to be downloaded."""
    if name == "diabetes":
        return Path(sklearn.datasets.__file__).parent / "data" / "diabetes_data_raw.csv.gz"
    return next((path for folder in folders() for path in _files(name, folder) if path.is_file()), None)


def _diabetes() -> Dataset:
    table = sklearn.datasets.load_diabetes(scaled=False)
    X, y = np.ascontiguousarray(table.data), table.target.astype(np.float64)
    citation = "Efron, Hastie, Johnstone, Tibshirani: Least angle regression. Annals of Statistics 32 (2004)."
    digest = sha256(np.column_stack([X, y]))
    return Dataset("diabetes", X, y, tuple(table.feature_names), "progression", citation, digest)


# ---------------------------------------------------------------- files


def _files(name: str, folder: Path) -> list[Path]:
    stems = [name, *([_ALSO[name]] if name in _ALSO else [])]
    return [folder / f"{stem}{end}" for stem in stems for end in (".csv.gz", ".csv")]


def _csv(path: Path) -> Floats:
    try:
        return pd.read_csv(path).to_numpy(np.float64)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a table of numbers with a header: {reason}") from error


def _checked(name: str, values: Floats, origin: str) -> Floats:
    """The values, if they are those of the data set."""
    facts = FACTS[name]
    shape = (facts.rows, len(facts.names) + 1)
    if values.shape != shape:
        raise ValueError(f"{origin} is not {name}: {values.shape} rows and columns in place of {shape}.")
    found = sha256(values)
    if found != facts.sha256:
        raise ValueError(
            f"{origin} is not {name}: its values have the SHA-256 {found[:12]}…, not {facts.sha256[:12]}…."
        )
    return values


def sha256(*arrays: NDArray[Any]) -> str:
    """Of the values of arrays, one after the other, little endian."""
    digest = hashlib.sha256()
    for values in arrays:
        digest.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def _dataset(name: str, values: Floats) -> Dataset:
    facts = FACTS[name]
    X, y = np.ascontiguousarray(values[:, :-1]), values[:, -1].copy()
    return Dataset(name, X, y, facts.names, facts.target, facts.citation, facts.sha256)


# ---------------------------------------------------------------- downloads


@dataclass(frozen=True)
class Place:
    """An address, and how what lies there becomes an array (rows, columns) with the target last."""

    url: str
    read: Callable[[Path], Floats]


def _numbers(text: str) -> Floats:
    """All numbers of a text, separated by blanks."""
    return np.array(text.split(), np.float64)


def _statlib(path: Path) -> Floats:
    """22 lines of text, then 14 numbers a row over two lines."""
    return _numbers(path.read_text("latin-1").split("\n", 22)[22]).reshape(-1, 14)


def _arff(path: Path) -> Floats:
    """ARFF: what follows @data; nominal values are numbers too, maybe in quotes."""
    _, _, table = path.read_text("latin-1").replace("@DATA", "@data").partition("@data")
    rows = [line for line in table.splitlines() if line.strip() and not line.startswith("%")]
    return np.array([[float(value.strip(" '\"")) for value in row.split(",")] for row in rows])


def _openml(path: Path) -> Floats:
    """OpenML's description of a data set, which tells the address of the file."""
    url = json.loads(path.read_text())["data_set_description"]["url"]
    return _arff(fetch(url, path.with_suffix(".arff")))


def _zipped(member: str, read: Callable[[bytes], Floats]) -> Callable[[Path], Floats]:
    def unpacked(path: Path) -> Floats:
        with zipfile.ZipFile(path) as archive:
            return read(archive.read(member))

    return unpacked


def _excel(content: bytes) -> Floats:
    try:
        return pd.read_excel(io.BytesIO(content)).to_numpy(np.float64)  # the first sheet
    except ImportError as error:
        raise ImportError(f"to read it takes the extra aleator[data] ({error})") from error


def _eight_digits(read: Callable[[Path], Floats]) -> Callable[[Path], Floats]:
    """Kin8nm is kept with 8 significant digits in some places and with more in others."""

    def rounded(path: Path) -> Floats:
        values = read(path)
        return np.array([float(f"{value:.8g}") for value in values.ravel()]).reshape(values.shape)

    return rounded


_UCI, _OPENML = "https://archive.ics.uci.edu/static/public", "https://www.openml.org/api/v1/json/data"
PLACES: dict[str, tuple[Place, ...]] = {
    "boston": (
        Place("http://lib.stat.cmu.edu/datasets/boston", _statlib),
        Place(f"{_OPENML}/531", _openml),
    ),
    "concrete": (
        Place(f"{_UCI}/165/concrete+compressive+strength.zip", _zipped("Concrete_Data.xls", _excel)),
        Place(f"{_OPENML}/4353", _openml),
    ),
    "power": (Place(f"{_UCI}/294/combined+cycle+power+plant.zip", _zipped("CCPP/Folds5x2_pp.xlsx", _excel)),),
    "yacht": (
        Place(
            f"{_UCI}/243/yacht+hydrodynamics.zip",
            _zipped("yacht_hydrodynamics.data", lambda content: _numbers(content.decode("latin-1")).reshape(-1, 7)),
        ),
    ),
    "kin8nm": (Place(f"{_OPENML}/189", _eight_digits(_openml)),),
    "msd_sample": (),
}


def address(mirror: str) -> str:
    """Of a mirror; a folder of this machine may be one too."""
    return mirror.rstrip("/") if "://" in mirror else Path(mirror).resolve().as_uri()


def _downloaded(name: str, mirror: str | None) -> Floats:
    """The values from the first place that has them, kept in the cache for next time."""
    mirrors = [Place(f"{address(mirror)}/{name}.csv.gz", _csv)] if mirror else []
    reasons = []
    for place in (*mirrors, *PLACES[name]):
        try:
            values = _from(place, name)
        except (DownloadError, ImportError, ValueError) as error:
            reasons.append(str(error))
            continue
        _keep(name, values)
        return values
    raise DownloadError(
        f"the data set {name} is not here and could not be downloaded ({'; '.join(reasons) or 'nobody publishes it'}). "
        f"Put {name}.csv.gz into {folders()[0]}, or the directory that has it into ALEATOR_DATA."
    )


def _from(place: Place, name: str) -> Floats:
    """What lies at a place; the files that come on the way are not kept."""
    with tempfile.TemporaryDirectory() as folder:
        path = fetch(place.url, Path(folder) / "download.csv.gz")
        try:
            values = place.read(path)
        except (DownloadError, ImportError):
            raise
        except Exception as error:  # whatever lies there, the next place is asked
            reason = " ".join(str(error).split())
            raise ValueError(f"{place.url}: not in the form expected ({reason})") from error
        return _checked(name, values, place.url)


def _keep(name: str, values: Floats) -> None:
    facts = FACTS[name]
    cache().mkdir(parents=True, exist_ok=True)
    with atomic_write.whole(cache() / f"{name}.csv.gz", "data set") as beside:
        pd.DataFrame(values, columns=[*facts.names, facts.target]).to_csv(beside, index=False, compression="gzip")
