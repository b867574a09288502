"""Folds follow from what is in a row: copies stay together, order and names do not matter, small changes stay small."""

import numpy as np
import pandas as pd
import pytest

from aleator.estimators import cross_fitting
from aleator.preprocessing import splits

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1_000, 4))
ALL = np.arange(len(X))


def folds_of(X, n_folds=5, seed=3):
    return splits.folds(splits.array_keys(X, np.arange(len(X))), n_folds, seed)


@pytest.mark.parametrize("n_folds", [2, 5, 7])
def test_folds_have_equal_sizes(n_folds):
    sizes = np.bincount(folds_of(X, n_folds))
    assert len(sizes) == n_folds
    assert sizes.max() - sizes.min() <= 1


def test_the_order_of_the_rows_does_not_matter():
    order = RNG.permutation(len(X))
    np.testing.assert_array_equal(folds_of(X[order]), folds_of(X)[order])


def test_equal_rows_share_a_fold():
    fold = folds_of(np.concatenate([X, X[:300], X[:300]]))
    np.testing.assert_array_equal(fold[1000:1300], fold[:300])
    np.testing.assert_array_equal(fold[1300:], fold[:300])


def test_a_changed_row_leaves_nearly_all_others_where_they_are():
    """At most a row crosses each of four borders."""
    changed = X.copy()
    changed[17, 2] = -999
    apart = folds_of(changed) != folds_of(X)
    assert apart[np.arange(len(X)) != 17].sum() <= 4
    assert (folds_of(np.delete(X, 17, axis=0)) != np.delete(folds_of(X), 17)).sum() <= 4


def test_seeds_make_independent_folds():
    """Of independent folds, a fifth agrees."""
    agree = np.mean(folds_of(X, seed=1) == folds_of(X, seed=2))
    assert abs(agree - 0.2) < 4 * np.sqrt(0.2 * 0.8 / len(X))


def test_folds_have_nothing_to_do_with_the_values():
    """Neither with a column, nor with neighbours in a regular table."""
    grid = np.column_stack([np.repeat(np.arange(40.0), 25), np.tile(np.arange(25.0), 40)])
    fold = folds_of(grid)
    for column in grid.T:
        means = [column[fold == k].mean() for k in range(5)]
        assert np.ptp(means) < 6 * column.std() / np.sqrt(200)
    neighbours = np.mean(fold[:-1] == fold[1:])
    assert abs(neighbours - 0.2) < 5 * np.sqrt(0.2 * 0.8 / len(fold))


def test_precision_and_the_sign_of_zero_do_not_matter():
    table = np.float32(X)
    table[::3, 1] = 0.0
    keys = splits.array_keys(table, ALL)
    np.testing.assert_array_equal(splits.array_keys(table.astype(np.float64), ALL), keys)
    table[::3, 1] = -0.0
    np.testing.assert_array_equal(splits.array_keys(table, ALL), keys)


def test_columns_are_told_apart():
    """(a, b) is another row than (b, a), and a long table is hashed as its rows are one by one."""
    a = splits.array_keys(X, ALL)
    assert not np.intersect1d(a, splits.array_keys(X[:, ::-1], ALL)).size
    long = RNG.integers(5, size=(40_000, 3)).astype(float)
    some = RNG.integers(len(long), size=50)
    np.testing.assert_array_equal(splits.array_keys(long, np.arange(len(long)))[some], splits.array_keys(long, some))
    assert len(np.unique(splits.array_keys(long, np.arange(len(long))))) == 125


def test_rows_of_one_key_differ_by_the_rank_of_their_targets():
    keys = np.array([7, 7, 9, 7, 9, 7], np.uint64)
    y = np.array([2.0, 1.0, 5.0, 2.0, 5.0, 3.0])
    apart = splits.without_ties(keys, y)
    assert (apart[0] == apart[3], apart[2] == apart[4]) == (True, True)
    assert len(np.unique(apart)) == 4
    np.testing.assert_array_equal(splits.without_ties(keys, 1e6 * y - 5), apart)
    both = splits.without_ties(keys, y, np.array([0, 0, 0, 1, 0, 0]))
    assert len(np.unique(both)) == 5
    order = np.array([5, 3, 0, 1, 4, 2])
    np.testing.assert_array_equal(splits.without_ties(keys[order], y[order]), apart[order])


def test_groups_stay_together_whatever_their_names():
    groups = RNG.integers(60, size=len(X))
    keys = splits.array_keys(X, ALL)
    fold = splits.folds(splits.group_keys(keys, groups), 5, 0)
    assert pd.DataFrame({"fold": fold, "group": groups}).groupby("group")["fold"].nunique().max() == 1
    np.testing.assert_array_equal(np.bincount(pd.Series(fold).groupby(groups).first()), [12] * 5)
    names = np.array([f"group {97 * k % 60}" for k in groups])
    np.testing.assert_array_equal(splits.folds(splits.group_keys(keys, names), 5, 0), fold)


def test_groups_of_equal_rows_are_told_apart():
    keys = np.zeros(6, np.uint64)
    assert len(np.unique(splits.group_keys(keys, np.array([0, 0, 1, 1, 2, 2])))) == 3
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(200), 3)
    keys = splits.without_ties(
        splits.array_keys(rng.integers(2, size=(600, 1)).astype(float), np.arange(600)), groups % 3
    )
    assert len(np.unique(splits.group_keys(keys, groups))) == 200
    names = np.array(["b", None, np.nan, "a"], object)
    assert len(np.unique(splits.group_keys(keys[:4], names))) == 3


def test_types_of_columns_do_not_matter():
    """A gap makes whole numbers floats; that is no reason for other folds."""
    table = pd.DataFrame(
        {"count": np.arange(100), "x": np.float32(X[:100, 0]), "flag": X[:100, 1] > 0, "name": ["a", "b"] * 50}
    )
    keys = splits.table_keys(table, 100)
    other = table.astype({"count": float, "x": float, "flag": "boolean"})
    np.testing.assert_array_equal(splits.table_keys(other, 100), keys)
    np.testing.assert_array_equal(splits.table_keys(table.astype({"count": "Int64"}), 100), keys)
    gap = table.assign(count=table["count"].where(table["count"] != 7))
    np.testing.assert_array_equal(np.flatnonzero(splits.table_keys(gap, 100) != keys), [7])
    numbers = table[["count", "x"]].to_numpy(float)
    np.testing.assert_array_equal(
        splits.table_keys(table[["count", "x"]], 100), splits.array_keys(numbers, np.arange(100))
    )
    np.testing.assert_array_equal(splits.table_keys([[{}], [{}]], 2), [0, 1])  # values without a hash


def test_rows_of_weight_zero_have_no_part_in_the_folds():
    y = np.arange(40.0)
    with_zero = cross_fitting.folds(5, np.ones((40, 1)), y, np.r_[0.0, np.ones(39)], 0, {})
    without = cross_fitting.folds(5, np.ones((39, 1)), y[1:], None, 0, {})
    for (train, test), (own_train, own_test) in zip(with_zero, without, strict=True):
        np.testing.assert_array_equal(train - 1, own_train)
        np.testing.assert_array_equal(test - 1, own_test)


def test_no_more_folds_than_rows():
    np.testing.assert_array_equal(np.sort(folds_of(X[:3])), [0, 1, 2])


def test_bits_are_mixed_as_by_splitmix64():
    """The first outputs of the generator with seed 0 (Steele, Lea, Flood, 2014), whose finaliser this is."""
    mixed = splits._mixed(splits._STEP * np.arange(1, 4, dtype=np.uint64))
    assert [int(each) for each in mixed] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_tiny_numbers_are_told_apart():
    keys = splits.array_keys(np.array([[1e-20], [2e-20], [0.0], [-0.0], [1.0]]), np.arange(5))
    assert len(np.unique(keys)) == 4
    assert keys[2] == keys[3]


def test_ties_are_ranked_by_the_first_column_and_then_by_the_next():
    keys = np.array([7, 7, 7, 9, 7], np.uint64)
    ranked = splits.without_ties(keys, np.array([1.0, 0.0, 0.0, 5.0, 0.0]), np.array([0.0, 1.0, 0.0, 5.0, 1.0]))
    ranks = np.array([2, 1, 0, 0, 1], np.uint64)
    np.testing.assert_array_equal(ranked, keys + splits._STEP * ranks)


# ---------------------------------------------------------------- copies, or equal by chance?


def keys_of(X, y):
    X_keys = splits.table_keys(X, len(y))
    return splits.without_ties(X_keys, y), X_keys, splits.array_keys(y[:, None], np.arange(len(y)))


def repeated(n, times):
    return np.repeat(np.arange(n), times)


RNG = np.random.default_rng(0)
CONTINUOUS, CELLS = RNG.normal(size=(600, 3)), RNG.integers(0, 4, (600, 2)).astype(float)
NOISE, CLAIMS = RNG.normal(size=600), (RNG.uniform(size=600) < 0.05).astype(float)


@pytest.mark.parametrize(
    ("X", "y", "copies"),
    {
        "no two rows are equal": (CONTINUOUS, NOISE, True),
        "every row three times": (CONTINUOUS[repeated(200, 3)], NOISE[repeated(200, 3)], True),
        "ten rows twice": (CONTINUOUS[[*range(590), *range(10)]], NOISE[[*range(590), *range(10)]], True),
        "rare claims, each row twice": (CONTINUOUS[repeated(300, 2)], CLAIMS[repeated(300, 2)], True),
        "cells and noise": (CELLS, NOISE, False),
        "cells and ratings": (CELLS, np.round(2 + CELLS[:, 0] / 2 + NOISE), False),
        "cells and rare claims": (CELLS, CLAIMS, False),
        "cells that decide y": (CELLS, CELLS[:, 0] + 2 * CELLS[:, 1], True),
        "the same place, measured again": (CONTINUOUS[repeated(200, 3)], NOISE, False),
    }.values(),
)  # fmt: skip
def test_rows_are_copies_if_equal_X_means_equal_y(X, y, copies):
    assert splits.are_copies(*keys_of(X, y)) == copies
    order = np.random.default_rng(1).permutation(len(y))
    assert splits.are_copies(*keys_of(X[order], y[order])) == copies


def test_one_by_one_tells_equal_rows_apart_in_any_order():
    keys = np.array([5, 3, 5, 5, 9, 3], np.uint64)
    found = splits.one_by_one(keys)
    assert len(np.unique(found)) == 6
    order = np.random.default_rng(0).permutation(6)
    np.testing.assert_array_equal(np.sort(splits.one_by_one(keys[order])), np.sort(found))
