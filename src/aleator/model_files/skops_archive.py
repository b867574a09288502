"""Estimators that earlier files hold as archives of skops: read here as plain values, without skops.

An archive is a zip file with `schema.json`, a tree of nodes, and one .npy file for each array. Only nodes that hold
values are read. Their objects are empty shells with attributes: nothing is called on them before `scikit_learn.record`
takes them apart and `scikit_learn.rebuilt` checks every value.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

from aleator.model_files import scikit_learn
from aleator.model_files.object_records import flattened, nested

MOST_NODES = 1_000_000
DEEPEST = 200
_RENAMED = {"told_": "category_means_"}  # attributes of TableEncoder since these archives
_HOLDERS = {each.__name__: each for each in (_BinMapper, TreePredictor)}


def read(content: bytes, others: Mapping[str, type] | None = None) -> Any:
    """The estimator in an archive; a ValueError if it cannot be read safely. `others`: more types that hold values."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            shell = _Reader(archive, len(content), dict(others or {})).object(_schema(archive, len(content)), 0)
        return scikit_learn.rebuilt(nested(*flattened(scikit_learn.record(shell))))
    except Exception as error:  # missing or wrong attributes raise errors of many types
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ValueError(f"the regressor or the encoder in the file cannot be read: {reason}") from None


def _schema(archive: zipfile.ZipFile, size: int) -> Any:
    if sum(part.file_size for part in archive.infolist()) > size:
        raise ValueError("it is compressed, and aleator writes no such archives.")
    return json.loads(archive.read("schema.json"))


class _Tree:
    """The state of a tree of scikit-learn's, which only `scikit_learn.rebuilt` makes one."""

    def __init__(self, n_classes: Any, state: dict[str, Any]) -> None:
        self.max_n_classes, self._state = int(np.max(n_classes)), state

    def __getstate__(self) -> dict[str, Any]:
        return self._state


class _Unread:
    """A placeholder for an object that is not needed, such as a random number generator."""


class _Reader:
    """Turns the nodes of one archive into values."""

    def __init__(self, archive: zipfile.ZipFile, size: int, others: dict[str, type]) -> None:
        self.archive, self.size, self.others, self.nodes = archive, size, others, 0

    def object(self, node: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MOST_NODES or depth > DEEPEST:
            raise ValueError("it has too many parts.")
        loader = {
            "JsonNode": self._json, "DictNode": self._dict, "ListNode": self._list, "TupleNode": self._list,
            "NdArrayNode": self._array, "ObjectNode": self._shell, "TreeNode": self._tree,
        }.get(node["__loader__"])  # fmt: skip
        return _Unread() if loader is None else loader(node, depth + 1)

    def _json(self, node: Any, depth: int) -> Any:
        return json.loads(node["content"])

    def _dict(self, node: Any, depth: int) -> Any:
        return {str(key): self.object(each, depth) for key, each in node["content"].items()}

    def _list(self, node: Any, depth: int) -> Any:
        values = [self.object(each, depth) for each in node["content"]]
        return tuple(values) if node["__loader__"] == "TupleNode" else values

    def _array(self, node: Any, depth: int) -> Any:
        if node["type"] == "numpy":
            values = self._npy(self.archive.read(str(node["file"])))
            return values if node["__class__"] == "ndarray" else values[()]
        values = np.empty(len(node["content"]), object)
        values[:] = [self.object(each, depth) for each in node["content"]]
        return values.reshape(self.object(node["shape"], depth))

    def _npy(self, content: bytes) -> Any:
        """An array from bytes that hold all of it."""
        file = io.BytesIO(content)
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError("an array in it is of another version.")
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=10_000)
        rest = content[file.tell() :]
        if dtype.hasobject or int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize != len(rest):
            raise ValueError("an array in it is incomplete.")
        return np.frombuffer(rest, dtype).reshape(shape, order="F" if by_column else "C")

    def _shell(self, node: Any, depth: int) -> Any:
        name = str(node["__class__"])
        kind = scikit_learn.KINDS.get(name)
        holder = kind.type if kind else _HOLDERS.get(name) or self.others.get(name)
        if holder is None or not isinstance(node.get("content"), dict):
            return _Unread()
        shell = object.__new__(holder)
        for name, value in self._dict(node["content"], depth).items():
            object.__setattr__(shell, _RENAMED.get(name, name), value)
        return shell

    def _tree(self, node: Any, depth: int) -> _Tree:
        _, n_classes, _ = self.object(node["__reduce__"]["args"], depth)
        return _Tree(n_classes, self._dict(node["content"], depth))
