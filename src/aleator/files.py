"""Files that are whole or not there."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


@contextmanager
def whole(path: str | PathLike[str], what: str) -> Iterator[Path]:
    """A path beside `path` to write to: it takes its name when it is complete, and is gone after an error.

    `what` is to be written, for messages: "model file".
    """
    if not os.fspath(path) or (Path(path).exists() and not Path(path).is_file()):
        raise ValueError(f"{os.fspath(path)!r} is not a place for a {what}.")
    path = Path(path).resolve()  # a link stays a link
    beside = path.with_name(f".{uuid.uuid4().hex}-{path.name}")
    try:
        yield beside
        os.replace(beside, path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write the {what} ({error.strerror or error})", str(path)) from error
    finally:
        beside.unlink(missing_ok=True)
