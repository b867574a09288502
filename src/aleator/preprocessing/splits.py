"""Which rows are held out together: hashes of rows, and folds.

A row's fold follows from a hash of its content and the random seed. So equal rows share a fold, the order of the rows
does not matter, and a table with a few rows changed, added or removed has nearly the same folds: sorted by their
hashes, the rows are cut into parts of equal size. (Rows that are equal in X differ by the rank of y. Where there are
many of them, a changed row changes many ranks, and folds.)
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator.preprocessing.standardisation import ROWS_PER_BLOCK

Keys = NDArray[np.uint64]
Folds = NDArray[np.int64]
Rows = NDArray[np.int64]

FOLDS = 5
COPIES = 0.5  # of the pairs of rows equal in X, beyond chance, are equal in y too: then they are copies

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, as in splitmix64


def folds(keys: Keys, n_folds: int, seed: int) -> Folds:
    """The fold of each row (n,), at random; rows of one key share a fold, and folds have about as many keys each."""
    distinct, place = np.unique(keys, return_inverse=True)
    order = np.argsort(_mixed(distinct ^ _mixed(np.array([int(seed) % 2**64], np.uint64))), kind="stable")
    fold = np.empty(len(distinct), np.int64)
    fold[order] = np.arange(len(distinct)) * min(n_folds, len(distinct)) // len(distinct)
    return fold[place.reshape(-1)]


# ---------------------------------------------------------------- hashes of rows


def array_keys(X: NDArray[np.floating], rows: Rows) -> Keys:
    """A hash of each of these `rows` of numbers; 0 and -0 are equal, and so are float32 and float64."""
    factors = _factors(X.shape[1])
    keys = np.empty(len(rows), np.uint64)
    for lo in range(0, len(rows), ROWS_PER_BLOCK):
        keys[lo : lo + ROWS_PER_BLOCK] = _bits(X[rows[lo : lo + ROWS_PER_BLOCK]]) @ factors  # modulo 2^64
    return keys


def table_keys(X: Any, n_rows: int) -> Keys:
    """A hash of each row of a table of any kind: of its place in the table, if its values have no hash.

    Numbers have the hash of `array_keys`, whatever their types.
    """
    try:
        table = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X).reshape(n_rows, -1))
        keys = np.zeros(n_rows, np.uint64)
        for (_, column), factor in zip(table.items(), _factors(table.shape[1]), strict=True):
            keys += _column_bits(column) * factor
    except (TypeError, ValueError):
        return np.arange(n_rows, dtype=np.uint64)
    return keys


def _factors(n_columns: int) -> Keys:
    """An odd number for each column."""
    return _mixed(_STEP * np.arange(1, n_columns + 1, dtype=np.uint64)) | np.uint64(1)


def _column_bits(column: "pd.Series[Any]") -> Keys:
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        return _bits(column.to_numpy(np.float64, na_value=np.nan))
    return np.asarray(pd.util.hash_pandas_object(column, index=False), np.uint64)


def _bits(values: NDArray[np.floating]) -> Keys:
    values = values.astype(np.float64) + 0.0  # a copy, without -0
    values[np.isnan(values)] = np.nan
    return _mixed(values.view(np.uint64))


def _mixed(values: Keys) -> Keys:
    """Bits well mixed: the finaliser of splitmix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


# ---------------------------------------------------------------- ties and groups


def without_ties(keys: Keys, *columns: NDArray[Any]) -> Keys:
    """Keys that differ where further columns do: by the rank of their values among rows of one key, in any unit."""
    order = np.lexsort((*columns[::-1], keys))
    same_key = np.diff(keys[order]) == 0
    same_row = same_key & np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    place = np.concatenate([[0], np.cumsum(~same_row)])  # of distinct rows
    first = np.concatenate([[0], np.where(same_key, 0, place[1:])])  # of each key
    ranks = np.empty(len(keys), np.uint64)
    ranks[order] = place - np.maximum.accumulate(first)
    return keys + _STEP * ranks


def are_copies(keys: Keys, X_keys: Keys, y_keys: Keys) -> bool:
    """Whether rows that are equal in X are copies of one another, and not equal by chance; by keys of X and y, X, y.

    Two rows that are equal in X are equal in y more often than any two rows, by at least half of what is possible. In a
    table of categories many rows are equal in X, and those of one cell often in y. A fold of all of these would leave
    the regressor with the other rows of the cell.
    """
    any_two, same_X, same_row = (_equal_pairs(each) for each in (y_keys, X_keys, keys))
    if same_X == 0:
        return True
    chance = any_two / (0.5 * len(keys) * (len(keys) - 1))
    return bool(same_row / same_X - chance >= COPIES * (1 - chance))


def _equal_pairs(keys: Keys) -> float:
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((0.5 * counts * (counts - 1)).sum())


def one_by_one(keys: Keys) -> Keys:
    """A key for each row, also where rows are equal; which of these has which does not matter."""
    order = np.argsort(keys, kind="stable")
    first = np.searchsorted(keys[order], keys[order])
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys)) - first
    return without_ties(keys, ranks)


def group_keys(keys: Keys, groups: NDArray[Any]) -> Keys:
    """For each row the key of its group: the least of the group's rows, so that names of groups do not matter."""
    group = pd.factorize(groups, use_na_sentinel=False)[0]
    n_groups = int(group.max()) + 1
    least, total = np.full(n_groups, np.iinfo(np.uint64).max, np.uint64), np.zeros(n_groups, np.uint64)
    np.minimum.at(least, group, keys)
    np.add.at(total, group, _mixed(keys))
    return without_ties(_mixed(least), total, np.arange(n_groups))[group]
