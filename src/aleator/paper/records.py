"""What was computed, one file a job: written whole when it ends, found again by everything that determines it.

The name of a file carries a hash of the job, the values of its data set, the name of the numbers that the code computes
(`NUMBERS`), and the versions of the libraries. A record of other numbers or other data has another name, and is never
taken for this one. An interrupted run resumes.
"""

import functools
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

import aleator
from aleator.datasets import Dataset
from aleator.model_files import file_format

try:
    import fcntl
except ImportError:  # Windows: two runs in one folder may do the same work twice, with the same outcome
    fcntl = None  # type: ignore[assignment]

Arrays = dict[str, NDArray[Any]]

# Names the numbers that the code computes: a record made with another name is another record. Give it a new text, such
# as the date, when a change of the code changes numbers; `tests/paper/test_numbers.py` then fails, and says so.
NUMBERS = "e53a6afdf30fa4348b52c1d624061ecaf11e0948cfa4ea0d863f3248412d3b50"
LIBRARIES = ("numpy", "numba", "scipy", "scikit-learn")


class Job(Protocol):
    """A piece of work: picklable, and a function of its fields and the data set."""

    @property
    def dataset(self) -> str:
        """The name of its data set."""
        ...

    def facts(self) -> dict[str, Any]:
        """Everything that determines the outcome, but the data."""
        ...

    def perform(self, dataset: Dataset) -> tuple[dict[str, Any], Arrays]:
        """The outcome: plain facts and arrays."""
        ...


@dataclass(frozen=True)
class Record:
    """The outcome of a job, or the reason why there is none; the seconds it took, and what it was computed with."""

    outcome: dict[str, Any]
    arrays: Arrays
    seconds: float
    made_with: dict[str, str]
    failed: str | None = None


@functools.cache
def made_with() -> dict[str, str]:
    """Versions of the numbers and of the libraries below."""
    return {"aleator": aleator.__version__, "code": NUMBERS, **{name: version(name) for name in LIBRARIES}}


@dataclass(frozen=True)
class Store:
    """The records in a folder."""

    folder: Path
    data: dict[str, Dataset]
    _held: dict[Path, int] = field(default_factory=dict)

    def path(self, job: Job) -> Path:
        """Where the record of a job lies."""
        facts = job.facts()
        determined_by = {"job": facts, "data": self.data[job.dataset].sha256, "made_with": made_with()}
        key = hashlib.sha256(json.dumps(determined_by, sort_keys=True).encode()).hexdigest()
        name = f"{facts['method']}-{facts['fold']:02d}-{key[:24]}.safetensors"
        return self.folder / job.dataset / str(facts["objective"]) / name

    def read(self, job: Job) -> Record | None:
        """The record of a job; None if there is none, or only a damaged one."""
        path = self.path(job)
        try:
            facts, arrays = file_format.read(path)
        except (FileNotFoundError, ValueError):
            return None
        if facts["job"] != json.loads(json.dumps(job.facts())):  # someone copied a file
            return None
        return Record(facts["outcome"], arrays, facts["seconds"], facts["made_with"], facts["failed"])

    def done(self, job: Job) -> bool:
        """Whether a job has a record that is not a failure."""
        record = self.read(job)
        return record is not None and record.failed is None

    def write(self, job: Job, record: Record) -> None:
        """Keep a record."""
        path = self.path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {
            "job": job.facts(),
            "outcome": record.outcome,
            "seconds": record.seconds,
            "made_with": record.made_with,
            "failed": record.failed,
        }
        file_format.write(path, facts, record.arrays, "record")

    # Two runs may share a folder: a job belongs to whom holds the lock on its file, which ends with the process.

    def claim(self, job: Job) -> bool:
        """Take a job; False if another process has it."""
        path = self._lock(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_ino != os.stat(path).st_ino:  # who had it removed the file meanwhile
                raise FileNotFoundError
        except (BlockingIOError, FileNotFoundError):
            os.close(handle)
            return False
        except OSError as error:
            os.close(handle)
            raise OSError(error.errno, f"cannot lock files here ({error.strerror})", str(path)) from error
        self._held[path] = handle
        return True

    def release(self, job: Job) -> None:
        """Give a job back."""
        self._free(self._lock(job))

    @contextmanager
    def claims(self) -> Iterator[None]:
        """Nothing stays claimed after this, whatever happens in it."""
        try:
            yield
        finally:
            for path in list(self._held):
                self._free(path)

    def _free(self, path: Path) -> None:
        handle = self._held.pop(path)
        if fcntl is None:  # Windows removes no file that is open
            os.close(handle)
            path.unlink(missing_ok=True)
        else:
            path.unlink(missing_ok=True)
            os.close(handle)

    def _lock(self, job: Job) -> Path:
        return self.folder / ".claims" / self.path(job).stem
