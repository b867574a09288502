"""A table of any kind as numbers: for a quantifier beside a regressor with a way of its own, or for both in a pair.

A pipeline may take text, categories, dates and missing values; networks need numbers. The kind of a
column follows from its values:

| column | becomes |
| --- | --- |
| numbers, truth values, durations | themselves; where missing the median, and a column that says so |
| dates | days since 1970, and their place in the year, the week and the day, as sine and cosine |
| up to 20 different strings or categories | one column each; missing is one of them |
| more of them | the mean of y, target or loss, over other rows that share one (`TargetEncoder`) |
| strings that hardly ever repeat: text | their words, hashed to 32 columns |
| strings of which not even words repeat: identifiers | nothing: there is nothing to learn from them |

Categories of fewer than ten rows (`outliers.rare`; fewer in small tables) are merged: they share one column, "other",
if together they have ten, and else have none. A column of gaps is added from ten gaps on.

A cell far beyond all others of its column, such as -999 or a number in a wrong unit, counts as missing
(`outliers.plausible_cells`).

Standardisation comes later, with the network's.
"""

import datetime
import numbers
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import FunctionTransformer, TargetEncoder
from sklearn.utils.validation import check_is_fitted

from aleator.preprocessing import outliers, splits

Floats = NDArray[np.float64]

FEW = 20  # so many different values get a column each,
OTHERS = 0.1  # if at most this share of the rows has one that is too rare to count
WORDS = 32  # columns for the words of a text
READ = 20_000  # texts at most, to find out whether their words repeat
WORD = r"(?u)\w+"
KINDS = {"number", "date", "few", "many", "text", "id"}  # of columns
MISSING = "(missing)"
WAVE_DIGITS = 9  # so that all Mondays are the same to a tree, and not apart in their last digits
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}  # in days


@dataclass(frozen=True, eq=False)
class CategoryMeans:
    """The mean of y in each category of a column of many, in the order of the categories, and for a new one."""

    by_category: Floats
    otherwise: float

    def of(self, codes: NDArray[np.int64]) -> Floats:
        """By the place of each value among the categories, -1 for a new one."""
        return np.append(self.by_category, self.otherwise)[codes]


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encodes a table of any kind as an array of finite numbers.

    Numbers stay as they are, and missing ones become the median. Dates become days and their place in year, week and
    day. Up to 20 categories have a column each; more are replaced by the mean of y over other rows of the same
    category. Text is hashed by words. Identifiers are ignored. A value that was not seen in `fit` is encoded as
    "other", with a warning.

    Attributes
    ----------
    kinds_ : list of str
        The kind of each column: "number", "date", "few", "many", "text" or "id"; empty for a numeric array.
    medians_ : ndarray
        Medians of the numbers; a date has seven.
    missing_ : ndarray of int
        Numbers that have an indicator of missing cells.
    plausible_ : ndarray of shape (2, d)
        Range of plausible numbers; cells beyond count as missing. Infinite where all cells of `fit` were plausible.
    categories_ : dict
        The categories of each column of categories.
    category_means_ : dict
        The mean of y in each category, for columns of many categories.
    columns_ : dict
        For columns of few categories, the output column of each category, and last that of a new one; -1 for none.

    See Also
    --------
    LossQuantifier : Uses it by default for the inputs of the quantifier.

    Examples
    --------
    >>> import pandas as pd
    >>> from aleator import TableEncoder
    >>> table = pd.DataFrame({"size": [50.0, None, 80.0], "sold": ["2024-05-17"] * 3, "city": ["Ulm", "Bonn", "Ulm"]})
    >>> TableEncoder().fit_transform(table).shape  # size, its absence, seven for the date, two for the cities
    (3, 11)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the encoding.

        Parameters
        ----------
        X : table of shape (n, d)
            A frame or an array.
        y : array-like of shape (n,), default=None
            A number for each row, the target or a loss, by which many categories are encoded.

        Returns
        -------
        TableEncoder
            The fitted encoder.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, fold: Any = None) -> Floats:
        """Learn the encoding and encode the rows.

        Parameters
        ----------
        X : table of shape (n, d)
            A frame or an array.
        y : array-like of shape (n,), default=None
            A number for each row. A category is encoded by the mean of y over rows of other folds.
        fold : array-like of shape (n,), default=None
            Folds of the rows. None makes five from the content of the rows.

        Returns
        -------
        ndarray of shape (n, D)
            The encoded rows.
        """
        self.kinds_: list[str] = []
        self.categories_: dict[str, list[str]] = {}
        self.category_means_: dict[str, CategoryMeans] = {}
        self.columns_: dict[str, NDArray[np.int64]] = {}
        if _is_numeric(X):
            self._learn_numbers(_array(X))
            return self.transform(X)
        frame = _frame(X)
        y = np.zeros(len(frame)) if y is None else np.asarray(y, np.float64)
        y = np.clip(y, *outliers.plausible_range(y, np.ones(len(y))))
        self.kinds_ = [_kind(name, column) for name, column in frame.items()]
        table = _typed(frame, self.kinds_)
        self._learn_numbers(_matrix(table, self._columns("number", "date")))
        self.categories_ = {name: sorted(table[name].unique()) for name in self._columns("few", "many")}
        self.columns_ = {name: self._learn_columns(table, name) for name in self._columns("few")}
        self.category_means_ = self._learn_category_means(table, y)
        fold = _folds(table, y) if fold is None else np.asarray(fold)
        many = np.empty((len(table), len(self.category_means_)))
        for k in np.unique(fold) if self.category_means_ else []:
            many[fold == k] = self._many(table[fold == k], self._learn_category_means(table[fold != k], y[fold != k]))
        return self._encoded(table, many)

    def transform(self, X: Any) -> Floats:
        """Encode rows.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n, D)
            The encoded rows.
        """
        check_is_fitted(self)
        if not self.kinds_:
            return self._numbers(_array(X))
        table = self._read(X)
        for name, (count, example) in self._unseen(table, X).items():
            warnings.warn(
                f"column {name!r} has values never seen in fit, such as {example!r}, in {count} of {len(table)} rows: "
                "nothing is known of the loss there.",
                stacklevel=2,
            )
        return self._encoded(table, self._many(table, self.category_means_))

    def unseen(self, X: Any) -> dict[Any, tuple[int, str]]:
        """Find columns with categories that were not seen in `fit`.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows with the columns of `fit`.

        Returns
        -------
        dict
            For each such column, the number of rows and an example.
        """
        check_is_fitted(self)
        return self._unseen(self._read(X), X) if self.kinds_ else {}

    @property
    def width(self) -> int:
        """How many numbers a row becomes."""
        few = sum(_n_columns(columns) for columns in self._columns_set().values())
        texts = WORDS * len(self._columns("text"))
        return len(self.medians_) + len(self.missing_) + few + len(self.category_means_) + texts

    def _read(self, X: Any) -> pd.DataFrame:
        frame = _frame(X)
        if frame.shape[1] != len(self.kinds_):
            raise ValueError(f"X has {frame.shape[1]} columns, and in fit it had {len(self.kinds_)}.")
        return _typed(frame, self.kinds_)

    def _columns(self, *kinds: str) -> list[str]:
        return [name for k, kind in enumerate(self.kinds_) if kind in kinds for name in _names(k, kind)]

    # ------------------------------------------------------------ what is learned

    def _learn_numbers(self, values: Floats) -> None:
        waves = [" " in name for name in self._columns("number", "date")] or [False] * values.shape[1]
        self.plausible_: Floats = np.tile([[-np.inf], [np.inf]], values.shape[1])
        for k in np.flatnonzero(~np.array(waves, bool)):
            self.plausible_[:, k] = outliers.plausible_cells(values[~np.isnan(values[:, k]), k])
        values, gaps = self._masked(values)
        n_gaps = gaps.sum(axis=0)
        self.missing_ = np.flatnonzero((n_gaps > 0) & (n_gaps >= outliers.rare(len(values))))
        filled = np.where(gaps.all(axis=0), 0.0, values)  # a column of gaps only is 0
        self.medians_: Floats = np.nanmedian(filled, axis=0) if values.shape[1] else np.empty(0)

    def _learn_columns(self, table: pd.DataFrame, name: str) -> NDArray[np.int64]:
        """The column of each category, and of a new one: its own, that of all rare ones, or none."""
        counts = np.bincount(self._codes(table, name), minlength=len(self.categories_[name]))
        least = outliers.rare(len(table))
        rare = counts < least
        other = -1 if counts[rare].sum() < least or not rare.any() else int((~rare).sum())
        return np.append(np.where(rare, other, np.cumsum(~rare) - 1), other).astype(np.int64)

    def _columns_set(self) -> dict[str, NDArray[np.int64]]:
        """`columns_`; encoders from before rare categories were merged have a column for each."""
        if not hasattr(self, "columns_"):
            sizes = {name: len(self.categories_[name]) for name in self._columns("few")}
            self.columns_ = {name: np.append(np.arange(size), -1) for name, size in sizes.items()}
        return self.columns_

    def _plausible_set(self) -> Floats:
        """`plausible_`; for encoders from before there were any, all numbers are."""
        if not hasattr(self, "plausible_"):
            self.plausible_ = np.tile([[-np.inf], [np.inf]], len(self.medians_))
        return self.plausible_

    def _learn_category_means(self, table: pd.DataFrame, y: Floats) -> dict[str, CategoryMeans]:
        """The mean of y over the rows of each category, drawn towards the mean of all where they are few."""
        names = self._columns("many")
        if not names:
            return {}
        known = [np.array(self.categories_[name], object) for name in names]
        part = TargetEncoder(categories=known, target_type="continuous").fit(table[names], y)
        mean = float(part.target_mean_)
        found = {}
        for name, values in zip(names, part.encodings_, strict=True):
            counts = np.bincount(self._codes(table, name), minlength=len(values))
            found[name] = CategoryMeans(mean + counts / (counts + 1) * (values - mean), mean)  # of one row, only half
        return found

    # ------------------------------------------------------------ a table as numbers

    def _encoded(self, table: pd.DataFrame, many: Floats) -> Floats:
        numbers = self._numbers(_matrix(table, self._columns("number", "date")))
        few = [columns[self._codes(table, name)][:, None] == np.arange(_n_columns(columns))
               for name, columns in self._columns_set().items()]  # fmt: skip
        words = HashingVectorizer(n_features=WORDS, token_pattern=WORD)
        texts = [words.transform(table[name]).toarray() for name in self._columns("text")]
        return np.column_stack([numbers, *few, many, *texts])

    def _numbers(self, values: Floats) -> Floats:
        if values.shape[1] != len(self.medians_):
            raise ValueError(f"X has {values.shape[1]} columns, and in fit it had {len(self.medians_)}.")
        values, gaps = self._masked(values)
        if not gaps.any() and not len(self.missing_):
            return values
        return np.column_stack([np.where(gaps, self.medians_, values), gaps[:, self.missing_]])

    def _masked(self, values: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """The numbers (n, d), NaN where a cell is missing or implausible, and where that is."""
        low, high = self._plausible_set()
        if np.isinf(low).all() and np.isinf(high).all():
            return values, np.isnan(values)
        values = np.where((values < low) | (values > high), np.nan, values)
        return values, np.isnan(values)

    def _many(self, table: pd.DataFrame, means: dict[str, CategoryMeans]) -> Floats:
        return np.column_stack(
            [np.empty((len(table), 0)), *(t.of(self._codes(table, name)) for name, t in means.items())]
        )

    def _codes(self, table: pd.DataFrame, name: str) -> NDArray[np.int64]:
        """The place of each value among the categories of a column, -1 for a new one."""
        return np.asarray(pd.Index(self.categories_[name], dtype=object).get_indexer(pd.Index(table[name])), np.int64)

    def _unseen(self, table: pd.DataFrame, X: Any) -> dict[Any, tuple[int, str]]:
        names, found = list(_frame(X).columns), {}
        for name in self.categories_:
            new = self._codes(table, name) < 0
            if new.any():
                found[names[int(name)]] = int(new.sum()), str(table[name][new].iloc[0])
        return found


def _n_columns(columns: NDArray[np.int64]) -> int:
    return int(columns.max(initial=-1)) + 1


def _folds(table: pd.DataFrame, y: Floats) -> NDArray[np.int64]:
    """A fold for each row, by its content."""
    return splits.folds(splits.without_ties(splits.table_keys(table, len(table)), y), splits.FOLDS, 0)


def _is_numeric(X: Any) -> bool:
    """Whether all columns are numbers of NumPy's; they are then taken as an array, without a look at each."""
    dtypes = X.dtypes if isinstance(X, pd.DataFrame) else [np.asarray(X).dtype]
    return all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in dtypes)


def _array(X: Any) -> Floats:
    if not isinstance(X, pd.DataFrame):
        values = np.asarray(X)
        if values.dtype != object:
            return values.astype(np.float64, copy=False)
        X = pd.DataFrame(values)
    return np.column_stack([_floats(name, column) for name, column in X.items()])


def _matrix(table: pd.DataFrame, names: list[str]) -> Floats:
    return table[names].to_numpy(np.float64) if names else np.empty((len(table), 0))


def _frame(X: Any) -> pd.DataFrame:
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X)).infer_objects()


# ---------------------------------------------------------------- any encoder


def chosen(encoder: Any, X: Any) -> Any:
    """The encoder for a table: the one given, or for "auto" a `TableEncoder` unless X is plain numbers.

    Plain numbers are an array of numbers without gaps, or a frame of such columns in which no cell is implausible. They
    need no encoder: None.
    """
    if not isinstance(encoder, str):
        return encoder
    if encoder != "auto":
        raise ValueError(f"encoder must be 'auto', None, a transformer or a function, got {encoder!r}.")
    return None if _is_plain(X) else TableEncoder()


def _is_plain(X: Any) -> bool:
    """Whether a table is numbers without gaps, and for a frame without implausible cells."""
    if isinstance(X, pd.DataFrame):
        if not _is_numeric(X) or X.isna().to_numpy().any():
            return False
        values = X.to_numpy(np.float64)
        ends = [outliers.plausible_cells(column) for column in values.T if np.isfinite(column).all()]
        return bool(np.isinf(ends).all())
    if hasattr(X, "toarray"):  # sparse: refused later
        return True
    values = np.asarray(X)
    if values.ndim != 2 or values.dtype.kind in "iub":
        return True
    if values.dtype.kind == "f":
        return not np.isnan(values).any()
    return values.dtype.kind == "O" and not any(_needs_encoding(value) for value in values.flat)


def _needs_encoding(value: Any) -> bool:
    if value is None or value is pd.NA or isinstance(value, (str, datetime.date, datetime.timedelta)):
        return True
    return bool(value != value)


def fitted(encoder: Any, X: Any, y: Floats, fold: Any) -> tuple[Any, Floats]:
    """A copy of an encoder, a transformer or a function, fitted to a table and a number for each row; and the table."""
    copy = _transformer(encoder)
    if isinstance(copy, TableEncoder):
        return copy, finite(copy.fit_transform(X, y, fold), len(y))
    return copy, finite(copy.fit(X, y).transform(X), len(y))


def applied(encoder: Any, X: Any, n_rows: int) -> Floats:
    """New rows as a fitted encoder sees them."""
    return finite(encoder.transform(X), n_rows)


def _transformer(encoder: Any) -> Any:
    if hasattr(encoder, "transform") and not isinstance(encoder, type):
        return clone(encoder)
    if callable(encoder) and not isinstance(encoder, type):
        return FunctionTransformer(encoder)
    raise ValueError(f"encoder must be a transformer or a function, got a {type(encoder).__name__}.")


def finite(encoded: Any, n_rows: int) -> Floats:
    """What an encoder gives, as an array of finite numbers."""
    encoded = encoded.toarray() if hasattr(encoded, "toarray") else encoded
    try:
        Z = np.asarray(encoded, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the encoder must give numbers: {error}.") from None
    if Z.ndim != 2 or len(Z) != n_rows:
        raise ValueError(f"the encoder must give one row for each of the {n_rows}, and gives shape {Z.shape}.")
    if not np.isfinite(Z).all():
        row, column = np.argwhere(~np.isfinite(Z))[0]
        raise ValueError(f"the encoder gives {Z[row, column]} in row {row}, column {column}.")
    return np.ascontiguousarray(Z)


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
    if not len(present):  # of no kind: in other rows there may be texts
        return "few"
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
    counts = column.value_counts().to_numpy()
    frequent = counts[counts >= outliers.rare(len(column))]
    if distinct <= FEW or (len(frequent) <= FEW and frequent.sum() >= (1 - OTHERS) * present):
        return "few"
    if distinct <= present / 2:
        return "many"
    return "text" if _words_tell(column.dropna(), outliers.rare(len(column))) else "id"


def _words_tell(texts: "pd.Series[Any]", least: float) -> bool:
    """Whether there is a word that so many texts have, at least two, and as many have not.

    Of more than `READ` texts, those with the least hashes are read: whatever their order is, the same ones.
    """
    least, counts = max(least, 2.0), Counter[str]()
    if len(texts) > READ:
        hashes = pd.util.hash_array(texts.astype(str).to_numpy(object), categorize=False)
        texts = texts.iloc[np.argsort(hashes, kind="stable")[:READ]]
    for n, text in enumerate(texts, 1):
        words = set(re.findall(WORD, str(text).lower()))
        counts.update(words)
        if any(least <= counts[word] <= n - least for word in words):
            return True
    return any(least <= count <= len(texts) - least for count in counts.values())


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


def _days(moment: "pd.Series[Any]") -> Floats:
    """Days since 1970, also where nanoseconds would overflow, as at the end of the year 9999."""
    microseconds = moment.dt.tz_localize(None).to_numpy("datetime64[us]")
    days: Floats = np.where(moment.isna(), np.nan, microseconds.astype(np.int64) / 86_400e6)
    return days


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
    days = _days(moment)
    turns: list[Floats] = [2 * np.pi * days / length for length in CYCLES.values()]
    waves: list[Any] = [np.round(wave(turn), WAVE_DIGITS) for turn in turns for wave in (np.sin, np.cos)]
    return [days, *waves]
