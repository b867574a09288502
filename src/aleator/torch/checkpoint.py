"""The state of a training as a file, and back: tensors, numbers and names, nothing that can run.

What torch calls a state dict is a tree of dicts, lists, tuples, numbers and tensors. Here the tree becomes JSON and the
tensors become arrays of bytes, in a file with a checksum (`aleator.model_files.file_format`), written whole or not at
all.
"""

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aleator.model_files import file_format
from aleator.model_files.file_format import Arrays

WHAT = "checkpoint"


def save(path: str | PathLike[str], tree: dict[str, Any]) -> None:
    """Write a tree of state."""
    arrays: Arrays = {}
    facts = {"kind": WHAT, "tree": _packed(tree, arrays, "state")}
    file_format.write(path, facts, arrays, WHAT)


def load(content: bytes, name: str) -> dict[str, Any]:
    """The tree in the content of a file; a ValueError says what is wrong with it."""
    with tempfile.TemporaryDirectory() as folder, refusing(name, Path(folder) / Path(name).name) as place:
        place.write_bytes(content)
        facts, arrays = file_format.read(place)
        if facts.get("kind") != WHAT:
            raise ValueError("it is a model file")
        tree = _unpacked(facts["tree"], arrays)
        if not isinstance(tree, dict):
            raise ValueError("it holds no state")
    return tree


@contextmanager
def refusing(name: str, place: Path = Path()) -> Iterator[Path]:
    """Turn any error that a corrupt checkpoint causes into one ValueError that names the checkpoint."""
    try:
        yield place
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, RecursionError) as error:
        text = " ".join(str(error).replace(str(place), name).split())
        raise ValueError(f"{name} is not a checkpoint that training can go on from: {text}") from None


def _packed(value: Any, arrays: Arrays, name: str) -> Any:
    """JSON for a value; types that JSON lacks become a dict with one entry, the name of the type."""
    if isinstance(value, Tensor):
        held = value.detach().cpu().contiguous()
        arrays[name] = held.reshape(-1).view(torch.uint8).numpy()
        return {"tensor": [name, str(held.dtype).removeprefix("torch."), list(held.shape)]}
    if isinstance(value, dict):
        pairs = [[_packed(key, arrays, name), _packed(item, arrays, f"{name}.{key}")] for key, item in value.items()]
        return {"dict": pairs}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_packed(item, arrays, f"{name}.{k}") for k, item in enumerate(value)]}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a checkpoint holds numbers, names and tensors, and {name} is a {type(value).__name__}.")


def _unpacked(packed: Any, arrays: Arrays) -> Any:
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "tensor":
        name, dtype, shape = content
        held = torch.from_numpy(arrays[name].copy())
        return held.view(getattr(torch, dtype)).reshape(shape)
    if kind == "dict":
        return {_unpacked(key, arrays): _unpacked(item, arrays) for key, item in content}
    if kind == "float":
        return float(content)
    items = [_unpacked(item, arrays) for item in content]
    return tuple(items) if kind == "tuple" else items
