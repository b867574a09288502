"""Model files: named arrays, plain values and a checksum; no code.

A file is a safetensors file. Its metadata holds a JSON text of values and the SHA-256 of that text and of every array;
safetensors itself notices neither a flipped bit nor a cut weight. Reading a file executes nothing that is in it.

The size of a file, its number of arrays and their shapes are checked from its header before the rest is read. Its
bytes are read once: a file that is rewritten meanwhile is damaged, or whole, and never a crash.
"""

import hashlib
import hmac
import json
import math
import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from aleator import atomic_write

FORMAT = 1
_WIDE = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4}
WIDTHS = _WIDE | {"F16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}  # bytes of a number

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Limits:
    """Upper limits: bytes of the file, bytes of its header, number of arrays."""

    bytes: int = 2**32
    header: int = 100_000_000  # as safetensors has it
    arrays: int = 1_000_000


def write(
    path: str | PathLike[str], facts: dict[str, Any], arrays: Arrays, what: str = "model file", key: bytes | None = None
) -> None:
    """Write the file atomically; `what` names it in messages. With a secret `key` it is signed."""
    arrays = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    text = json.dumps({"format": FORMAT, **facts}, sort_keys=True, allow_nan=False)
    digest = _digest(text, arrays)
    signature = [] if key is None else [_signature(key, digest)]
    # one entry, because safetensors writes several in an order that changes from time to time
    content = save(arrays, metadata={"aleator": json.dumps([digest, text, *signature])})
    with atomic_write.whole(path, what) as beside:
        beside.write_bytes(content)


def read(
    path: str | PathLike[str], limits: Limits | None = None, key: bytes | None = None
) -> tuple[dict[str, Any], Arrays]:
    """Read the values and arrays of a file; a ValueError says what is wrong with it.

    With a `key` the file must have been signed with it.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no model file at {os.fspath(path)!r}.")
    with open(path, "rb") as file:
        metadata, arrays = _content(file, path, limits or Limits())
    digest, text, signature = _checksum(metadata["aleator"])
    if digest != _digest(text, arrays):
        raise ValueError(f"{path} was damaged: its checksum does not fit its content.")
    if key is not None and not (signature and hmac.compare_digest(signature, _signature(key, digest))):
        raise ValueError(f"{path} was not signed with this key{'' if signature else ': it has no signature'}.")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or facts.pop("format", None) != FORMAT:
        raise ValueError(f"{path} was written by another version of aleator; this one reads format {FORMAT}.")
    return facts, arrays


def _content(file: BinaryIO, path: str | PathLike[str], limits: Limits) -> tuple[dict[str, str], Arrays]:
    """Metadata and arrays, after a look at the header."""
    none = f"{path} is not an aleator model file, or it was cut."
    size = os.fstat(file.fileno()).st_size
    if size > limits.bytes:
        raise ValueError(f"{path} has {size:,} bytes; at most {limits.bytes:,} are read.")
    length = file.read(8)
    n_header = int.from_bytes(length, "little")
    if len(length) < 8 or not 0 < n_header <= size - 8:
        raise ValueError(none)
    if n_header > limits.header:
        raise ValueError(f"{path} has a header of {n_header:,} bytes; at most {limits.header:,} are read.")
    header = file.read(n_header)
    metadata = _checked(header, size - 8 - n_header, limits, path)
    rest = file.read(size - 8 - n_header + 1)
    try:
        return metadata, load(b"".join([length, header, rest]))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ValueError(none) from error


def _checked(header: bytes, n_data: int, limits: Limits, path: str | PathLike[str]) -> dict[str, str]:
    """The metadata in a header whose arrays are of known types, few enough, and as large as the rest of the file."""
    none = f"{path} is not an aleator model file, or it was cut."
    try:
        entries = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise ValueError(none) from error
    if not isinstance(entries, dict):
        raise ValueError(none)
    metadata = entries.pop("__metadata__", {})
    if not (isinstance(metadata, dict) and isinstance(metadata.get("aleator"), str)):
        raise ValueError(f"{path} is a safetensors file, but not one of aleator's.")
    if len(entries) > limits.arrays:
        raise ValueError(f"{path} has {len(entries):,} arrays; at most {limits.arrays:,} are read.")
    total = 0
    for entry in entries.values():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 32:
            raise ValueError(none)
        if entry.get("dtype") not in WIDTHS:
            raise ValueError(f"{path} is not one of aleator's: it has numbers of type {entry.get('dtype')!r:.20}.")
        total += math.prod(shape) * WIDTHS[entry["dtype"]]
    if total != n_data:
        raise ValueError(none)
    return metadata


def _checksum(written: str) -> tuple[str, str, str]:
    """Digest, text and signature, which are empty if they are missing."""
    try:
        digest, text, *signature = json.loads(written)
        digest, text, signature = str(digest), str(text), str(*signature)
    except (ValueError, TypeError, RecursionError):
        return "", "", ""
    return digest, text, signature


def _signature(key: bytes, digest: str) -> str:
    return hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


def _digest(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        values = arrays[name]
        digest.update(f"{name} {values.dtype.str} {values.shape}".encode())
        digest.update(values.data if values.size else b"")
    return digest.hexdigest()
