"""Descriptions of arrays and values in a model file, shared by the code that writes and the code that reads it.

An `Array` states dtype, shape and range; a `Value` states the type and range of a plain JSON value. Shapes may contain
names, such as ``("outputs", "features")``: a name stands for the same size wherever it occurs in one object.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int | str, ...]
Sizes = dict[str, int]

LARGEST_COUNT = 2**40  # rows, columns, nodes, ...


@dataclass(frozen=True)
class Array:
    """An array: its possible dtypes and shapes, and the range of its values, which are finite.

    With `nan` values may be missing, with `infinite` they may be infinite. Along the axis `rising`, if any, no value is
    smaller than the one before. With `positive` all are > 0. With `optional` the array may be absent. `about`: what it
    holds, for the documentation.
    """

    dtypes: tuple[str, ...]
    shapes: tuple[Shape, ...]
    low: float = -math.inf
    high: float = math.inf
    nan: bool = False
    infinite: bool = False
    optional: bool = False
    rising: int | None = None
    positive: bool = False
    about: str = ""

    def check(self, name: str, values: Any, sizes: Sizes) -> None:
        """Raise a ValueError unless `values` fit; sizes that were not known are added to `sizes`."""
        if not isinstance(values, np.ndarray) or values.dtype.str[1:] not in self.dtypes:
            got = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
            raise ValueError(f"corrupt model file: {name} must be an array of {' or '.join(self.dtypes)}, got {got}.")
        matched = [found for shape in self.shapes if (found := _match(shape, values.shape, sizes)) is not None]
        if not matched:
            expected = " or ".join(_shape_text(shape, sizes) for shape in self.shapes)
            raise ValueError(f"corrupt model file: {name} must have the shape {expected}, got {values.shape}.")
        sizes |= matched[0]
        self._check_range(name, values)

    def _check_range(self, name: str, values: NDArray[Any]) -> None:
        if values.dtype.kind == "f":
            if not self.nan and np.isnan(values).any():
                raise ValueError(f"corrupt model file: {name} contains NaN.")
            if not self.infinite and np.isinf(values).any():
                raise ValueError(f"corrupt model file: {name} contains infinite values.")
        if values.size and ((values < self.low) | (values > self.high)).any():
            raise ValueError(f"corrupt model file: {name} must lie between {self.low:g} and {self.high:g}.")
        if self.positive and not (values > 0).all():
            raise ValueError(f"corrupt model file: {name} must be > 0.")
        if self.rising is not None:
            before, after = (np.moveaxis(values, self.rising, 0)[part] for part in (slice(None, -1), slice(1, None)))
            if (before > after).any():
                raise ValueError(f"corrupt model file: {name} must rise along its axis {self.rising}.")


@dataclass(frozen=True)
class Value:
    """A plain value: its type, and its range or the values it may have."""

    type: type
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[Any, ...] = ()
    none: bool = False  # whether it may be None
    optional: bool = False
    about: str = ""

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError unless `value` fits."""
        if value is None and self.none:
            return
        if type(value) is not self.type and not (self.type is float and type(value) is int):
            raise ValueError(f"corrupt model file: {name} must be of type {self.type.__name__}, got {value!r:.80}.")
        if isinstance(value, (int, float)) and not (self.low <= value <= self.high and math.isfinite(value)):
            raise ValueError(
                f"corrupt model file: {name} must lie between {self.low:g} and {self.high:g}, got {value!r:.80}."
            )
        if self.choices and value not in self.choices:
            raise ValueError(f"corrupt model file: {name} must be one of {self.choices}, got {value!r:.80}.")


def floats(*shapes: Shape, **limits: Any) -> Array:
    """Floats of one of these shapes."""
    return Array(("f8", "f4"), shapes, **limits)


def integers(*shapes: Shape, low: float, high: float, **limits: Any) -> Array:
    """Signed integers of one of these shapes within a range."""
    return Array(("i8", "i4"), shapes, low, high, **limits)


def count(low: int = 1, **limits: Any) -> Value:
    """A number of things."""
    return Value(int, low, LARGEST_COUNT, **limits)


def check_arrays(specs: Mapping[str, Array], arrays: Mapping[str, Any], sizes: Sizes) -> None:
    """Raise a ValueError unless the arrays are those described, no more and no fewer."""
    _check_names("array", specs, arrays)
    for name, spec in specs.items():
        if name in arrays:
            spec.check(name, arrays[name], sizes)


def check_values(specs: Mapping[str, Value], values: Mapping[str, Any]) -> None:
    """Raise a ValueError unless the values are those described, no more and no fewer."""
    _check_names("value", specs, values)
    for name, spec in specs.items():
        if name in values:
            spec.check(name, values[name])


def _check_names(what: str, specs: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    missing = [name for name, spec in specs.items() if name not in found and not spec.optional]
    if missing:
        raise ValueError(f"corrupt model file: the {what} {missing[0]} is missing.")
    unknown = sorted(set(found) - set(specs))
    if unknown:
        raise ValueError(f"corrupt model file: the {what} {unknown[0]!r:.80} is not expected.")


def _match(shape: Shape, actual: tuple[int, ...], sizes: Sizes) -> Sizes | None:
    """The sizes of the names in `shape`, or None if the actual shape is another."""
    if len(shape) != len(actual):
        return None
    found = dict(sizes)
    for part, size in zip(shape, actual, strict=True):
        if (part if isinstance(part, int) else found.setdefault(part, size)) != size:
            return None
    return found


def _shape_text(shape: Shape, sizes: Sizes) -> str:
    parts = [str(sizes.get(part, part)) if isinstance(part, str) else str(part) for part in shape]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
