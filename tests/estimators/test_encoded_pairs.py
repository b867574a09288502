"""Pairs that read tables of any kind, rows that belong together, and what was said of rows left out."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import aleator
from aleator import LossQuantifier, PairEnsemble, PairRegressor, TableEncoder
from aleator.baselines import DropoutRegressor, MeanVarianceRegressor
from aleator.torch import to_torch

X, y = load_diabetes(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
N = 400
CITY = rng.choice(["Ulm", "Bonn", "Kiel"], N)
TABLE = pd.DataFrame(
    {
        "size": np.where(rng.uniform(size=N) < 0.1, np.nan, rng.normal(size=N)),
        "city": CITY,
        "street": [f"street {k % 40}" for k in range(N)],
        "day": pd.date_range("2024", periods=N),
    }
)
TARGET = np.nan_to_num(TABLE["size"]) + rng.normal(size=N) * np.where(CITY == "Kiel", 2.0, 0.1)


def encoded(**params):
    return PairRegressor(loss="absolute", encoder=TableEncoder(), **params)


@pytest.mark.parametrize("kind", [PairRegressor, PairEnsemble])
def test_numbers_are_the_same_with_an_encoder_and_without(kind):
    plain, with_encoder = kind(epochs=5).fit(X, y), kind(epochs=5, encoder=TableEncoder()).fit(X, y)
    assert plain.predict_loss(X).tobytes() == with_encoder.predict_loss(X).tobytes()


def test_a_table_of_any_kind():
    model = encoded().fit(TABLE, TARGET)
    expected = pd.Series(model.predict_loss(TABLE)).groupby(CITY).mean()
    assert expected["Kiel"] > 3 * max(expected["Ulm"], expected["Bonn"])
    assert model.n_features_in_ == 4
    assert list(model.feature_names_in_) == list(TABLE)
    with pytest.raises(ValueError, match="was 'size' in fit"):
        model.predict(TABLE[TABLE.columns[::-1]])
    with pytest.warns(UserWarning, match="column 'city' has values never seen in fit, such as 'Graz', in 400 of 400"):
        model.predict(TABLE.assign(city="Graz"))
    assert model.encoder_.unseen(TABLE.assign(city=["Graz", *CITY[1:]])) == {"city": (1, "Graz")}


def test_encoders_of_others():
    parts = make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["day_of_year"]))
    table = TABLE.assign(day_of_year=TABLE["day"].dt.day_of_year)
    model = PairRegressor(encoder=parts, epochs=5, rescale=False).fit(table, TARGET)
    by_hand = PairRegressor(epochs=5, rescale=False).fit(parts.fit_transform(table), TARGET)
    np.testing.assert_array_equal(model.predict_loss(table), by_hand.predict_loss(parts.transform(table)))
    function = PairRegressor(encoder=lambda t: t[["size"]].fillna(0).to_numpy(), epochs=5, rescale=False).fit(
        TABLE, TARGET
    )
    assert function.predict(TABLE).shape == (N,)
    changing = PairRegressor(encoder=lambda t: np.ones((len(t), len(t))), epochs=2, rescale=False).fit(
        TABLE[:50], TARGET[:50]
    )
    with pytest.raises(ValueError, match="the encoder gives 3 columns, and in fit it gave 50"):
        changing.predict(TABLE[:3])
    with pytest.raises(ValueError, match="encoder must be 'auto', None, a transformer or a function, got 'table'"):
        PairRegressor(encoder="table").fit(TABLE, TARGET)
    with pytest.raises(ValueError, match="column 'size' of X is infinite in row 3"):
        encoded(epochs=2).fit(TABLE.assign(size=[1.0, 2.0, 3.0, np.inf] * 100), TARGET)


def test_everything_else_with_an_encoder(tmp_path):
    model = encoded(epochs=6, lam=0.2, rescale=False)
    again = clone(model)
    model.fit(TABLE, TARGET)
    *_, staged = again.fit_staged(TABLE, TARGET, [2, 6])
    assert staged.predict_loss(TABLE).tobytes() == model.predict_loss(TABLE).tobytes()
    watched = encoded(early_stopping=True, patience=2).fit(TABLE, TARGET, validation=(TABLE[:50], TARGET[:50]))
    assert watched.history_["validation_loss"].notna().any()
    with pytest.raises(ValueError, match="in the validation table: (.|\n)*was 'size' in fit"):
        encoded(early_stopping=True).fit(TABLE, TARGET, validation=(TABLE[TABLE.columns[::-1]], TARGET))
    weighted = encoded(epochs=6, lam=0.2, rescale=False).fit(TABLE, TARGET, sample_weight=np.ones(N))
    assert weighted.predict_loss(TABLE).tobytes() == model.predict_loss(TABLE).tobytes()
    two = PairRegressor(encoder=TableEncoder(), epochs=3, rescale=False).fit(
        TABLE, np.column_stack([TARGET, 1e9 * TARGET])
    )
    assert two.predict(TABLE).shape == (N, 2)
    plain = model.fit(X, y)  # and without a trace of the other table
    assert plain.encoder_.kinds_ == []
    assert not hasattr(PairRegressor(epochs=2, rescale=False).fit(X, y), "encoder_")
    with pytest.raises(ValueError, match="encoder"):
        to_torch(model)


def test_onnx_with_gaps(tmp_path):
    table = X.assign(bmi=np.where(np.arange(442) % 5, X["bmi"], np.nan))
    model = PairEnsemble(n_members=2, encoder=TableEncoder(), epochs=10, rescale=False).fit(table, y)
    aleator.export_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    prediction, expected = session.run(["prediction", "expected_loss"], {"X": table.to_numpy()})
    np.testing.assert_allclose(prediction, model.predict(table), rtol=1e-5)
    np.testing.assert_allclose(expected, model.predict_loss(table), rtol=1e-5)


@pytest.mark.parametrize("kind", ["pair", "ensemble", "forest", "boosting"])
@pytest.mark.parametrize("gaps", [False, True])
def test_onnx_of_categories_and_dates(kind, gaps, tmp_path):
    """A few categories, many of them, dates, missing ones of each, and values that were never there."""
    table = TABLE.assign(other=rng.normal(size=N))
    if gaps:
        table["city"] = table["city"].where(np.arange(N) % 7 > 0)
        table["day"] = table["day"].where(np.arange(N) % 11 > 0)
    model = {
        "pair": PairRegressor(encoder=TableEncoder(), epochs=20, rescale=False),
        "ensemble": PairEnsemble(n_members=2, loss="absolute", encoder=TableEncoder(), epochs=20, rescale=False),
        "forest": LossQuantifier(make_pipeline(TableEncoder(), RandomForestRegressor(10, random_state=0)), n_members=2),
        "boosting": LossQuantifier(make_pipeline(TableEncoder(), HistGradientBoostingRegressor()), n_members=2),
    }[kind]
    model.fit(table, TARGET)
    aleator.export_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    inputs = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    assert inputs == {"X": ["size", "day", "other"], "categories": ["city", "street"]}
    new = table.assign(city=table["city"].where(np.arange(N) % 13 > 0, "Graz"))
    days = (new["day"] - pd.Timestamp(0)) / pd.Timedelta(days=1)
    numbers = new.assign(day=days)[inputs["X"]].to_numpy(np.float64)
    texts = new[inputs["categories"]].fillna("").to_numpy(object)
    prediction, expected = session.run(["prediction", "expected_loss"], {"X": numbers, "categories": texts})
    with pytest.warns(UserWarning, match="never seen"):
        said = model.predict_uncertainty(new)
    np.testing.assert_allclose(prediction, said.prediction, rtol=1e-5, atol=1e-5 * TARGET.std())
    np.testing.assert_allclose(expected, said.expected_loss, rtol=2e-5)


@pytest.mark.parametrize(
    "trees",
    [
        RandomForestRegressor(7, random_state=0),
        ExtraTreesRegressor(7, random_state=0),
        DecisionTreeRegressor(random_state=0),
        HistGradientBoostingRegressor(),
        HistGradientBoostingRegressor(loss="quantile", quantile=0.8),
        TransformedTargetRegressor(RandomForestRegressor(7, random_state=0), transformer=StandardScaler()),
    ],
    ids=lambda trees: type(trees).__name__,
)
@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_onnx_of_trees(trees, shift, tmp_path):
    """Every row to the right leaf, also at the thresholds, where a number is missing, and far from 0."""
    table = np.round(X.to_numpy(), 2)  # many ties
    table[::7, 2] = np.nan
    model = LossQuantifier(trees, n_members=1, epochs=2, rescale=False).fit(table, y + shift)
    aleator.export_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    new = np.concatenate([table, rng.normal(size=(5000, 10)) / 10])
    (said,) = session.run(["prediction"], {"X": new})
    np.testing.assert_allclose(said - shift, model.predict(new) - shift, atol=1e-5 * y.std())


def test_what_onnx_cannot_read_is_named(tmp_path):
    noted = TABLE.assign(note=[f"{'old' if k % 3 else 'new'} {k}" for k in range(N)])
    with pytest.raises(ValueError, match="ONNX has no words: column 'note' is text"):
        aleator.export_onnx(encoded(epochs=2).fit(noted, TARGET), tmp_path / "m.onnx")
    own = PairRegressor(encoder=StandardScaler(), epochs=2, rescale=False).fit(X, y)
    with pytest.raises(ValueError, match="knows TableEncoder only, and this model has a StandardScaler in front"):
        aleator.export_onnx(own, tmp_path / "m.onnx")
    given = LossQuantifier(lambda t: np.zeros(len(t)), epochs=2, rescale=False).fit(TABLE, TARGET)
    with pytest.raises(ValueError, match="reads categories in a way of its own; pass given=True"):
        aleator.export_onnx(given, tmp_path / "m.onnx")
    aleator.export_onnx(given, tmp_path / "m.onnx", given=True)


# ---------------------------------------------------------------- rows that belong together


@pytest.mark.parametrize("model", [PairRegressor(), PairRegressor(lam=0.2), MeanVarianceRegressor()])
def test_groups_are_held_out_together(model):
    groups = np.array([f"g{k}" for k in rng.integers(23, size=442)])
    task = model._problem(X, y, None, groups)
    left_out = model._train(task, None).held_out
    assert len(left_out) == 5
    of_groups = [set(groups[part.rows]) for part in left_out]
    assert sum(map(len, of_groups)) == len(set.union(*of_groups)) == 23


def test_groups_make_the_scale_that_of_new_groups():
    """Rows of one group share an offset that only the group's number tells: rows left out one by one know it."""
    group = np.repeat(np.arange(60), 10)
    offset = rng.normal(size=60)
    table = np.column_stack([rng.normal(size=600), np.sin(group * 17.3) * 9, np.cos(group * 5.1) * 9])
    target = offset[group] + 0.05 * rng.normal(size=600)
    alone = PairRegressor(hidden=(50, 50)).fit(table, target)
    together = PairRegressor(hidden=(50, 50)).fit(table, target, groups=group)
    assert together.out_of_fold_["loss"].mean() > 2 * alone.out_of_fold_["loss"].mean()
    fresh = np.column_stack(
        [rng.normal(size=600), np.sin(rng.uniform(0, 9, 600)) * 9, np.cos(rng.uniform(0, 9, 600)) * 9]
    )
    new = rng.normal(size=600)  # offsets of new groups
    real = np.mean((together.predict(fresh) - new) ** 2)
    assert together.predict_loss(fresh).mean() == pytest.approx(real, rel=0.6)
    assert alone.predict_loss(fresh).mean() < together.predict_loss(fresh).mean()


def test_bad_groups():
    for groups, match in (
        (np.zeros(442), "all rows are of one group"),
        (np.zeros(10), "groups has 10 values, X has 442 rows"),
    ):
        with pytest.raises(ValueError, match=match):
            PairRegressor().fit(X, y, groups=groups)
        with pytest.raises(ValueError, match=match):
            encoded().fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="early_stopping holds rows back one by one"):
        PairRegressor(early_stopping=True).fit(X, y, groups=np.arange(442))
    PairRegressor(early_stopping=True).fit(X, y, groups=np.arange(442), validation=(X[:50], y[:50]))
    PairRegressor().fit(X[:60], y[:60], groups=[None, "a", "b"] * 20)  # no name is a name
    DropoutRegressor(epochs=3).fit(X[:60], y[:60], groups=[1, 2, 3] * 20)


# ---------------------------------------------------------------- rows left out


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_what_a_model_was_judged_by(loss):
    model = PairEnsemble(n_members=2, loss=loss).fit(X, y)
    judged = model.out_of_fold_
    assert sorted(judged["row"]) == list(range(442))
    assert judged["expected_loss"].mean() == pytest.approx(judged["loss"].mean())  # that is what the scale is
    np.testing.assert_allclose(np.sort(judged["loss"] / judged["expected_loss"]), np.sort(np.abs(model.scores_[:, 0])))
    own = np.abs(y - model.predict(X)) if loss == "absolute" else (y - model.predict(X)) ** 2
    assert judged["loss"].mean() > 1.05 * own.mean()  # rows not seen are harder
    assert np.corrcoef(judged["loss"], own)[0, 1] > 0.7  # and it is the row that it says
    twice = PairRegressor(loss=loss).fit(pd.concat([X, X]), pd.concat([y, y])).out_of_fold_
    assert len(twice) == 442
    two = PairRegressor(loss=loss, per_output=True).fit(X, np.column_stack([y, -y])).out_of_fold_
    assert list(two) == ["row", "loss_0", "loss_1", "expected_loss_0", "expected_loss_1"]
    assert not hasattr(model.set_params(epochs=2, rescale=False).fit(X, y), "out_of_fold_")


def test_a_quantifier_and_a_pair_are_judged_alike():
    from sklearn.linear_model import Ridge

    given = LossQuantifier(Ridge(), loss="absolute").fit(X, y).out_of_fold_
    pair = PairRegressor(loss="absolute").fit(X, y).out_of_fold_
    assert set(pair) <= set(given)
    assert given["loss"].mean() == pytest.approx(pair["loss"].mean(), rel=0.1)


def test_rows_of_weight_zero_are_not_there_for_the_encoder_either():
    weight = np.ones(N)
    weight[::3] = 0
    wrong = np.where(weight > 0, TARGET, 1e3)
    model = encoded(epochs=5).fit(TABLE, wrong, sample_weight=weight)
    without = encoded(epochs=5).fit(TABLE[weight > 0], TARGET[weight > 0])
    np.testing.assert_allclose(model.predict(TABLE), without.predict(TABLE), rtol=1e-6, atol=1e-6)


def test_outputs_that_cancel_are_encoded():
    shop = np.arange(N) % 40
    table = pd.DataFrame({"shop": [f"shop {k}" for k in shop], "other": rng.normal(size=N)})
    value = rng.normal(size=40)[shop]
    model = PairRegressor(encoder=TableEncoder(), hidden=(20,), epochs=60, rescale=False).fit(
        table, np.column_stack([value, -value])
    )
    assert np.corrcoef(model.predict(table)[:, 0], value)[0, 1] > 0.9


def test_arrays_with_an_encoder_of_another():
    model = PairRegressor(encoder=StandardScaler(), epochs=2, rescale=False).fit(X.to_numpy(), y)
    assert model.n_features_in_ == 10
    model.fit(X.to_numpy()[:, :3], y)
    assert model.n_features_in_ == 3
