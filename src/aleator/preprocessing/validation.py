"""Checks of X, y, weights and groups, with errors that name what is wrong and where."""

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_array, column_or_1d, validate_data

from aleator.array_types import AnyFloats, Floats

_NO_TARGET = object()  # in place of y: the rows are new ones for a fitted model


def training_rows(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, *, reset: bool = True
) -> tuple[AnyFloats, Floats, Floats | None]:
    """X (n, D) contiguous, y (n,) or (n, M) and weights or None, all finite."""
    _refuse_text(estimator, X)
    _refuse_reordered(estimator, X, reset)
    _refuse_text_target(y)
    y = _target_array(y)
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
    return X, y, weights_of_rows(sample_weight, len(y))


def weights_of_rows(sample_weight: Any, n_rows: int) -> Floats | None:
    """Weights (n,), finite and not negative, at least two of them positive; None if there are none."""
    if sample_weight is None:
        return None
    rows = np.empty((n_rows, 0))
    weight: Floats = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    if np.count_nonzero(weight) < 2:
        raise ValueError("sample_weight is zero for all rows but at most one; nothing is left to learn from.")
    return weight


def any_rows(
    estimator: BaseEstimator, X: Any, y: Any = _NO_TARGET, *, general: bool, at_least: int = 1
) -> tuple[Any, int]:
    """A table that someone else will read, and its number of rows: frames as they are, anything else as an array.

    With `general`, X may be whatever has rows. Without y the columns must be those of `fit`.
    """
    reset = y is not _NO_TARGET
    if reset:  # those of an earlier fit
        for name in ("feature_names_in_", "n_features_in_"):
            estimator.__dict__.pop(name, None)
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
    if n_rows < at_least:
        raise ValueError(
            f"X has too few rows: Found array with {n_rows} sample(s) (shape={np.shape(X)}) while a minimum of "
            f"{at_least} is required."
        )
    return X, n_rows


def as_pandas(X: Any) -> Any:
    """A polars frame as a pandas frame, column by column; anything else as it is."""
    if type(X).__module__.partition(".")[0] != "polars":
        return X
    if hasattr(X, "collect"):
        raise TypeError("X is a lazy frame: call .collect() first.")
    return pd.DataFrame({name: _pandas_column(X[name]) for name in X.columns}) if hasattr(X, "columns") else X


def _pandas_column(column: Any) -> Any:
    dtype = str(column.dtype)
    if (column.dtype.is_numeric() and not dtype.startswith("Decimal")) or dtype == "Boolean":
        values = column.to_numpy()
        return (
            values
            if not column.null_count()
            else pd.Series(column.to_list(), dtype="boolean" if dtype == "Boolean" else "float64")
        )
    values = column.to_list()
    if dtype == "Date" or dtype.startswith("Datetime"):
        return pd.to_datetime(pd.Series(values, dtype=object))
    if dtype.startswith("Duration"):
        return pd.to_timedelta(pd.Series(values, dtype=object))
    if dtype.startswith("Decimal"):
        return pd.Series(values, dtype="float64")
    if dtype.startswith(("Categorical", "Enum")):
        return pd.Series(values, dtype="category")
    return pd.Series(values, dtype=object)


def _is_object(X: Any) -> bool:
    return getattr(X, "dtype", None) == np.dtype(object) or np.asarray(X).dtype.kind in "OUS"


def targets(y: Any, n_rows: int) -> Floats:
    """Y (n,) or (n, M), finite numbers, one for each of the rows."""
    _refuse_text_target(y)
    y = _target_array(y)
    with _Located(None, y):
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
    if y.ndim != 1 and (y.ndim != 2 or y.shape[1] == 0):
        raise ValueError(f"y must be of shape (n,) or (n, m), got {y.shape}.")
    if len(y) != n_rows:
        raise ValueError(f"y has {len(y)} rows, X has {n_rows}.")
    return np.ascontiguousarray(y)


def _target_array(y: Any) -> Any:
    """Targets of frames and series as arrays; a frame of one column is that column, however it was cut out."""
    y = as_pandas(y)
    if isinstance(y, pd.DataFrame):  # as an array, since names of outputs may repeat
        return y.iloc[:, 0].to_numpy() if y.shape[1] == 1 else y.to_numpy()
    return y.to_numpy() if isinstance(y, pd.Series) else y


def groups_of_rows(groups: Any, n_rows: int) -> NDArray[Any]:
    """The group of each row, any value a group."""
    groups = column_or_1d(groups)
    if len(groups) != n_rows:
        raise ValueError(f"groups has {len(groups)} values, X has {n_rows} rows.")
    return np.asarray(pd.factorize(groups, use_na_sentinel=False)[0])


def regressor_predictions(regressor: Any, X: Any, n_rows: int, n_outputs: int) -> Floats:
    """The predictions (n, M) of an object with `predict`, or of a function; an error names what is wrong with them."""
    predict = regressor.predict if hasattr(regressor, "predict") else regressor
    found = predict(X)
    found = found.detach().cpu().numpy() if hasattr(found, "detach") else found  # a torch tensor
    name = type(regressor).__name__
    try:
        values = np.asarray(found, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the predictions of {name} are not numbers: {type(found).__name__}.") from None
    if values.ndim == 0 or len(values) != n_rows:
        got = "a single number" if values.ndim == 0 else f"{len(values)} values"
        raise ValueError(f"{name} must predict one value for each of the {n_rows} rows, and gives {got}.")
    if values.size != n_rows * n_outputs:
        raise ValueError(f"{name} predicts an array of shape {values.shape} where y has {n_outputs} output(s).")
    values = values.reshape(n_rows, n_outputs)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(f"the prediction of {name} for row {row} is {values[row, column]}.")
    return values


def columns(y: Floats) -> Floats:
    """(n,) as (n, 1)."""
    return y.reshape(len(y), -1)


def new_rows(estimator: BaseEstimator, X: Any) -> AnyFloats:
    """X (n, D) contiguous and finite, with the columns seen in fit."""
    _refuse_text(estimator, X)
    _refuse_reordered(estimator, X, reset=False)
    with _Located(X, None, _way_out(estimator)):
        rows: AnyFloats = validate_data(estimator, X, reset=False, dtype=[np.float64, np.float32], order="C")
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
    return f"{type(estimator).__name__}(encoder='auto') takes text, categories, dates and missing values."


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
