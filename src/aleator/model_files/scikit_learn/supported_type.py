"""Any estimator as a record and back, by its kind: `Kind` states what a type must hold, and `KINDS` lists all types."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import pipeline
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import kernels

from aleator.model_files.object_records import Record, UnstorableError, plain, restored
from aleator.model_files.schema import Array, Sizes, Value, check_arrays, check_values

MOST_FEATURES = 10_000_000
FEATURES = {"n_features_in_": Value(int, 0, MOST_FEATURES)}


@dataclass(frozen=True)
class Kind:
    """A type that can be stored.

    Attributes that are listed in `arrays`, `values`, `parts` and `lists` (of parts) are stored and restored as they
    are. `pack` adds to a record what else there is, and `finish` completes a new object from its checked record.
    """

    type: type
    arrays: Mapping[str, Array] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=lambda: FEATURES)
    parts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    pack: Callable[[Any, Record], None] | None = None
    finish: Callable[[Any, Record, Sizes], None] | None = None
    own_arrays: bool = False  # whether `pack` adds arrays, which `finish` checks
    own_values: tuple[str, ...] = ()  # that `pack` adds, and `finish` checks
    fitted: str = ""  # an attribute of fitted objects, if none of those listed is one


KINDS: dict[str, Kind] = {}  # by the names of their types; filled by the modules of this package


def add(*kinds: Kind) -> None:
    """Add types to the list."""
    KINDS.update((kind.type.__name__, kind) for kind in kinds)


def record(thing: Any) -> Record:
    """A fitted or new estimator as a record; an UnstorableError if it cannot be stored."""
    kind = KINDS.get(type(thing).__name__)
    if kind is None or kind.type is not type(thing):
        raise UnstorableError(f"a {type(thing).__name__}")
    estimator: Any = thing
    found = Record(type(thing).__name__)
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, (BaseEstimator, kernels.Kernel)):
            found.parts[f"param {name}"] = record(value)
        elif _has_estimators(value):
            found.params[name] = {"estimators": _pack_tuples(found, f"param {name}", value)}
        else:
            found.params[name] = plain(value)
    if not _is_fitted(thing, kind):
        return found
    found.values["fitted"] = True
    _pack_names(thing, found)
    for name, spec in kind.arrays.items():
        if getattr(thing, name, None) is not None or not spec.optional:
            array = np.asarray(getattr(thing, name))
            if array.flags.f_contiguous and not array.flags.c_contiguous:  # the order decides about the last bit
                found.values.setdefault("column_major", []).append(name)
            found.arrays[name] = np.asarray(array, order="C")
    for name, plain_spec in kind.values.items():
        if hasattr(thing, name) or not plain_spec.optional:
            value = getattr(thing, name)
            found.values[name] = value.item() if isinstance(value, np.generic) else value
    for name in kind.parts:
        if getattr(thing, name, None) is not None:
            found.parts[name] = record(getattr(thing, name))
    for name in kind.lists:
        found.parts |= {f"{name} {k}": record(part) for k, part in enumerate(getattr(thing, name))}
    if kind.pack:
        kind.pack(thing, found)
    return found


def rebuilt(found: Record) -> Any:
    """The object of a record; a ValueError of one line if anything in it does not fit."""
    try:
        return _rebuilt(found)
    except Exception as error:  # whatever scikit-learn may raise
        reason = (str(error).strip().splitlines() or [""])[0][:300]
        if isinstance(error, ValueError) and reason.startswith(("corrupt", "the ")):
            raise ValueError(reason) from None
        raise ValueError(f"corrupt model file: a {found.type:.80}: {reason or type(error).__name__}") from None


def _rebuilt(found: Record) -> Any:
    kind = KINDS.get(found.type)
    if kind is None:
        raise ValueError(f"corrupt model file: it holds a {found.type!r:.80}, which is not in the list of known types.")
    params = {name: _param(found, name, value) for name, value in found.params.items()}
    params |= {
        name.removeprefix("param "): rebuilt(part)
        for name, part in found.parts.items()
        if name.startswith("param ") and name.removeprefix("param ") not in params and " " not in name[6:]
    }
    thing = kind.type(**params)
    if hasattr(thing, "_parameter_constraints"):
        thing._validate_params()
    if not found.values:
        return thing
    ours = ("fitted", "feature_names_in_", "column_major", *kind.own_values)
    own = {name: value for name, value in found.values.items() if name not in ours}
    check_values(kind.values, own)
    sizes: Sizes = {"features": own["n_features_in_"]} if "n_features_in_" in own else {}
    _restore_names(thing, found)
    arrays = {name: values for name, values in found.arrays.items() if name in kind.arrays}
    if not kind.own_arrays and len(arrays) < len(found.arrays):
        raise ValueError(f"corrupt model file: unexpected arrays in a {found.type}.")
    check_arrays(kind.arrays, arrays, sizes)
    for name, array in arrays.items():
        by_column = name in found.values.get("column_major", ())
        setattr(thing, name, array[()] if array.ndim == 0 else np.asfortranarray(array) if by_column else array)
    for name, value in own.items():
        setattr(thing, name, value)
    for name in kind.parts:
        setattr(thing, name, rebuilt(found.parts[name]) if name in found.parts else None)
    for name in kind.lists:
        setattr(thing, name, [rebuilt(part) for part in found.numbered(name)])
    if kind.finish:
        kind.finish(thing, found, sizes)
    return thing


def _is_fitted(thing: Any, kind: Kind) -> bool:
    if isinstance(thing, (kernels.Kernel, pipeline.Pipeline, pipeline.FeatureUnion)):
        return False  # what they learned is in their parameters
    learned = [kind.fitted] if kind.fitted else [*kind.arrays, *kind.values, *kind.parts, *kind.lists]
    return any(name in vars(thing) for name in learned)


def _pack_names(thing: Any, found: Record) -> None:
    names = vars(thing).get("feature_names_in_")
    if names is not None:
        if not all(isinstance(name, str) for name in names):
            raise UnstorableError("names of columns that are not strings")
        found.values["feature_names_in_"] = [str(name) for name in names]


def _restore_names(thing: Any, found: Record) -> None:
    names = found.values.get("feature_names_in_")
    if names is None:
        return
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("corrupt model file: feature_names_in_ must be a list of strings.")
    if len(names) != found.values.get("n_features_in_", len(names)) or len(set(names)) != len(names):
        raise ValueError("corrupt model file: feature_names_in_ must have one name for each column.")
    thing.feature_names_in_ = np.array(names, object)


def _has_estimators(value: Any) -> bool:
    """Whether it is a list of (name, estimator) or (name, estimator, columns), as in pipelines."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(each, tuple) and len(each) in (2, 3) and isinstance(each[0], str) for each in value)
    )


def _pack_tuples(found: Record, place: str, steps: list[Any]) -> list[Any]:
    written = []
    for k, (name, thing, *columns) in enumerate(steps):
        if isinstance(thing, BaseEstimator):
            found.parts[f"{place} {k}"] = record(thing)
            written.append([name, None, *map(_pack_columns, columns)])
        elif thing is None or thing in ("drop", "passthrough"):
            written.append([name, thing or "passthrough", *map(_pack_columns, columns)])
        else:
            raise UnstorableError(f"a {type(thing).__name__}")
    return written


def _pack_columns(columns: Any) -> Any:
    return None if callable(columns) else plain(columns)  # those that were found are stored with what was learned


def _param(found: Record, name: str, value: Any) -> Any:
    if not (isinstance(value, dict) and value.keys() == {"estimators"}):
        return restored(value)
    steps = []
    for k, step in enumerate(value["estimators"]):
        if not (isinstance(step, list) and len(step) in (2, 3) and isinstance(step[0], str)):
            raise ValueError(f"corrupt model file: {name} of a {found.type} must list names and estimators.")
        part = found.parts.get(f"param {name} {k}")
        if part is None and step[1] not in ("drop", "passthrough"):
            raise ValueError(f"corrupt model file: the estimator {step[0]!r:.80} of a {found.type} is missing.")
        steps.append((step[0], step[1] if part is None else rebuilt(part), *map(restored, step[2:])))
    return steps


def demand(fine: Any, what: str) -> None:
    if not fine:
        raise ValueError(f"corrupt model file: {what}.")


def array_of(found: Record, name: str, spec: Array, sizes: Sizes | None = None) -> NDArray[Any]:
    """An array that `pack` added, checked."""
    values = found.arrays.get(name)
    demand(values is not None, f"the array {name} is missing")
    assert values is not None
    spec.check(name, values, {} if sizes is None else sizes)
    return values
