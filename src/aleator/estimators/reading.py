"""Reading what users pass in, with errors that say what is wrong and where."""

import datetime
import math
import numbers
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_array, column_or_1d, validate_data

from aleator.engine import ACTIVATIONS, OPTIMIZERS
from aleator.estimators.table import SCALINGS
from aleator.names import suggestion

Floats = NDArray[np.float64]
Rule = tuple[Callable[[Any], bool], str]


def number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def whole(value: Any, least: int) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def _flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def _units(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(whole(units, 1) for units in value)


def _prior(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(number(v) and v > 0 for v in value)


_AGAIN = object()  # in place of a y: the rows are new ones for a fitted model

# What each parameter must be. An estimator is checked against the rules for the parameters it has.
RULES: dict[str, Rule] = {
    "lam": (lambda v: v == "auto" or callable(v) or (number(v) and v > 0),
            "'auto', a positive number or a function of the epoch"),
    "hidden": (_units, "a tuple of positive whole numbers, one for each hidden layer"),
    "shared_layers": (lambda v: whole(v, 0), "a whole number >= 0"),
    "dropout": (lambda v: number(v) and 0 <= v < 1, "a number in [0, 1)"),
    "learning_rate": (lambda v: callable(v) or (number(v) and v > 0), "a positive number or a function of the epoch"),
    "momentum": (lambda v: number(v) and 0 <= v < 1, "a number in [0, 1)"),
    "l2": (lambda v: number(v) and v >= 0, "a number >= 0"),
    "clip": (lambda v: v is None or (number(v) and v > 0), "a positive number or None"),
    "epochs": (lambda v: v is None or whole(v, 1), "a whole number >= 1 or None"),
    "batch_size": (lambda v: whole(v, 1), "a whole number >= 1"),
    "validation_fraction": (lambda v: number(v) and 0 < v < 1, "a number strictly between 0 and 1"),
    "patience": (lambda v: whole(v, 1), "a whole number >= 1"),
    "per_output": (_flag, "True or False"),
    "early_stopping": (_flag, "True or False"),
    "rescale": (_flag, "True or False"),
    "verbose": (_flag, "True or False"),
    "n_members": (lambda v: whole(v, 1), "a whole number >= 1"),
    "rounds": (lambda v: whole(v, 1), "a whole number >= 1"),
    "use_prediction": (_flag, "True or False"),
    "beta": (lambda v: number(v) and 0 <= v <= 1, "a number in [0, 1]"),
    "n_passes": (lambda v: whole(v, 1), "a whole number >= 1"),
    "length_scale": (lambda v: number(v) and v > 0, "a positive number"),
    "n_particles": (lambda v: whole(v, 1), "a whole number >= 1"),
    "iterations": (lambda v: whole(v, 1), "a whole number >= 1"),
    "decay": (lambda v: number(v) and 0 <= v < 1, "a number in [0, 1)"),
    "fudge": (lambda v: number(v) and v > 0, "a positive number"),
    "held_out": (lambda v: number(v) and 0 <= v < 1, "a number in [0, 1)"),
    "shuffle": (_flag, "True or False"),
    "prior": (_prior, "a tuple of two positive numbers, shape and rate"),
    "n_jobs": (lambda v: v is None or (whole(abs(v), 1) if isinstance(v, numbers.Integral) else False),
               "a whole number other than 0, or None"),
}  # fmt: skip
NAMES: dict[str, Iterable[str]] = {
    "activation": ACTIVATIONS,
    "optimizer": OPTIMIZERS,
    "scaling": SCALINGS,
    "noise": ("held-out", "formula"),
}


def check_parameters(estimator: BaseEstimator) -> None:
    params = estimator.get_params(deep=False)
    for name, (fine, text) in RULES.items():
        by_default = getattr(type(estimator), name, None)
        if name in params and params[name] is not by_default and not fine(params[name]):
            or_none = " or None" if by_default is None and not text.endswith("None") else ""
            raise ValueError(f"{name} must be {text}{or_none}, got {params[name]!r}.")
    for name, known in NAMES.items():
        if name in params and not (isinstance(params[name], str) and params[name] in known):
            raise ValueError(f"unknown {name} {params[name]!r}{suggestion(str(params[name]), known)}")
    if "shared_layers" in params and params["shared_layers"] > len(params["hidden"]):
        raise ValueError(
            f"shared_layers must be at most the number of hidden layers, {len(params['hidden'])}, "
            f"got {params['shared_layers']}."
        )


def schedule(name: str, value: Any, epochs: int) -> Floats:
    """A number, or a function of the epoch counted from 0, as one positive value for each epoch."""
    if not callable(value):
        return np.full(epochs, float(value))
    values = np.empty(epochs)
    for epoch in range(epochs):
        try:
            at_epoch = value(epoch)
        except (TypeError, ArithmeticError) as error:
            raise ValueError(f"{name} must be a function of the epoch, but {name}({epoch}) raises: {error}.") from error
        if not (number(at_epoch) and at_epoch > 0):
            raise ValueError(f"{name} must be positive at every epoch, but {name}({epoch}) is {at_epoch!r}.")
        values[epoch] = at_epoch
    return values


def increasing(name: str, values: Any) -> list[int]:
    """Whole numbers from 1 on, each larger than the one before."""
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not found or not all(whole(v, 1) for v in found) or any(b <= a for a, b in pairwise(found)):
        raise ValueError(f"{name} must be increasing whole numbers >= 1, got {values!r}.")
    return [int(v) for v in found]


def training_rows(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, *, reset: bool = True
) -> tuple[NDArray[np.floating], Floats, Floats | None]:
    """X (n, D) contiguous, y (n,) or (n, M) and weights or None, all finite."""
    _refuse_text(estimator, X)
    _refuse_reordered(estimator, X, reset)
    _refuse_text_target(y)
    y = y.to_numpy() if isinstance(y, pd.DataFrame) else y  # names of outputs may repeat
    with _Located(X, y, _way_out(estimator)):
        X, y = validate_data(
            estimator,
            X,
            y,
            reset=reset,
            dtype=[np.float64, np.float32],
            order="C",
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2 if reset else 1,
        )
    y = np.ascontiguousarray(y, np.float64)
    if not np.isfinite(y).all():  # None among objects passes as a number until here
        raise ValueError(f"Input y contains NaN. The first is in y at {_first_not_finite(y)}.")
    if y.size == 0:
        raise ValueError(f"y has no columns: its shape is {y.shape}.")
    if sample_weight is None:
        return X, y, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if np.count_nonzero(weight) < 2:
        raise ValueError("sample_weight is zero for all rows but at most one; nothing is left to learn from.")
    return X, y, weight


def any_rows(estimator: BaseEstimator, X: Any, y: Any = _AGAIN, *, general: bool) -> tuple[Any, int]:
    """A table that someone else will read, and its number of rows: frames as they are, anything else as an array.

    With `general`, X may be whatever has rows. Without y the columns must be those of `fit`.
    """
    reset = y is not _AGAIN
    _refuse_reordered(estimator, X, reset)
    if isinstance(X, pd.DataFrame):
        twice = X.columns[X.columns.duplicated()]
        if len(twice):
            raise ValueError(f"column {twice[0]!r} appears twice; columns need names of their own.")
        if not len(X.columns):
            raise ValueError(f"X has no columns: its shape is {X.shape}.")
    elif not general:
        if isinstance(X, (list, tuple)) and _is_object(X):  # rows of numbers and text: not all text
            X = np.array(X, dtype=object)
        finite: Any = False if _is_object(X) else "allow-nan"  # missing values are for the regressor to refuse
        with _Located(X, None):
            X = check_array(X, dtype=None, ensure_all_finite=finite, estimator=estimator, input_name="X")
    if not general or isinstance(X, pd.DataFrame):
        validate_data(estimator, X, y if reset else "no_validation", reset=reset, skip_check_array=True)
    n_rows = _num_samples(X)
    if n_rows < 1:
        raise ValueError(
            f"X has no rows: Found array with 0 sample(s) (shape={np.shape(X)}) while a minimum of 1 is required."
        )
    return X, n_rows


def _is_object(X: Any) -> bool:
    return getattr(X, "dtype", None) == np.dtype(object) or np.asarray(X).dtype.kind in "OUS"


def targets(y: Any, n_rows: int) -> Floats:
    """Y (n,) or (n, M), finite numbers, one for each of the rows."""
    _refuse_text_target(y)
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:  # a column is a column, however it was cut out
        y = y.iloc[:, 0]
    y = y.to_numpy() if isinstance(y, (pd.DataFrame, pd.Series)) else y
    with _Located(None, y):
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
    if y.ndim != 1 and (y.ndim != 2 or y.shape[1] == 0):
        raise ValueError(f"y must be of shape (n,) or (n, m), got {y.shape}.")
    if len(y) != n_rows:
        raise ValueError(f"y has {len(y)} rows, X has {n_rows}.")
    return np.ascontiguousarray(y)


def groups_of_rows(groups: Any, n_rows: int) -> NDArray[Any]:
    """The group of each row, any value a group."""
    groups = column_or_1d(groups)
    if len(groups) != n_rows:
        raise ValueError(f"groups has {len(groups)} values, X has {n_rows} rows.")
    return np.asarray(pd.factorize(groups, use_na_sentinel=False)[0])


def columns(y: Floats) -> Floats:
    """(n,) as (n, 1)."""
    return y.reshape(len(y), -1)


def new_rows(estimator: BaseEstimator, X: Any) -> NDArray[np.floating]:
    """X (n, D) contiguous and finite, with the columns seen in fit."""
    _refuse_text(estimator, X)
    _refuse_reordered(estimator, X, reset=False)
    with _Located(X, None, _way_out(estimator)):
        rows: NDArray[np.floating] = validate_data(estimator, X, reset=False, dtype=[np.float64, np.float32], order="C")
    return rows


def _refuse_text_target(y: Any) -> None:
    kinds = {np.dtype(d).kind if isinstance(d, np.dtype) else "" for d in _dtypes(y)}
    if kinds & set("mMUS"):
        raise ValueError("y must be numbers, and it holds text or dates.")


def _dtypes(y: Any) -> list[Any]:
    if isinstance(y, pd.DataFrame):
        return list(y.dtypes)
    return [y.dtype] if hasattr(y, "dtype") else []


def _way_out(estimator: Any) -> str | None:
    """What to do with a table of more than numbers, for estimators that could have an encoder and have none."""
    if estimator.get_params(deep=False).get("encoder", "no such parameter") is not None:
        return None
    return f"{type(estimator).__name__}(encoder=TableEncoder()) takes text, categories, dates and missing values."


def _refuse_text(estimator: Any, X: Any) -> None:
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(f"X must be numbers, and it holds dates ({X.dtype}); turn them into days since a day.")
    if isinstance(X, np.ndarray) and X.dtype.kind in "OU" and X.ndim == 2 and any(isinstance(v, str) for v in X.flat):
        X = pd.DataFrame(X)
    if not isinstance(X, pd.DataFrame):
        return
    twice = X.columns[X.columns.duplicated()]
    if len(twice):
        raise ValueError(f"column {twice[0]!r} appears twice; columns need names of their own.")
    for name, column in X.items():
        if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            continue
        try:
            if column.dtype.kind in "mM":
                raise TypeError("dates are numbers only by accident")
            np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):
            known = column.dropna()
            example = next((value for value in known if not _is_number(value)), None)
            by_hand = "Turn it into numbers: OneHotEncoder(sparse_output=False) for categories, days for dates."
            raise ValueError(
                f"column {name!r} is not numeric (dtype {column.dtype}, for example {example!r}). "
                f"{_way_out(estimator) or by_hand}"
            ) from None


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, (datetime.date, datetime.timedelta)) and math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def _refuse_reordered(estimator: Any, X: Any, reset: bool) -> None:
    """scikit-learn's own message does not say which column is out of place."""
    seen = getattr(estimator, "feature_names_in_", None)
    if reset or seen is None or not isinstance(X, pd.DataFrame):
        return
    given = list(X.columns)
    if given != list(seen) and sorted(map(str, given)) == sorted(map(str, seen)):
        k = next(k for k, (a, b) in enumerate(zip(given, seen, strict=True)) if a != b)
        raise ValueError(
            "The feature names should match those that were passed during fit.\n"
            "Feature names must be in the same order as they were in fit.\n"
            f"Column {k} is {given[k]!r} here and was {seen[k]!r} in fit."
        )


class _Located:
    """Adds the first place of a NaN or an infinity to scikit-learn's message, and for a NaN in X our way out of it."""

    def __init__(self, X: Any, y: Any, way_out: str | None = None) -> None:
        self.tables, self.way_out = {"X": X, "y": y}, way_out

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        text = str(error)
        if kind is None or not issubclass(kind, ValueError) or not ("NaN" in text or "infinity" in text):
            return
        name = "y" if "Input y" in text else "X"
        place = _first_not_finite(self.tables[name])
        if place:
            first, *rest = text.splitlines()
            if name == "X" and "NaN" in first and self.way_out:
                rest = [self.way_out]
            raise ValueError("\n".join([f"{first} The first is in {name} at {place}.", *rest])) from None


def _first_not_finite(table: Any) -> str | None:
    try:
        values = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    bad = np.argwhere(~np.isfinite(values.reshape(len(values), -1)))
    if not len(bad):
        return None
    row, column = bad[0]
    if values.ndim == 1:
        return f"row {row}"
    return (
        f"row {row}, column {table.columns[column]!r}" if hasattr(table, "columns") else f"row {row}, column {column}"
    )
