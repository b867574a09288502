"""Files that are complete or absent.

A file is written beside its place under a hidden name, flushed to the disk, and renamed. Its writer holds a lock on it
meanwhile. What a killed process left behind has no lock any more: the next one that writes to the same place removes
it.
"""

import errno
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows: leftovers stay
    flock = None  # type: ignore[assignment]

_HIDDEN = re.compile(r"\.[0-9a-f]{32}-(.+)", re.DOTALL)
_unfinished: set[Path] = set()


@contextmanager
def whole(path: str | PathLike[str], what: str) -> Iterator[Path]:
    """A path beside `path` to write to: it takes its name when it is complete, and is gone after an error.

    `what` is to be written, for messages: "model file". Within another `whole` the path is that of the other.
    """
    if Path(path) in _unfinished:
        yield Path(path)
        return
    with _beside(path, what) as beside:
        yield beside
        _to_disk(beside)
        os.replace(beside, Path(path).resolve())  # a link stays a link
        _to_disk(beside.parent)


def check_place(path: str | PathLike[str], what: str) -> None:
    """Refuses a place where nothing can be written: better before long work than after it."""
    with _beside(path, what):
        pass


def remove_unfinished() -> None:
    """Remove what this process is writing at the moment: for a process that is ended without leaving its contexts."""
    for beside in list(_unfinished):
        with suppress(OSError):
            beside.unlink(missing_ok=True)


@contextmanager
def _beside(path: str | PathLike[str], what: str) -> Iterator[Path]:
    beside = handle = None
    try:
        if not os.fspath(path) or (Path(path).exists() and not Path(path).is_file()):
            raise ValueError(f"{os.fspath(path)!r} is not a place for a {what}.")
        path = Path(path).resolve()
        _remove_leftovers(path)
        beside = path.with_name(f".{uuid.uuid4().hex}-{path.name}")
        _unfinished.add(beside)
        handle = _locked(beside)
        yield beside
    except OSError as error:
        if error.filename is not None and Path(error.filename).parent != Path(path).resolve().parent:
            raise  # of something else
        text = str(error.strerror or error)  # of a file within another's place, its own
        message = text if text.startswith("cannot write") else f"cannot write the {what} ({text})"
        raise OSError(error.errno, message, str(path)) from error
    finally:
        if beside is not None:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            _unfinished.discard(beside)
        if handle is not None:
            os.close(handle)


def _locked(beside: Path) -> int | None:
    """A new empty file, locked as long as the handle is open; no handle where there are no locks."""
    for _ in range(10):
        handle = os.open(beside, os.O_CREAT | os.O_RDWR, 0o666)
        if flock is None:
            os.close(handle)
            return None
        try:
            flock(handle, LOCK_EX)
        except OSError:  # a file system without locks
            return handle
        if os.fstat(handle).st_nlink:  # and not taken for a leftover before the lock was there
            return handle
        os.close(handle)
    return None


def _remove_leftovers(path: Path) -> None:
    """Remove what processes that are gone left when they were writing to this path."""
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError):  # a folder that may not be listed
        entries = [] if flock is None else list(os.scandir(path.parent))
    for entry in entries:
        hidden = _HIDDEN.fullmatch(entry.name)
        if hidden is None or hidden[1] != path.name or not entry.is_file(follow_symlinks=False):
            continue
        with suppress(OSError):
            handle = os.open(entry.path, os.O_RDWR)
            try:
                flock(handle, LOCK_EX | LOCK_NB)  # an error if someone is writing it
                os.unlink(entry.path)
            finally:
                os.close(handle)


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk: they outlive a loss of power."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # folders cannot be opened everywhere
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # of systems that have no such thing
            raise
    finally:
        os.close(handle)
