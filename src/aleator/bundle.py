"""Model files: named arrays and plain facts, nothing that can run, and a checksum over all of it.

A file is a safetensors file. Its metadata holds a JSON text of facts and the SHA-256 of that text and of every array;
safetensors itself notices neither a flipped bit nor a cut weight. Reading a file executes nothing that is in it.
"""

import hashlib
import json
import os
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from aleator import files

FORMAT = 1

Arrays = dict[str, NDArray[Any]]


def write(path: str | PathLike[str], facts: dict[str, Any], arrays: Arrays, what: str = "model file") -> None:
    """Write the file whole or not at all; `what` it is, for messages."""
    arrays = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    text = json.dumps({"format": FORMAT, **facts}, sort_keys=True, allow_nan=False)
    # one entry, because safetensors writes several in an order that changes from time to time
    content = save(arrays, metadata={"aleator": json.dumps([_digest(text, arrays), text])})
    with files.whole(path, what) as beside:
        beside.write_bytes(content)


def read(path: str | PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """The facts and arrays of a file; a ValueError says what is wrong with it."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no model file at {os.fspath(path)!r}.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(f"{path} is not an aleator model file, or it was cut.") from error
    if "aleator" not in metadata:
        raise ValueError(f"{path} is a safetensors file, but not one of aleator's.")
    try:
        digest, text = json.loads(metadata["aleator"])
    except (ValueError, TypeError, RecursionError):
        digest, text = None, ""
    if not isinstance(text, str) or digest != _digest(text, arrays):
        raise ValueError(f"{path} was damaged: its checksum does not fit its content.")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or facts.pop("format", None) != FORMAT:
        raise ValueError(f"{path} was written by another version of aleator; this one reads format {FORMAT}.")
    return facts, arrays


def _digest(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        values = arrays[name]
        digest.update(f"{name} {values.dtype.str} {values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
