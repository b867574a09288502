"""Objects as records: type, parameters and fitted values, as plain values and arrays.

A record of an estimator of scikit-learn's becomes JSON and named arrays (`flattened`), and is read back from them
(`nested`). This file knows no estimator; `scikit_learn/` lists them, and what each must hold.
"""

from collections import UserList
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Facts = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

DEEPEST = 20  # objects within objects
MOST_OBJECTS = 100_000


@dataclass
class Record:
    """One object: the name of its type, parameters, learned values and arrays, and the objects it is made of."""

    type: str
    params: Facts = field(default_factory=dict)
    values: Facts = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    parts: "dict[str, Record]" = field(default_factory=dict)

    def numbered(self, name: str) -> "list[Record]":
        """The parts `name 0`, `name 1`, ..."""
        return [self.parts[f"{name} {k}"] for k in range(sum(part.rpartition(" ")[0] == name for part in self.parts))]


def flattened(record: Record) -> tuple[Facts, Arrays]:
    """JSON and named arrays; the arrays of a part are named after it."""
    parts, arrays = {}, dict(record.arrays)
    for name, part in record.parts.items():
        parts[name], own = flattened(part)
        arrays |= {f"{name}/{array}": values for array, values in own.items()}
    return {"type": record.type, "params": record.params, "values": record.values, "parts": parts}, arrays


def nested(facts: Any, arrays: Mapping[str, NDArray[Any]]) -> Record:
    """The inverse of `flattened`; a ValueError if the JSON has another form."""
    places: dict[str, Record] = {}
    for count, (place, each) in enumerate(_objects(facts, "", 0)):
        if count >= MOST_OBJECTS:
            raise ValueError(f"corrupt model file: it has more than {MOST_OBJECTS:,} objects.")
        record = places[place] = Record(each["type"], each["params"], each["values"])
        if place:
            parent, _, name = place.rpartition("/")
            places[parent].parts[name] = record
    for name, values in arrays.items():
        place, _, own = name.rpartition("/")
        if place not in places:
            raise ValueError(f"corrupt model file: the array {name!r:.80} belongs to no object.")
        places[place].arrays[own] = values
    return places[""]


def _objects(facts: Any, place: str, depth: int) -> Iterator[tuple[str, Facts]]:
    """Each object with its place, parents first."""
    if depth > DEEPEST:
        raise ValueError(f"corrupt model file: objects are nested more than {DEEPEST} times.")
    if not isinstance(facts, dict) or facts.keys() != {"type", "params", "values", "parts"}:
        raise ValueError("corrupt model file: an object needs type, params, values and parts.")
    if not isinstance(facts["type"], str) or not all(
        isinstance(facts[name], dict) for name in ("params", "values", "parts")
    ):
        raise ValueError("corrupt model file: type, params, values or parts of an object are of the wrong kind.")
    yield place, facts
    for name, part in facts["parts"].items():
        if not name or "/" in name:
            raise ValueError(f"corrupt model file: {name!r:.80} is not the name of a part.")
        yield from _objects(part, f"{place}/{name}" if place else name, depth + 1)


# ---------------------------------------------------------------- parameters and categories as JSON


FUNCTIONS = {
    f"numpy.{function.__name__}": function
    for function in (
        np.abs, np.arcsinh, np.cbrt, np.cos, np.exp, np.expm1, np.log, np.log10, np.log1p, np.log2, np.negative,
        np.reciprocal, np.sin, np.sinh, np.sqrt, np.square, np.tanh,
    )
}  # fmt: skip
_DTYPES = {str(np.dtype(each)): each for each in (np.float64, np.float32, np.int64, np.int32, np.bool_)}
_NAMES = {id(each): name for name, each in _DTYPES.items()} | {id(float): "float", id(int): "int", id(bool): "bool"}
_TYPES = {**_DTYPES, "float": float, "int": int, "bool": bool}


class UnstorableError(ValueError):
    """A model file cannot hold this object."""


def plain(value: Any) -> Any:
    """A parameter as JSON: numbers, strings, lists, dtypes and functions of NumPy's that are listed here."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if np.isfinite(number) else {"float": str(number)}
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, (list, UserList)):  # scikit-learn 1.6 keeps columns in one that warns when it is read
        return [plain(each) for each in getattr(value, "data", value)]
    if isinstance(value, tuple):
        return {"tuple": [plain(each) for each in value]}
    if isinstance(value, slice):
        return {"slice": [plain(value.start), plain(value.stop), plain(value.step)]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: plain(each) for key, each in value.items()}}
    if isinstance(value, np.ndarray) and value.ndim <= 2:
        if value.dtype.kind in "OU":
            return {"objects": [plain(each) for each in value.ravel()], "shape": list(value.shape)}
        if str(value.dtype) in _DTYPES:
            return {"array": plain(value.ravel().tolist()), "shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, np.dtype) and str(value) in _DTYPES:
        return {"dtype": str(value)}
    if isinstance(value, type) and id(value) in _NAMES:
        return {"type": _NAMES[id(value)]}
    for name, function in FUNCTIONS.items():
        if value is function:
            return {"function": name}
    raise UnstorableError(f"a value of type {type(value).__name__}")


def restored(value: Any) -> Any:
    """The inverse of `plain`; a ValueError for any other JSON."""
    if isinstance(value, list):
        return [restored(each) for each in value]
    if not isinstance(value, dict):
        return value
    try:
        return _restored(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"corrupt model file: {value!r:.80} is not a value.") from error


def _restored(value: Facts) -> Any:
    match value:
        case {"float": "nan" | "inf" | "-inf" as text, **others} if not others:
            return float(text)
        case {"tuple": list(items), **others} if not others:
            return tuple(restored(each) for each in items)
        case {"slice": [start, stop, step], **others} if not others:
            return slice(*(None if part is None else int(part) for part in (start, stop, step)))
        case {"dict": dict(items), **others} if not others:
            return {key: restored(each) for key, each in items.items()}
        case {"objects": list(items), "shape": list(shape), **others} if not others:
            objects = np.empty(len(items), object)
            objects[:] = [restored(each) for each in items]
            return objects.reshape(shape)
        case {"array": list(items), "shape": list(shape), "dtype": str(dtype), **others} if not others:
            return np.array(restored(items), _DTYPES[dtype]).reshape(shape)
        case {"dtype": str(name), **others} if not others:
            return np.dtype(_DTYPES[name])
        case {"type": str(name), **others} if not others:
            return _TYPES[name]
        case {"function": str(name), **others} if not others:
            return FUNCTIONS[name]
    raise ValueError("unknown form")
