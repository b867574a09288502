"""Files that are whole or not there."""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path


@contextmanager
def whole(path: str | PathLike[str], what: str) -> Iterator[Path]:
    """A path beside `path` to write to: it takes its name when it is complete, and is gone after an error.

    `what` is to be written, for messages: "model file".
    """
    with _beside(path, what) as beside:
        yield beside
        _to_disk(beside)
        os.replace(beside, Path(path).resolve())  # a link stays a link
        _to_disk(beside.parent)


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


def check_place(path: str | PathLike[str], what: str) -> None:
    """Refuses a place where nothing can be written: better before long work than after it."""
    with _beside(path, what) as beside:
        beside.touch()


@contextmanager
def _beside(path: str | PathLike[str], what: str) -> Iterator[Path]:
    beside = None
    try:
        if not os.fspath(path) or (Path(path).exists() and not Path(path).is_file()):
            raise ValueError(f"{os.fspath(path)!r} is not a place for a {what}.")
        path = Path(path).resolve()
        beside = path.with_name(f".{uuid.uuid4().hex}-{path.name}")
        yield beside
    except OSError as error:
        if error.filename is not None and Path(error.filename).parent != Path(path).resolve().parent:
            raise  # of something else
        text = str(error.strerror or error)  # of a file within another's place, its own
        told = text if text.startswith("cannot write") else f"cannot write the {what} ({text})"
        raise OSError(error.errno, told, str(path)) from error
    finally:
        if beside is not None:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
