"""The quantifier's own view of tables: every kind of column becomes finite numbers, and tells what it should."""

import datetime

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from aleator import LossQuantifier, PairEnsemble, export_onnx, load
from aleator.model_files.table_encoder_file import pack_table_encoder, unpack_table_encoder
from aleator.preprocessing import outliers, table_encoder
from aleator.preprocessing.table_encoder import TableEncoder

N = 200
rng = np.random.default_rng(0)
COLUMNS = {
    "float": (rng.normal(size=N), "number"),
    "float with gaps": (np.where(rng.uniform(size=N) < 0.2, np.nan, 1.0), "number"),
    "nullable": (pd.array(rng.choice([1, 2, None], size=N), dtype="Int64"), "number"),
    "bool": (rng.uniform(size=N) < 0.5, "number"),
    "nullable bool": (pd.array(rng.choice([True, None], size=N), dtype="boolean"), "number"),
    "objects that are numbers": (pd.Series([1, 2.5] * (N // 2), dtype=object), "number"),
    "nothing at all": (pd.Series([None] * N, dtype=object), "few"),
    "duration": (pd.to_timedelta(np.arange(N), "h"), "number"),
    "date": (pd.date_range("2020", periods=N, freq="7h"), "date"),
    "date with zone": (pd.date_range("2020", periods=N, tz="Asia/Tokyo"), "date"),
    "date with gaps": ([None, *pd.date_range("2020", periods=N - 1)], "date"),
    "period": (pd.period_range("2020-01", periods=N, freq="M"), "date"),
    "python dates": ([datetime.date(2020, 1, 1 + k % 28) for k in range(N)], "date"),
    "ISO strings": ([f"2020-01-{1 + k % 28:02d}" for k in range(N)], "date"),
    "strings": (rng.choice(["a", "b", None], size=N), "few"),
    "category": (pd.Categorical(rng.choice(["a", "b"], size=N)), "few"),
    "category of numbers": (pd.Categorical(rng.choice([10, 20], size=N)), "few"),
    "mixed": (pd.Series(["a", 1] * (N // 2), dtype=object), "few"),
    "many": ([f"street {k % 40}" for k in range(N)], "many"),
    "text": ([f"{'old' if k % 3 else 'new'} house number {k} by the lake" for k in range(N)], "text"),
    "empty strings": (["", *(f"w{k}" for k in range(N - 1))], "id"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_kind_of_column(name):
    values, kind = COLUMNS[name]
    table = pd.DataFrame({name: values, "other": 1.0})
    encoder = TableEncoder()
    first = encoder.fit_transform(table, rng.uniform(size=N))
    assert np.isfinite(first).all()
    assert len(first) == N
    assert encoder.kinds_ in ([], [kind, "number"])
    if kind != "many":  # a row does not see its own loss
        np.testing.assert_allclose(encoder.transform(table), first)
    part = encoder.transform(table[:3])  # as the rows of it
    np.testing.assert_allclose(part, encoder.transform(table)[:3])
    empty = (
        encoder.transform(table[:1].assign(**{name: pd.Series([None], dtype=object)}))
        if kind not in ("few", "many")
        else part
    )
    assert np.isfinite(empty).all()


def test_numbers_are_left_alone():
    X = rng.normal(size=(50, 3))
    for table in (X, pd.DataFrame(X, columns=list("abc"))):
        np.testing.assert_array_equal(TableEncoder().fit(table).transform(table), X)


def test_a_gap_is_the_median_and_says_so():
    X = np.array([[1.0, 5.0], [2.0, np.nan], [9.0, 7.0], [np.nan, 8.0]])
    encoded = TableEncoder().fit(X[:3]).transform(X)
    np.testing.assert_array_equal(encoded, [[1, 5, 0], [2, 6, 1], [9, 7, 0], [2, 8, 0]])


def test_a_category_of_many_tells_the_loss_of_others_like_it():
    street = np.repeat(np.arange(30), 40)
    loss = 1.0 * street + rng.uniform(size=1200)
    table = pd.DataFrame({"street": [f"street {k}" for k in street]})
    fold = np.arange(1200) % 5
    encoded = TableEncoder().fit_transform(table, loss, fold)[:, 0]
    assert np.corrcoef(encoded, street)[0, 1] > 0.99
    changed = loss.copy()
    changed[7] += 1000.0  # a row's own loss, and that of its fold, is not in its code
    again = TableEncoder().fit_transform(table, changed, fold)[:, 0]
    np.testing.assert_array_equal(again[fold == fold[7]], encoded[fold == fold[7]])
    assert (again[(fold != fold[7]) & (street == street[7])] > encoded[(fold != fold[7]) & (street == street[7])]).all()


def test_seasons():
    days = pd.DataFrame({"day": pd.date_range("2021-01-01", periods=3 * 365)})
    encoded = TableEncoder().fit(days).transform(days)
    assert encoded.shape[1] == 7
    np.testing.assert_allclose(encoded[0, 1:3], encoded[365, 1:3], atol=0.02)  # the same day a year later
    np.testing.assert_allclose(encoded[0, 3:5], encoded[7, 3:5], atol=1e-9)  # a week later


def test_numbers_that_are_numbers_no_more():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    with pytest.raises(ValueError, match="column 'a' held numbers in fit, and now does not"):
        encoder.transform(pd.DataFrame({"a": ["one", "two"], "b": ["x", "y"]}))


def test_dates_that_are_none_and_gaps_that_are_new():
    encoder = TableEncoder().fit(pd.DataFrame({"day": ["2024-05-17", "2024-05-18"], "a": ["x", "y"]}))
    with pytest.warns(
        UserWarning, match="column 'day' held dates in fit, and '17.05.2024' is none: taken as missing, in 1 of 1 rows"
    ):
        encoder.transform(pd.DataFrame({"day": ["17.05.2024"], "a": ["x"]}))
    numeric = TableEncoder().fit(pd.DataFrame({"a": [1.0, 3.0]}))
    np.testing.assert_array_equal(
        numeric.transform(pd.DataFrame({"a": pd.array([None, 7], dtype="Int64")})), [[2], [7]]
    )


def test_the_order_of_rows_has_no_part_in_the_folds():
    """A panel, in which every day lists the same stores: no store may be in one fold only."""
    store = np.tile(np.arange(25), 40)
    target = 10.0 * store + rng.normal(size=1000)
    table = pd.DataFrame({"store": [f"store {k}" for k in store]})
    encoded = TableEncoder().fit_transform(table, target)[:, 0]
    assert np.corrcoef(encoded, target)[0, 1] > 0.99
    order = rng.permutation(1000)
    again = TableEncoder().fit_transform(table.iloc[order].reset_index(drop=True), target[order])[:, 0]
    np.testing.assert_allclose(again, encoded[order])


def test_a_column_that_is_empty_in_fit_may_have_texts_later():
    encoder = TableEncoder().fit(pd.DataFrame({"a": pd.Series([None] * 3, dtype=object), "b": [1.0, 2.0, 3.0]}))
    with pytest.warns(UserWarning, match="never seen in fit, such as 'x'"):
        assert np.isfinite(encoder.transform(pd.DataFrame({"a": ["x"], "b": [1.0]}))).all()


def test_rare_categories_share_a_column_if_together_they_are_ten():
    names = np.array(["a"] * 300 + ["b"] * 200 + ["c"] * 4 + ["d"] * 5)
    few = TableEncoder().fit(pd.DataFrame({"x": names}))
    assert few.width == 2
    assert not few.transform(pd.DataFrame({"x": ["c", "d"]})).any()
    names = np.append(names, ["e"])
    more = TableEncoder().fit(pd.DataFrame({"x": names}))
    assert more.width == 3
    np.testing.assert_array_equal(more.transform(pd.DataFrame({"x": ["a", "c", "d", "e"]}))[:, 2], [0, 1, 1, 1])
    with pytest.warns(UserWarning, match="never seen"):
        assert more.transform(pd.DataFrame({"x": ["new"]}))[0, 2] == 1
    facts, arrays = pack_table_encoder(more)
    again = unpack_table_encoder(facts, arrays)
    np.testing.assert_array_equal(
        again.transform(pd.DataFrame({"x": names})), more.transform(pd.DataFrame({"x": names}))
    )
    old = unpack_table_encoder(facts, {name: array for name, array in arrays.items() if "columns" not in name})
    assert old.width == 5


def test_a_column_of_gaps_from_ten_gaps_on():
    for gaps, width in ((1, 1), (9, 1), (10, 2)):
        X = np.random.default_rng(0).normal(size=(500, 1))
        X[:gaps] = np.nan
        assert TableEncoder().fit_transform(X).shape == (500, width)


def test_many_one_row_categories_beside_a_few_frequent_ones():
    """A misspelling here and there does not make a column of many."""
    names = [*np.repeat(list("abcdefgh"), 100), *(f"rare {k}" for k in range(40))]
    encoder = TableEncoder().fit(pd.DataFrame({"x": names}))
    assert encoder.kinds_ == ["few"]
    assert encoder.width == 9


def test_identifiers_are_ignored_and_text_is_not(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    table = pd.DataFrame({
        "x": rng.normal(size=n),
        "hash": [f"{k:x}" for k in rng.integers(2**40, size=n)],
        "order": [f"order {k}" for k in range(n)],
        "note": [" ".join(rng.choice(["red", "green", "old"], 2)) + f" {k}" for k in range(n)],
    })  # fmt: skip
    y = table["x"].to_numpy()
    encoder = TableEncoder().fit(table, y)
    assert encoder.kinds_ == ["number", "id", "id", "text"]
    assert encoder.transform(table).shape == (n, encoder.width) == (n, 1 + 32)
    assert TableEncoder().fit(table.sample(frac=1, random_state=1), y).kinds_ == encoder.kinds_
    plain = PairEnsemble(n_members=2, epochs=5, rescale=False).fit(table[["x"]], y)
    with_ids = PairEnsemble(n_members=2, epochs=5, rescale=False, encoder=TableEncoder()).fit(
        table[["x", "hash", "order"]], y
    )
    np.testing.assert_array_equal(
        plain.predict_loss(table[["x"]]), with_ids.predict_loss(table[["x", "hash", "order"]])
    )
    with_ids.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(table[["x", "hash", "order"]]), plain.predict(table[["x"]]))


def test_a_table_of_identifiers_only_is_refused():
    ids = pd.DataFrame({"id": [f"k{k}" for k in range(100)]})
    with pytest.raises(ValueError, match="no column is left to learn from"):
        PairEnsemble(encoder=TableEncoder(), epochs=2, rescale=False).fit(ids, np.arange(100.0))
    model = LossQuantifier(lambda table: np.zeros(len(table)), n_members=1, epochs=2, rescale=False).fit(
        ids, np.arange(100.0)
    )
    assert np.isfinite(model.predict_loss(ids)).all()  # by the prediction alone


def test_one_of_two_texts_may_be_an_identifier_to_the_regressor(tmp_path):
    """ONNX reads numbers only where the table has nothing else, or the encoder ignores what else it has."""
    n = 120
    table = pd.DataFrame({"x": np.linspace(0, 1, n), "id": [f"k{k}" for k in range(n)]})
    y = table["x"].to_numpy()
    model = LossQuantifier(make_pipeline(TableEncoder(), Ridge()), n_members=1, epochs=2, rescale=False).fit(table, y)
    export_onnx(model, tmp_path / "m.onnx")
    own = LossQuantifier(
        make_pipeline(make_column_transformer(("passthrough", ["x"])), Ridge()), n_members=1, epochs=2, rescale=False
    )
    with pytest.raises(ValueError, match="reads categories in a way of its own"):
        export_onnx(own.fit(table, y), tmp_path / "n.onnx")


def test_a_cell_far_beyond_all_others_counts_as_missing():
    """As if it had been missing, in fit and later; a table of numbers or one with text."""
    rng = np.random.default_rng(0)
    for rows in (3, 40):
        for others in ({}, {"city": rng.choice(["Ulm", "Bonn"], 600)}):
            table = pd.DataFrame({"size": rng.uniform(30, 200, 600), "age": rng.normal(size=600)} | others)
            table.loc[: rows - 1, "size"] = np.nan
            marked = table.fillna({"size": -999.0})
            gaps, encoder = TableEncoder().fit(table), TableEncoder()
            np.testing.assert_array_equal(encoder.fit_transform(marked), gaps.transform(table))
            assert len(encoder.missing_) == (rows == 40)
            np.testing.assert_array_equal(encoder.transform(marked[:5]), gaps.transform(table[:5]))
            far = table.assign(size=-5000.0)[:5]
            np.testing.assert_array_equal(encoder.transform(far), gaps.transform(table.assign(size=np.nan)[:5]))
            assert (gaps.transform(far)[:, 0] == -5000).all()  # there it is only a number never seen


def test_implausible_cells_in_a_file_and_as_onnx(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal((0, 50, 0), size=(300, 3))
    y = X[:, 0] + rng.normal(size=300)
    X[:20, 1], X[20:24, 2] = -999, 1e7
    model = PairEnsemble(n_members=2, epochs=5, rescale=False, encoder=TableEncoder()).fit(X, y)
    assert model.encoder_.width == 4
    model.save(tmp_path / "m.aleator")
    again = load(tmp_path / "m.aleator")
    new = np.array([[0.0, -999, 0], [0, 50, 1e8], [0, np.nan, np.nan], [0, 50, -1e7], [1, 51, 1]])
    np.testing.assert_array_equal(again.predict_loss(new), model.predict_loss(new))
    export_onnx(model, tmp_path / "m.onnx")
    predicted, expected = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(
        ["prediction", "expected_loss"], {"X": new}
    )
    np.testing.assert_allclose(predicted, model.predict(new), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(expected, model.predict_loss(new), rtol=1e-5)


def test_times_of_the_day_are_never_implausible():
    """Of a date only its days since 1970 can be: a sine or a cosine has its range."""
    minutes = [f"2024-05-{1 + k % 28:02d} 00:0{k % 10}" for k in range(300)]
    table = pd.DataFrame({"at": pd.to_datetime([*minutes, "2024-05-05 06:00"])})
    encoder = TableEncoder().fit(table)
    assert np.isinf(encoder.plausible_[:, 1:]).all()
    np.testing.assert_allclose(encoder.transform(table[-1:])[0, -2:], [1.0, 0.0], atol=1e-6)


NUMBERS = np.random.default_rng(0).normal(size=(60, 3))
FAR = pd.DataFrame(NUMBERS.copy())  # pandas 2 shares the array
FAR.iloc[7, 1] = 1e9


@pytest.mark.parametrize(
    ("X", "needs_encoder"),
    {
        "numbers": (NUMBERS, False),
        "whole numbers": (np.arange(60).reshape(20, 3), False),
        "truth values": (NUMBERS > 0, False),
        "a gap in an array": (np.where(NUMBERS > 2, np.nan, NUMBERS), True),
        "objects that are numbers": (NUMBERS.astype(object), False),
        "objects with None": (np.where(NUMBERS > 2, None, NUMBERS.astype(object)), True),
        "objects with pd.NA": (np.where(NUMBERS > 2, pd.NA, NUMBERS.astype(object)), True),
        "objects with text": (np.where(NUMBERS > 2, "a", NUMBERS.astype(object)), True),
        "objects with a date": (np.where(NUMBERS > 2, datetime.date(2024, 1, 1), NUMBERS.astype(object)), True),
        "strings": (NUMBERS.astype(str), True),
        "one dimension": (NUMBERS[:, 0], False),  # refused later
        "a frame of numbers": (pd.DataFrame(NUMBERS), False),
        "a frame with a gap": (pd.DataFrame(np.where(NUMBERS > 2, np.nan, NUMBERS)), True),
        "a frame with text": (pd.DataFrame(NUMBERS).assign(text="a"), True),
        "a frame with nullable numbers": (pd.DataFrame(NUMBERS).convert_dtypes(), True),
        "a frame with a cell far off": (FAR, True),
        "an array with a cell far off": (FAR.to_numpy(), False),
    }.values(),
)  # fmt: skip
def test_which_tables_need_an_encoder(X, needs_encoder):
    assert (table_encoder.chosen("auto", X) is not None) == needs_encoder


def test_an_encoder_that_is_given_is_the_one():
    given = TableEncoder()
    assert table_encoder.chosen(given, NUMBERS) is given
    assert table_encoder.chosen(None, pd.DataFrame({"a": ["x"]})) is None
    with pytest.raises(ValueError, match="encoder must be 'auto'"):
        table_encoder.chosen("table", NUMBERS)


@pytest.mark.parametrize(
    "columns", [["number"], ["number", "few"], ["many"], ["text"], ["date"], ["number", "few", "many", "text", "date"]]
)
def test_width_is_the_number_of_columns_that_come_out(columns):
    rng = np.random.default_rng(0)
    n = 400
    table = pd.DataFrame({
        "number": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(size=n)),
        "few": rng.choice(["a", "b", "c"], n),
        "many": rng.choice([f"street {k}" for k in range(60)], n),
        "text": [" ".join(rng.choice(["old", "new", "red", "tall", "wide"], 3)) + f" {k}" for k in range(n)],
        "date": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=n), "D"),
    })[columns]  # fmt: skip
    encoder = TableEncoder().fit(table, rng.normal(size=n))
    assert encoder.kinds_ == ([] if columns == ["number"] else columns)  # numbers only are an array
    assert encoder.transform(table).shape == (n, encoder.width)


def test_twenty_categories_have_a_column_each_and_more_do_not():
    for distinct, kind in ((20, "few"), (21, "many")):
        table = pd.DataFrame({"c": [f"c{k % distinct}" for k in range(20 * distinct)]})
        assert TableEncoder().fit(table).kinds_ == [kind]


def test_an_encoder_must_be_fitted_and_give_finite_numbers():
    with pytest.raises(NotFittedError):
        TableEncoder().unseen(pd.DataFrame({"a": ["x"]}))
    with pytest.raises(ValueError, match="gives inf in row 1, column 0"):
        table_encoder.finite(np.array([[1.0], [np.inf]]), 2)
    with pytest.raises(ValueError, match="one row for each of the 3"):
        table_encoder.finite(np.ones((2, 1)), 3)
    with pytest.raises(ValueError, match="one row for each of the 2"):
        table_encoder.finite(np.ones(2), 2)
    with pytest.raises(ValueError, match="must give numbers"):
        table_encoder.finite(np.array([["a"]]), 1)


def test_a_column_of_gaps_only_is_zero_and_a_new_value_stays_what_it_is():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [np.nan] * 40, "b": np.arange(40.0)}))
    np.testing.assert_array_equal(
        encoder.transform(pd.DataFrame({"a": [np.nan, 3.0], "b": [1.0, np.nan]}))[:, :2], [[0.0, 1.0], [3.0, 19.5]]
    )


def test_a_category_is_drawn_towards_the_mean_of_all():
    """One row counts as much as the mean of all, three rows three times as much."""
    names = [f"street {k}" for k in range(30)]
    table = pd.DataFrame({"s": [*np.repeat(names, 3), "alone"]})
    y = np.append(np.zeros(90), 91.0)
    y[:3] = 1.0
    encoder = TableEncoder().fit(table, y)
    means = encoder.category_means_["0"]
    mean = y.clip(*outliers.plausible_range(y, np.ones(91))).mean()
    by_name = dict(zip(encoder.categories_["0"], means.by_category, strict=True))
    assert means.otherwise == pytest.approx(mean)
    assert by_name["street 0"] == pytest.approx(mean + 3 / 4 * (1 - mean), rel=1e-9)
    assert by_name["street 7"] == pytest.approx(mean / 4, rel=1e-9)


def test_twenty_frequent_categories_are_few_whatever_rare_ones_there_are():
    values = [f"c{k % 20}" for k in range(1000)] + [f"rare {k}" for k in range(40)]
    assert TableEncoder().fit(pd.DataFrame({"c": values})).kinds_ == ["few"]
    values = [f"c{k % 21}" for k in range(1050)]
    assert TableEncoder().fit(pd.DataFrame({"c": values})).kinds_ == ["many"]


def test_strings_that_come_twice_are_categories():
    assert TableEncoder().fit(pd.DataFrame({"c": [f"c {k % 100}" for k in range(200)]})).kinds_ == ["many"]
    assert TableEncoder().fit(pd.DataFrame({"c": [f"c{k % 101}" for k in range(200)]})).kinds_ == ["id"]


def test_dates_of_several_time_zones_are_dates():
    day = pd.date_range("2024-01-01", periods=40).strftime("%Y-%m-%d")
    zones = [f"{d}T06:00:00+0{k % 3}:00" for k, d in enumerate(day)]
    encoder = TableEncoder()
    found = encoder.fit_transform(pd.DataFrame({"d": zones}))
    assert encoder.kinds_ == ["date"]
    np.testing.assert_allclose(found[:3, 0] % 1, [6 / 24, 5 / 24, 4 / 24], atol=1e-9)
