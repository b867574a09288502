"""A table of any kind as numbers: what the quantifier sees of rows that its regressor reads in a way of its own.

A pipeline may take text, categories, dates and missing values; the quantifier beside it needs numbers. Columns are told
apart by what is in them, and each kind goes through a part of scikit-learn:

| column | becomes |
| --- | --- |
| numbers, truth values, durations | themselves; where missing the median, and a column that says so |
| dates | days since 1970, and their place in the year, the week and the day, as sine and cosine |
| up to 20 different strings or categories | one column each; missing is one of them |
| more of them | the mean loss of the rows that share one, learned from other rows (`TargetEncoder`) |
| strings that hardly ever repeat: text | their words, hashed to 32 columns |

Standardisation comes later, with the network's.
"""

import datetime
import numbers
import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from sklearn.utils.validation import check_is_fitted

from aleator.estimators.fitting import FOLDS

Floats = NDArray[np.float64]

FEW = 20  # so many different values get a column each
WORDS = 32  # columns for the words of a text
MISSING = "(missing)"
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}  # in days


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns a DataFrame or an array, whatever its columns hold, into an array of finite numbers.

    `fit_transform(X, y)` takes a number for each row, the loss; a category is then encoded by what it tells about it. A
    value never seen in `fit` is no error: it is encoded as no category at all, and one warning names it.

    >>> table = pd.DataFrame({"size": [50.0, None, 80.0], "sold": ["2024-05-17"] * 3, "city": ["Ulm", "Bonn", "Ulm"]})
    >>> TableEncoder().fit_transform(table).shape  # size, its absence, seven for the date, two for the cities
    (3, 11)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the encoding of the columns of X from its rows and the loss `y` of each."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, fold: Any = None) -> Floats:
        """Learn the encoding; a row encoded by losses gets those of other rows of its kind, from other folds."""
        if _is_numeric(X):
            self.kinds_: list[str] = []
            self.parts_ = _numbers().fit(_array(X))
            return self.transform(X)
        frame = _frame(X)
        y = np.zeros(len(frame)) if y is None else np.asarray(y)
        self.kinds_ = [_kind(name, column) for name, column in frame.items()]
        table = _typed(frame, self.kinds_)
        self.parts_ = self._parts().fit(table, y)
        encoded = np.asarray(self.parts_.transform(table), np.float64)
        many = self._columns("many")
        if many:
            fold = np.arange(len(table)) % FOLDS if fold is None else np.asarray(fold)
            for k in np.unique(fold):
                part = TargetEncoder(target_type="continuous").fit(table.loc[fold != k, many], y[fold != k])
                encoded[fold == k, self.parts_.output_indices_["many"]] = part.transform(table.loc[fold == k, many])
        return encoded

    def transform(self, X: Any) -> Floats:
        """The rows as numbers (n, D)."""
        check_is_fitted(self)
        if not self.kinds_:
            values = _array(X)
            if np.isfinite(values).all() and not self.parts_.indicator_.features_.size:
                return values
            return np.asarray(self.parts_.transform(values), np.float64)
        frame = _frame(X)
        table = _typed(frame, self.kinds_)
        self._warn_of_new(table, list(frame.columns))
        return np.asarray(self.parts_.transform(table), np.float64)

    def _columns(self, *kinds: str) -> list[str]:
        return [name for k, kind in enumerate(self.kinds_) if kind in kinds for name in _names(k, kind)]

    def _parts(self) -> ColumnTransformer:
        parts = [
            ("number", _numbers(), self._columns("number", "date")),
            ("few", OneHotEncoder(handle_unknown="ignore", sparse_output=False), self._columns("few")),
            ("many", TargetEncoder(target_type="continuous"), self._columns("many")),
        ]
        words = HashingVectorizer(n_features=WORDS, token_pattern=r"(?u)\w+")
        texts = [(f"text {name}", words, name) for name in self._columns("text")]
        return ColumnTransformer([part for part in parts if part[2]] + texts, sparse_threshold=0)

    def _warn_of_new(self, table: pd.DataFrame, names: list[Any]) -> None:
        for kind in ("few", "many"):
            columns = self._columns(kind)
            known = self.parts_.named_transformers_[kind].categories_ if columns else []
            for column, values in zip(columns, known, strict=True):
                new = ~table[column].isin(values)
                if new.any():
                    warnings.warn(
                        f"column {names[int(column)]!r} has values never seen in fit, such as "
                        f"{table[column][new].iloc[0]!r}, in {int(new.sum())} of {len(table)} rows: nothing is known "
                        "of the loss there.",
                        stacklevel=2,
                    )


def _is_numeric(X: Any) -> bool:
    """Whether all columns are numbers of NumPy's; they are then taken as an array, without a look at each."""
    dtypes = X.dtypes if isinstance(X, pd.DataFrame) else [np.asarray(X).dtype]
    return all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in dtypes)


def _array(X: Any) -> Floats:
    if not isinstance(X, pd.DataFrame):
        return np.asarray(X, np.float64)
    return np.column_stack([_floats(name, column) for name, column in X.items()])


def _numbers() -> SimpleImputer:
    return SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)


def imputer(medians: Floats, missing: NDArray[np.int64]) -> SimpleImputer:
    """The part for numbers that puts these medians in, and tells where the columns `missing` were."""
    rows = np.stack([medians, medians])
    rows[1, missing] = np.nan
    return _numbers().fit(rows)


def _frame(X: Any) -> pd.DataFrame:
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X)).infer_objects()


# ---------------------------------------------------------------- kinds of columns


def _kind(name: Any, column: "pd.Series[Any]") -> str:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _kind_of_strings(column)
    if dtype.kind == "c":
        raise ValueError(f"column {name!r} holds complex numbers.")
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype) or dtype.kind == "m":
        return "number"
    if dtype.kind == "M" or isinstance(dtype, pd.PeriodDtype):
        return "date"
    present = column.dropna()
    if all(isinstance(value, numbers.Number) for value in present):
        return "number"
    if all(isinstance(value, datetime.date) for value in present) or _iso(present):
        return "date"
    try:
        return _kind_of_strings(column)
    except TypeError:
        raise ValueError(
            f"column {name!r} holds values such as {present.iloc[0]!r} that are neither numbers, dates nor text; "
            "pass an encoder of your own."
        ) from None


def _kind_of_strings(column: "pd.Series[Any]") -> str:
    distinct, present = column.nunique(), column.count()
    if distinct <= FEW:
        return "few"
    return "text" if distinct > present / 2 else "many"


def _iso(present: "pd.Series[Any]") -> bool:
    """Whether strings are dates as in 2024-05-17, perhaps with a time."""
    if not present.iloc[:20].astype(str).str.fullmatch(r"\d{4}-\d\d-\d\d([T ].*)?").all():
        return False
    return bool(pd.to_datetime(present, format="ISO8601", errors="coerce", utc=True).notna().all())


def _names(k: int, kind: str) -> list[str]:
    if kind != "date":
        return [str(k)]
    return [str(k), *(f"{k} {wave} of {cycle}" for cycle in CYCLES for wave in ("sine", "cosine"))]


def _typed(frame: pd.DataFrame, kinds: list[str]) -> pd.DataFrame:
    """The columns by number, as float64 or as strings; a date is seven numbers."""
    columns: dict[str, Any] = {}
    for k, (kind, (name, column)) in enumerate(zip(kinds, frame.items(), strict=True)):
        if kind == "number":
            columns[str(k)] = _floats(name, column)
        elif kind == "date":
            columns |= zip(_names(k, kind), _calendar(name, column), strict=True)
        else:
            columns[str(k)] = column.astype(object).where(column.notna(), MISSING).map(str).to_numpy(object)
    return pd.DataFrame(columns)


def _floats(name: Any, column: "pd.Series[Any]") -> Floats:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub" and np.isfinite(column.to_numpy()).all():
        return column.to_numpy(np.float64)
    if column.dtype.kind == "m":
        column = column.dt.total_seconds()
    try:
        values = column.astype(object).where(column.notna(), np.nan).to_numpy(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} held numbers in fit, and now does not: dtype {column.dtype}.") from None
    if np.isinf(values).any():
        raise ValueError(f"column {name!r} of X is infinite in row {int(np.argmax(np.isinf(values)))}.")
    return values


def _calendar(name: Any, column: "pd.Series[Any]") -> list[Floats]:
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    moment = pd.to_datetime(column, format=None if column.dtype.kind == "M" else "ISO8601", errors="coerce", utc=True)
    unread = moment.isna() & column.notna()
    if unread.any():
        warnings.warn(
            f"column {name!r} held dates in fit, and {column[unread].iloc[0]!r} is none: taken as missing, in "
            f"{int(unread.sum())} of {len(column)} rows.",
            stacklevel=2,
        )
    days = ((moment - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(np.float64)
    turns = [2 * np.pi * days / length for length in CYCLES.values()]
    return [days, *(wave(turn) for turn in turns for wave in (np.sin, np.cos))]
