"""LossQuantifier: any regressor, any loss, any table; right in scale, and the regressor left as it was."""

import hashlib
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, StackingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from aleator import LossQuantifier, losses
from aleator.estimators import cross_fitting
from aleator.metrics import coverage, loss_calibration

FAST = {"n_members": 2, "epochs": 5, "rescale": False}


def noisy(n=600, seed=0):
    """A straight line with noise that grows from left to right."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 2))
    return X, 3 * X[:, 0] + (0.1 + X[:, 0]) * rng.normal(size=n)


X, y = noisy()


# ---------------------------------------------------------------- any regressor


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Ulm", "Bonn", None], size=n, p=[0.5, 0.4, 0.1])
    size = rng.uniform(20, 200, size=n)
    y = size + rng.normal(size=n) * np.where(city == "Ulm", 60.0, 4.0)
    table = pd.DataFrame(
        {
            "size": np.where(rng.uniform(size=n) < 0.02, np.nan, size),
            "city": city,
            "kind": pd.Categorical(rng.choice(["house", "flat"], size=n)),
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, size=n), "D"),
            "text": [f"{rng.choice(['bright', 'dark'])} home number {k}" for k in range(n)],
        }
    )
    return table, y


def pipeline():
    return make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), ["size"]),
            (OneHotEncoder(handle_unknown="ignore"), ["city", "kind"]),
            (TfidfVectorizer(), "text"),
        ),
        Ridge(),
    )


def torch_function():
    import torch

    generator = torch.Generator().manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-1, 1, generator=generator)
    return lambda X: module(torch.as_tensor(np.asarray(X), dtype=torch.float32))


def boosters():
    import catboost
    import lightgbm
    import xgboost

    return {
        "xgboost": xgboost.XGBRegressor(n_estimators=20, n_jobs=1),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=20, n_jobs=1, verbose=-1),
        "catboost": catboost.CatBoostRegressor(iterations=20, verbose=0, allow_writing_files=False, thread_count=1),
    }


REGRESSORS = {
    "forest": lambda: RandomForestRegressor(20, random_state=0),
    "boosting": lambda: HistGradientBoostingRegressor(max_iter=20),
    "pipeline": pipeline,
    "xgboost": lambda: boosters()["xgboost"],
    "lightgbm": lambda: boosters()["lightgbm"],
    "catboost": lambda: boosters()["catboost"],
    "torch": torch_function,
    "lambda": lambda: lambda X: 3 * X[:, 0],
}


def digest(model, X):
    predict = model.predict if hasattr(model, "predict") else model
    said = predict(X)
    return hashlib.sha256(np.asarray(said.detach() if hasattr(said, "detach") else said).tobytes()).hexdigest()


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # lightgbm's own
def test_any_regressor(name):
    X, y = frame() if name == "pipeline" else noisy(300)
    regressor = REGRESSORS[name]()
    model = LossQuantifier(regressor, loss="absolute", n_members=2).fit(X, y)
    said = model.predict_uncertainty(X)
    assert said.expected_loss.shape == said.prediction.shape == (300,)
    assert (said.expected_loss > 0).all()
    if not hasattr(regressor, "fit"):
        return
    with pytest.raises(Exception, match="(?i)fit"):  # what was passed in is as it was
        regressor.predict(X)
    half = len(y) // 2
    regressor.fit(X[:half], y[:half])
    before = digest(regressor, X)
    model = LossQuantifier(regressor, cv="prefit", n_members=2).fit(X[half:], y[half:])
    model.predict_loss(X)
    assert digest(regressor, X) == before
    assert model.estimator_ is regressor
    np.testing.assert_array_equal(model.predict(X), np.ravel(regressor.predict(X)))


def test_the_quantifier_sees_text_and_categories_the_pipeline_reads():
    """The noise depends on the city, and a little on nothing else."""
    X, y = frame(1500)
    model = LossQuantifier(pipeline(), loss="absolute").fit(X[:1000], y[:1000])
    e = model.predict_loss(X[1000:])
    ulm = (X["city"] == "Ulm")[1000:]
    assert e[ulm].mean() > 2 * e[~ulm].mean()


def test_own_objects_need_no_base_class():
    class Mean:
        def fit(self, X, y):
            self.mean = y.mean()  # and returns nothing

        def predict(self, X):
            return np.full(len(X), self.mean)

    mean = Mean()
    model = LossQuantifier(mean, **FAST).fit(X, y)
    assert not hasattr(mean, "mean")
    np.testing.assert_allclose(model.predict(X), y.mean())


def test_regressors_that_are_peculiar():
    """A stack has no predict before it is fitted; CatBoost changes a parameter in its constructor."""
    stack = LossQuantifier(StackingRegressor([("ridge", Ridge())]), **FAST).fit(X, y)
    assert stack.predict_loss(X).shape == (600,)
    table, target = frame()
    table = table[["size", "kind"]].astype({"kind": str})
    import catboost

    cat = catboost.CatBoostRegressor(5, cat_features=["kind"], verbose=0, allow_writing_files=False, thread_count=1)
    assert LossQuantifier(cat, **FAST).fit(table, target).predict_loss(table).shape == (300,)
    column = LossQuantifier(Ridge(), **FAST).fit(X, pd.DataFrame({"price": y}))
    assert column.predict(X).shape == column.predict_loss(X).shape == (600,)


def test_frozen_and_function_are_taken_as_they_are():
    fitted = Ridge().fit(X[:300], y[:300])
    frozen = LossQuantifier(FrozenEstimator(fitted)).fit(X[300:], y[300:])
    given = LossQuantifier(fitted, cv="prefit").fit(X[300:], y[300:])
    called = LossQuantifier(fitted.predict).fit(X[300:], y[300:])
    for other in (given, called):
        np.testing.assert_array_equal(frozen.predict_loss(X), other.predict_loss(X))
    clone(frozen).fit(X[300:], y[300:])  # a clone of a frozen one is still fitted


def test_grid_search_and_pipeline():
    search = GridSearchCV(LossQuantifier(Ridge(), **FAST), {"estimator__alpha": [0.1, 10.0], "lam": [0.1, 1.0]}, cv=2)
    assert search.fit(X, y).best_estimator_.predict_loss(X).shape == (600,)
    piped = make_pipeline(StandardScaler(), LossQuantifier(Ridge(), **FAST)).fit(X, y)
    assert piped[-1].predict_loss(piped[:-1].transform(X)).shape == (600,)


# ---------------------------------------------------------------- right in scale


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball(0.8)", "huber(0.5)"])
def test_the_scale_is_right(loss):
    X, y = noisy(3000)
    new, target = noisy(3000, seed=1)
    model = LossQuantifier(HistGradientBoostingRegressor(), loss=loss).fit(X, y)
    said = model.predict_uncertainty(new)
    result = loss_calibration(target, said.prediction, said.expected_loss, loss, n_bins=5)
    assert 0.9 < result.ratio < 1.1
    assert result.bins["ratio"].between(0.7, 1.4).all()


def test_losses_on_training_rows_are_a_trap():
    """Residuals of a forest on the rows it was grown on are three to four times too small."""
    X, y = noisy(1000)
    new, target = noisy(2000, seed=1)
    forest = RandomForestRegressor(100, random_state=0)
    honest = LossQuantifier(forest).fit(X, y)
    trapped = LossQuantifier(clone(forest).fit(X, y), cv="prefit").fit(X, y)
    ratios = [
        loss_calibration(target, model.predict(new), model.predict_loss(new), n_bins=1).ratio
        for model in (honest, trapped)
    ]
    assert 0.85 < ratios[0] < 1.15
    assert ratios[1] < 0.3


def test_any_cost():
    """Too low costs five times too high: for a normal error of deviation s the mean cost is 6 s / sqrt(2 pi)."""

    def cost(y, y_pred):
        return np.where(y > y_pred, 5 * (y - y_pred), y_pred - y)

    X, y = noisy(4000)
    model = LossQuantifier(lambda X: 3 * X[:, 0], loss=cost).fit(X, y)
    new, target = noisy(4000, seed=1)
    true = 6 * (0.1 + new[:, 0]) / np.sqrt(2 * np.pi)
    e = model.predict_loss(new)
    assert e.mean() == pytest.approx(true.mean(), rel=0.08)
    assert np.corrcoef(e, true)[0, 1] > 0.95
    assert loss_calibration(target, model.predict(new), e, cost).ratio == pytest.approx(1, abs=0.1)
    low, high = model.predict_interval(new, 0.8)
    assert np.mean(target < low) == pytest.approx(0.1, abs=0.02)
    assert np.mean(target > high) == pytest.approx(0.1, abs=0.02)
    low, high = model.predict_interval(new, 0.8, symmetric=True)  # the level set of the cost: short to the dear side
    np.testing.assert_allclose(model.predict(new) - low, 5 * (high - model.predict(new)), rtol=1e-6)
    assert coverage(target, low, high) == pytest.approx(0.8, abs=0.03)
    with pytest.raises(ValueError, match="std belongs to the squared loss; this model was trained with the cost loss"):
        model.predict(new, return_std=True)


def test_a_cost_that_does_not_grow_is_warned_of():
    model = (
        LossQuantifier(lambda X: 3 * X[:, 0], loss=lambda y, p: np.sin(y - p) ** 2, **FAST).fit(X, y).conformalize(X, y)
    )
    with pytest.warns(UserWarning, match="does not grow with the distance from the prediction"):
        model.predict_interval(X)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_units_do_not_matter(factor):
    base = LossQuantifier(Ridge(), loss="absolute", n_members=2).fit(X, y).predict_loss(X)
    scaled = LossQuantifier(Ridge(), loss="absolute", n_members=2).fit(X, factor * y).predict_loss(X)
    np.testing.assert_allclose(scaled / factor, base, rtol=1e-3)  # the prediction is an input, rounded in other places


def test_a_perfect_regressor_has_no_loss():
    with pytest.warns(UserWarning, match="nearly perfect"):
        model = LossQuantifier(lambda X: 3 * X[:, 0], cv="prefit").fit(X, 3 * X[:, 0])
    assert (model.predict_loss(X) == 0).all()


# ---------------------------------------------------------------- folds


def test_folds_of_any_kind():
    groups = np.arange(600) // 10
    for cv in (3, KFold(4, shuffle=True, random_state=0), RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
               TimeSeriesSplit(4), ShuffleSplit(1, test_size=0.3, random_state=0), [(np.arange(300), np.arange(300, 600))]):  # fmt: skip
        model = LossQuantifier(Ridge(), cv=cv, n_members=1).fit(X, y)
        seen = model.out_of_fold_
        assert np.isfinite(seen["expected_loss"]).all()
        np.testing.assert_allclose(seen["loss"], (y[seen["row"]] - seen["prediction"]) ** 2)
    model = LossQuantifier(Ridge(), cv=GroupKFold(3), n_members=1).fit(X, y, groups=groups)
    assert model.out_of_fold_.groupby(model.out_of_fold_["row"] // 10)["fold"].nunique().max() == 1
    model = LossQuantifier(Ridge(), cv=3, n_members=1).fit(X, y, groups=groups)
    assert model.out_of_fold_.groupby(model.out_of_fold_["row"] // 10)["fold"].nunique().max() == 1
    small = LossQuantifier(Ridge(), cv=LeaveOneOut(), n_members=1).fit(X[:40], y[:40])
    assert len(small.out_of_fold_) == 40


def test_out_of_fold_predictions_are_what_they_say():
    model = LossQuantifier(Ridge(), cv=KFold(3), n_members=1).fit(X, y)
    for k, (train, test) in enumerate(KFold(3).split(X)):
        seen = model.out_of_fold_[model.out_of_fold_["fold"] == k]
        assert seen["row"].tolist() == test.tolist()
        np.testing.assert_array_equal(seen["prediction"], Ridge().fit(X[train], y[train]).predict(X[test]))


def test_copies_of_a_row_stay_together():
    """A nearest neighbour would find its copy in the other folds, and seem perfect."""
    twice, target = np.tile(X, (2, 1)), np.tile(y, 2)
    model = LossQuantifier(KNeighborsRegressor(1), n_members=1).fit(twice, target)
    assert model.out_of_fold_["loss"].mean() > 0.5 * np.mean((y - 3 * X[:, 0]) ** 2)


def test_rows_that_share_their_inputs_but_not_their_targets_are_told_apart():
    """A table of categories: every combination was seen in training, and the regressor is judged so."""
    rng = np.random.default_rng(0)
    shop, day = rng.integers(0, 12, size=(2, 2000))
    table = np.column_stack([shop, day])
    target = 10.0 * shop + 3 * day + rng.normal(size=2000)
    model = LossQuantifier(RandomForestRegressor(30, random_state=0), loss="absolute", n_members=2).fit(
        table[:1500], target[:1500]
    )
    ratio = loss_calibration(
        target[1500:], model.predict(table[1500:]), model.predict_loss(table[1500:]), "absolute"
    ).ratio
    assert 0.85 < ratio < 1.2
    constant = LossQuantifier(DummyRegressor(), **FAST).fit(np.ones((600, 1)), y)
    assert np.isfinite(constant.predict_loss([[1.0]])).all()


def test_groups_of_near_copies_need_groups():
    """Ten near-copies of each row, noise in common: only with groups held out together is the scale right."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(150), 10)
    center, noise = rng.uniform(size=(150, 2)), rng.normal(size=150)
    X = center[groups] + 1e-3 * rng.normal(size=(1500, 2))
    y = 3 * X[:, 0] + noise[groups]
    new = rng.uniform(size=(2000, 2))
    target = 3 * new[:, 0] + rng.normal(size=2000)
    forest = RandomForestRegressor(30, random_state=0)
    ratio = {}
    for name, params in {"apart": {}, "together": {"groups": groups}}.items():
        model = LossQuantifier(forest, n_members=2).fit(X, y, **params)
        ratio[name] = loss_calibration(target, model.predict(new), model.predict_loss(new), n_bins=1).ratio
    assert ratio["apart"] < 0.3
    assert 0.8 < ratio["together"] < 1.3


def test_groups_are_held_out_together_also_for_a_model_that_is_there():
    """The quantifiers, too, would learn near-copies by heart: intervals would be too narrow."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 25)
    center, noise = rng.uniform(size=(60, 2)), rng.normal(size=60)
    X = center[groups] + 1e-4 * rng.normal(size=(1500, 2))
    y = noise[groups]
    new = rng.uniform(size=(2000, 2))
    target = rng.normal(size=2000)
    covered = [
        coverage(
            target, *LossQuantifier(lambda X: np.zeros(len(X)), n_members=2).fit(X, y, **params).predict_interval(new)
        )
        for params in ({}, {"groups": groups})
    ]
    assert covered[0] < 0.85
    assert 0.85 < covered[1] < 0.96
    for cv in (
        ShuffleSplit(1, random_state=0),
        [(np.arange(300), np.arange(300, 600)), (np.arange(200), np.arange(300, 600))],
    ):
        assert LossQuantifier(Ridge(), cv=cv, n_members=1).fit(*noisy()).out_of_fold_["expected_loss"].notna().all()


def test_folds_that_follow_each_other_are_held_out_together():
    model = LossQuantifier(Ridge(), cv=TimeSeriesSplit(8), n_members=1).fit(X, y)
    oof = cross_fitting.OutOfFold(*(model.out_of_fold_[c].to_numpy() for c in ("row", "fold")), y[:, None])
    part = cross_fitting.held_out_together(oof, X, y, None, 0)
    assert (np.diff(part) >= 0).all()  # rows are in the order of time
    assert set(part) == {0, 1, 2, 3, 4}


def test_order_of_rows_does_not_matter():
    order = np.random.default_rng(0).permutation(600)
    a = LossQuantifier(Ridge(), **FAST).fit(X, y)
    b = LossQuantifier(Ridge(), **FAST).fit(X[order], y[order])
    np.testing.assert_allclose(a.predict_loss(X), b.predict_loss(X), rtol=1e-5)


def test_same_seed_same_bits():
    one = LossQuantifier(Ridge(), n_jobs=1).fit(X, y).predict_loss(X)
    assert LossQuantifier(Ridge(), n_jobs=2).fit(X, y).predict_loss(X).tobytes() == one.tobytes()
    assert LossQuantifier(Ridge(), random_state=1).fit(X, y).predict_loss(X).tobytes() != one.tobytes()


def test_rows_do_not_see_each_other():
    model = LossQuantifier(Ridge(), **FAST).fit(X, y)
    many = np.tile(X, (60, 1))  # more than one block
    np.testing.assert_array_equal(model.predict_loss(many)[:600], model.predict_loss(X))


# ---------------------------------------------------------------- weights and metadata


def test_whole_weights_are_counts_for_any_estimator():
    weight = np.random.default_rng(0).integers(0, 4, size=600)
    weighted = LossQuantifier(KNeighborsRegressor(), **FAST).fit(X, y, sample_weight=weight)
    repeated = LossQuantifier(KNeighborsRegressor(), **FAST).fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X))
    np.testing.assert_allclose(weighted.predict_loss(X), repeated.predict_loss(X), rtol=1e-6)


def test_copies_are_not_given_to_a_regressor_that_holds_out_rows_itself():
    """A search among neighbours would find a copy of each row in its own other folds, and take one neighbour."""
    weight = np.random.default_rng(0).integers(1, 4, size=600)
    search = GridSearchCV(Ridge(), {"alpha": [1e-3, 1e3]}, cv=3)
    model = LossQuantifier(search, **FAST).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), search.fit(X, y, sample_weight=weight).predict(X))


def test_a_common_factor_is_the_estimators_to_understand():
    weight = np.full(600, 0.001)
    model = LossQuantifier(Ridge(), **FAST).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), Ridge().fit(X, y, sample_weight=weight).predict(X))


def test_rows_of_weight_zero_are_not_looked_at():
    table, target = frame()
    table["street"] = [f"street {k % 30}" for k in range(300)]
    weight = (np.arange(300) % 4 > 0).astype(float)
    other = table.assign(size=np.where(weight > 0, table["size"], 1e6))
    models = [
        LossQuantifier(lambda t: 100 + np.zeros(len(t)), **FAST).fit(X, y, sample_weight=weight)
        for X, y in ((table, target), (other, np.where(weight > 0, target, 1e6)))
    ]
    np.testing.assert_array_equal(*[model.predict_loss(table) for model in models])


def test_other_weights_go_to_the_estimator():
    weight = np.random.default_rng(0).uniform(size=600)
    model = LossQuantifier(Ridge(), **FAST).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), Ridge().fit(X, y, sample_weight=weight).predict(X))
    piped = LossQuantifier(make_pipeline(StandardScaler(), Ridge()), **FAST).fit(X, y, sample_weight=weight)
    inner = make_pipeline(StandardScaler(), Ridge()).fit(X, y, ridge__sample_weight=weight)
    np.testing.assert_allclose(piped.predict(X), inner.predict(X))
    logged = LossQuantifier(TransformedTargetRegressor(Ridge()), **FAST).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(logged.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="fit of KNeighborsRegressor takes no sample_weight"):
        LossQuantifier(KNeighborsRegressor(), **FAST).fit(X, y, sample_weight=weight)


class Curious(RegressorMixin, BaseEstimator):
    """Remembers the metadata it was given."""

    def fit(self, X, y, sample_weight=None, tag=None):
        assert tag is None or (tag == X[:, 0]).all()  # row by row, in every fold
        self.tag_, self.weight_ = tag, sample_weight
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_further_parameters_reach_the_inner_fit_row_by_row():
    assert LossQuantifier(Curious(), **FAST).fit(X, y, tag=X[:, 0]).estimator_.tag_.tolist() == X[:, 0].tolist()


def test_metadata_routing():
    weight, groups = np.random.default_rng(0).uniform(size=600), np.arange(600) // 10
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Curious().set_fit_request(sample_weight=True, tag=True)
        model = LossQuantifier(inner, cv=GroupKFold(3), **FAST)
        model.set_fit_request(sample_weight=True, groups=True).set_score_request(sample_weight=False)
        model.fit(X, y, sample_weight=weight, groups=groups, tag=X[:, 0])
        assert model.estimator_.weight_.tolist() == weight.tolist()
        assert model.estimator_.tag_.tolist() == X[:, 0].tolist()
        assert model.out_of_fold_.groupby(model.out_of_fold_["row"] // 10)["fold"].nunique().max() == 1
        search = GridSearchCV(model, {"lam": [0.1]}, cv=2).fit(X, y, sample_weight=weight, groups=groups, tag=X[:, 0])
        assert search.best_estimator_.estimator_.weight_ is not None
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        piped = make_pipeline(scaler, Ridge().set_fit_request(sample_weight=True))
        LossQuantifier(piped, rounds=2, **FAST).fit(X, y)
        refuses = LossQuantifier(Curious().set_fit_request(sample_weight=False), **FAST)
        refuses.fit(X, y, sample_weight=weight)
        assert refuses.estimator_.weight_ is None


# ---------------------------------------------------------------- several outputs


def test_several_outputs():
    rng = np.random.default_rng(0)
    Y = np.column_stack([y, 100 * X[:, 1] + 10 * rng.normal(size=600)])
    shared = LossQuantifier(LinearRegression(), **FAST).fit(X, Y)
    assert shared.predict(X).shape == (600, 2)
    assert shared.predict_loss(X).shape == (600,)
    with pytest.raises(ValueError, match="set per_output=True"):
        shared.predict_interval(X)
    each = LossQuantifier(LinearRegression(), per_output=True).fit(X, Y)
    said = each.predict_uncertainty(X)
    assert said.std.shape == (600, 2)
    np.testing.assert_allclose(said.std[:, 1].mean(), 10, rtol=0.15)
    low, high = each.predict_interval(X, 0.9)
    np.testing.assert_allclose(np.mean((low <= Y) & (high >= Y), axis=0), 0.9, atol=0.05)
    rows = LossQuantifier(LinearRegression(), loss=lambda y, p: np.abs(y - p).max(axis=1), **FAST).fit(X, Y)
    assert rows.predict_loss(X).shape == (600,)
    with pytest.raises(ValueError, match=r"needs a loss for each of 2 outputs, 'own' gives one a row"):
        LossQuantifier(LinearRegression(), loss=lambda y, p: np.abs(y - p).max(axis=1), per_output=True, **FAST).fit(
            X, Y
        )


# ---------------------------------------------------------------- intervals, corrections, rounds


def test_intervals_without_a_calibration_set():
    X, y = noisy(1000)
    new, target = noisy(4000, seed=1)
    model = LossQuantifier(HistGradientBoostingRegressor(), loss="absolute", n_members=2).fit(X, y)
    for wanted in (0.5, 0.8, 0.95):
        assert coverage(target, *model.predict_interval(new, wanted)) == pytest.approx(wanted, abs=0.04)


@pytest.mark.parametrize("method", ["factor", "isotonic"])
def test_recalibration(method):
    """A regressor that got worse since: the expected loss is right again, and rows keep their order."""
    model = LossQuantifier(lambda X: 3 * X[:, 0], loss="absolute", n_members=2).fit(X, y)
    new, target = noisy(2000, seed=1)
    target = 3 * new[:, 0] + 4 * (target - 3 * new[:, 0])  # four times the noise
    before = model.predict_loss(new)
    assert loss_calibration(target, model.predict(new), before, "absolute").ratio < 0.35
    model.recalibrate(new[:1000], target[:1000], method)
    after = model.predict_loss(new[1000:])
    result = loss_calibration(target[1000:], model.predict(new[1000:]), after, "absolute", 5)
    assert result.ratio == pytest.approx(1, abs=0.1)
    assert result.error < 0.15
    order = np.argsort(before[1000:], kind="stable")
    assert (np.diff(after[order]) >= -1e-12).all()
    low, high = model.predict_interval(new[1000:], 0.9)  # follow the new scale
    assert coverage(target[1000:], low, high) == pytest.approx(0.9, abs=0.04)
    low, high = model.conformalize(new[1000:1500], target[1000:1500]).predict_interval(new[1500:], 0.9)
    assert coverage(target[1500:], low, high) == pytest.approx(0.9, abs=0.04)
    model.recalibrate(new[:1000], target[:1000], method)
    with pytest.raises(
        ValueError, match=r"recalibrate was called after conformalize.* call conformalize\(X, y\) again"
    ):
        model.predict_interval(new)
    assert model.fit(X, y).predict_loss(new).mean() == pytest.approx(before.mean())  # forgotten
    with pytest.raises(ValueError, match="unknown method 'isotone': did you mean 'isotonic'"):
        model.recalibrate(new, target, "isotone")


def test_rounds_are_the_joint_loss_in_turn():
    """80 % of the samples are noise in two strips: with weights f(z) a spline fits the clean rest better."""
    from aleator.datasets import two_strips, two_strips_truth

    data = two_strips(2000, random_state=0)
    grid = np.linspace(0, 1, 500)[:, None]
    truth, _ = two_strips_truth(grid[:, 0])
    clean = ~(((grid[:, 0] > 0.2) & (grid[:, 0] < 0.3)) | ((grid[:, 0] > 0.6) & (grid[:, 0] < 0.7)))
    ridge = make_pipeline(SplineTransformer(15), Ridge(1e-3))
    errors = []
    for rounds in (1, 3):
        model = LossQuantifier(ridge, rounds=rounds).fit(data.X, data.y)
        errors.append(np.sqrt(np.mean((model.predict(grid) - truth)[clean] ** 2)))
    assert errors[1] < 0.85 * errors[0]


def test_one_round_leaves_the_regressor_alone():
    np.testing.assert_array_equal(LossQuantifier(Ridge(), **FAST).fit(X, y).predict(X), Ridge().fit(X, y).predict(X))


# ---------------------------------------------------------------- bad input


def quantify(estimator=None, loss="squared", X=X, y=y, **params):
    return LossQuantifier(Ridge() if estimator is None else estimator, loss=loss, **(FAST | params)).fit(X, y)


def nans(y, y_pred):
    return np.where(np.arange(len(y)) == 7, np.nan, np.abs(y - y_pred))


BAD = {
    "estimator is neither": (lambda: quantify("ridge"), "estimator must have a method predict, or be a function X -> y; a str is neither"),
    "estimator has no predict": (lambda: quantify(StandardScaler()), "must have a method predict.*StandardScaler is neither"),
    "a class": (lambda: quantify(Ridge), r"got the class Ridge: write Ridge\(\)"),
    "negative losses": (lambda: quantify(loss=lambda y, p: y - p), r"loss 'own' is negative in row \d+, -\d"),
    "NaN losses": (lambda: quantify(loss=nans), r"loss 'nans' is nan in row 7: y="),
    "one loss for all": (lambda: quantify(loss=lambda y, p: np.mean((y - p) ** 2)), "one loss for each of the 600 rows, and gives a single number"),
    "too few losses": (lambda: quantify(loss=lambda y, p: np.abs(y - p)[:10]), "one loss for each of the 600 rows, and gives 10"),
    "losses of words": (lambda: quantify(loss=lambda y, p: np.full(len(y), "dear")), "must give numbers"),
    "unknown loss": (lambda: quantify(loss="square"), "unknown loss 'square': did you mean 'squared'"),
    "a function of the wrong length": (lambda: quantify(lambda X: X[:5, 0]), "function must predict one value for each of the 600 rows, and gives 5 values"),
    "a function of one number": (lambda: quantify(lambda X: 3.0), "gives a single number"),
    "two outputs for one": (lambda: quantify(lambda X: X), r"predicts an array of shape \(600, 2\) where y has 1 output"),
    "NaN predictions": (lambda: quantify(lambda X: np.full(len(X), np.nan)), "the prediction of function for row 0 is nan"),
    "predictions of words": (lambda: quantify(lambda X: ["a"] * len(X)), "the predictions of function are not numbers"),
    "more folds than rows": (lambda: quantify(X=X[:3], y=y[:3], cv=5), "cv=5 must be at least 2 and at most the number of rows: n_samples=3"),
    "one fold": (lambda: quantify(cv=1), "cv=1 must be at least 2"),
    "equal rows": (lambda: quantify(X=np.ones((50, 2)), y=np.ones(50)), "all 50 rows of X and y are equal"),
    "no columns": (lambda: quantify(X=pd.DataFrame(index=range(600))), "X has no columns"),
    "no loss": (lambda: quantify(loss=None), "a name, a Loss, or a function"),
    "a cost of single numbers": (lambda: quantify(loss=lambda y, p: 1.0 if y > p else 2.0), "loss 'own' fails on arrays of 120 targets|fails on arrays of 600"),
    "unknown cv": (lambda: quantify(cv="five"), "cv must be a number of folds, a splitter, 'auto' or 'prefit', got 'five'"),
    "overlapping folds": (lambda: quantify(cv=[(np.arange(600), np.arange(20))]), "row 0 is in both parts of fold 0"),
    "prefit, and a fit parameter": (lambda: LossQuantifier(lambda X: X[:, 0]).fit(X, y, tag=1), "the fit parameter 'tag' asks to fit the estimator"),
    "prefit, and rounds": (lambda: quantify(lambda X: X[:, 0], rounds=2), "rounds > 1 asks to fit the estimator"),
    "rounds without weights": (lambda: quantify(KNeighborsRegressor(), rounds=2), "fit of KNeighborsRegressor takes no sample_weight"),
    "no rounds": (lambda: quantify(rounds=0), "rounds must be a whole number >= 1, got 0"),
    "rows of y": (lambda: quantify(y=y[:10]), "y has 10 rows, X has 600"),
    "NaN in y": (lambda: quantify(y=np.where(np.arange(600) == 3, np.nan, y)), "The first is in y at row 3"),
    "infinity in X": (lambda: quantify(lambda X: X[:, 1], X=np.where(np.arange(600)[:, None] == [[4, 9]], np.inf, X)), "The first is in X at row 4, column 0"),
    "infinity in a frame": (lambda: quantify(lambda X: np.zeros(len(X)), X=pd.DataFrame({"a": X[:, 0], "b": np.where(np.arange(600) == 5, np.inf, 0)}).assign(c="x")), "column 'b' of X is infinite in row 5"),
    "an encoder of words": (lambda: quantify(encoder=lambda X: np.full((len(X), 1), "a")), "the encoder must give numbers"),
    "an encoder of NaN": (lambda: quantify(encoder=lambda X: np.full((len(X), 1), np.nan)), "the encoder gives nan in row 0, column 0"),
    "an encoder of the wrong length": (lambda: quantify(encoder=lambda X: X[:5]), r"one row for each of the 600, and gives shape \(5, 2\)"),
    "groups of the wrong length": (lambda: LossQuantifier(Ridge(), **FAST).fit(X, y, groups=[1, 2]), "inconsistent numbers of samples"),
    "no encoder": (lambda: quantify(encoder=3), "encoder must be a transformer or a function, got a int"),
    "lists in a column": (lambda: quantify(lambda X: np.zeros(len(X)), X=pd.DataFrame({"a": [[1], [2]] * 20}), y=y[:40]), r"column 'a' holds values such as \[1\]"),
    "a column twice": (lambda: quantify(X=pd.DataFrame(X, columns=["a", "a"])), "column 'a' appears twice"),
    "weights of zero": (lambda: LossQuantifier(lambda X: X[:, 0]).fit(X, y, sample_weight=np.eye(600)[0]), "sample_weight is zero for all rows but at most one"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    run, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message):
        run()


def test_prefit_wants_a_fitted_model_and_other_rows():
    with pytest.raises(NotFittedError, match="this Ridge is not fitted. Fit it first, on other rows"):
        quantify(Ridge(), cv="prefit")
    with pytest.raises(NotFittedError, match="this CatBoostRegressor is not fitted"):
        quantify(boosters()["catboost"], cv="prefit")
    neighbours = KNeighborsRegressor().fit(X, y)
    with pytest.warns(UserWarning, match="holds this very table as its training data"):
        quantify(neighbours, cv="prefit")
    with pytest.warns(UserWarning, match=r"nearly perfect here, R\^2 > 0.999"):
        quantify(RandomForestRegressor(10, bootstrap=False, random_state=0).fit(X, y), cv="prefit")


def test_unseen_categories_and_reordered_columns():
    table, target = frame()
    model = LossQuantifier(pipeline(), **FAST).fit(table, target)
    with pytest.warns(
        UserWarning, match="column 'city' has values never seen in fit, such as 'Oslo', in 1 of 300 rows"
    ):
        e = model.predict_loss(table.assign(city=["Oslo", *table["city"][1:]]))
    assert np.isfinite(e).all()
    with pytest.raises(ValueError, match="Column 0 is 'city' here and was 'size' in fit"):
        model.predict_loss(table[["city", "size", "kind", "sold", "text"]])
    with pytest.raises(ValueError, match="missing"):
        model.predict_loss(table.drop(columns="sold"))


def test_nothing_is_left_of_a_fit_that_failed():
    model = LossQuantifier(Ridge(), **FAST).fit(X, y)
    before = model.predict_loss(X)
    with pytest.raises(ValueError, match="negative"):
        model.set_params(loss=lambda y, p: y - p).fit(X, y)
    np.testing.assert_array_equal(model.predict_loss(X), before)
    fresh = LossQuantifier(Ridge(), loss=lambda y, p: y - p, **FAST)
    with pytest.raises(ValueError, match="negative"):
        fresh.fit(X, y)
    assert set(vars(fresh)) == set(LossQuantifier(Ridge()).get_params(deep=False))


def test_settings_changed_later_do_not_change_the_model():
    model = LossQuantifier(Ridge(), loss="absolute", **FAST).fit(X, y)
    before = model.predict_loss(X)
    model.set_params(loss="squared", use_prediction=False, per_output=True, encoder=lambda X: X)
    np.testing.assert_array_equal(model.predict_loss(X), before)


def test_no_global_state_is_touched():
    state, filters = np.random.get_state()[1].copy(), list(warnings.filters)
    LossQuantifier(Ridge(), **FAST).fit(X, y).predict_loss(X)
    assert (np.random.get_state()[1] == state).all()
    assert warnings.filters == filters


def test_own_loss_objects_and_names_agree():
    own = losses.Loss("own", lambda t, p: abs(t - p), lambda t, p: 1.0 if p > t else -1.0)
    a = LossQuantifier(Ridge(), loss="absolute", **FAST).fit(X, y).predict_loss(X)
    b = LossQuantifier(Ridge(), loss=own, **FAST).fit(X, y).predict_loss(X)
    c = LossQuantifier(Ridge(), loss=lambda y, p: np.abs(y - p), **FAST).fit(X, y).predict_loss(X)
    np.testing.assert_allclose(a, b)
    np.testing.assert_allclose(a, c)


def test_own_encoders_and_no_prediction():
    images = X.reshape(600, 2, 1)  # not a table: only an own encoder can read it
    model = LossQuantifier(lambda X: 3 * X[:, 0, 0], encoder=lambda X: X[:, :, 0], **FAST).fit(images, y)
    plain = LossQuantifier(lambda X: 3 * X[:, 0], **FAST).fit(X, y)
    np.testing.assert_allclose(model.predict_loss(images), plain.predict_loss(X))
    alone = LossQuantifier(lambda X: 3 * X[:, 0], use_prediction=False, **FAST).fit(X, y)
    assert alone.quantifiers_.n_inputs == plain.quantifiers_.n_inputs - 1
    scaled = LossQuantifier(Ridge(), encoder=StandardScaler(), **FAST).fit(X, y)
    np.testing.assert_allclose(
        scaled.predict_loss(X), LossQuantifier(Ridge(), **FAST).fit(X, y).predict_loss(X), rtol=1e-4
    )


def test_an_encoder_that_changes_its_mind_is_told_so():
    wide = {"columns": 3}
    model = LossQuantifier(Ridge(), encoder=lambda X: np.ones((len(X), wide["columns"])), **FAST).fit(X, y)
    wide["columns"] = 5
    with pytest.raises(ValueError, match="the encoder gives 5 columns, and in fit it gave 3"):
        model.predict_loss(X)
    frozen = LossQuantifier(Ridge(), encoder=FrozenEstimator(StandardScaler().fit(X)), **FAST).fit(X, y)
    assert np.isfinite(frozen.predict_loss(X)).all()


def test_a_column_target_keeps_its_shape():
    model = LossQuantifier(LinearRegression(), loss=lambda y, p: np.abs(y - p)[:, 0]).fit(X, y[:, None])
    low, high = model.predict_interval(X[:7])
    assert model.predict(X[:7]).shape == model.predict_loss(X[:7]).shape == low.shape == high.shape == (7, 1)


def test_lists_of_numbers_and_text():
    rows = [[float(a), "left" if a < 0.5 else "right"] for a in X[:, 0]]
    model = LossQuantifier(lambda X: np.zeros(len(X)), **FAST).fit(rows, y)
    assert model.encoder_.kinds_ == ["number", "few"]


def test_outside_the_data_nothing_is_claimed_that_was_not_seen():
    model = LossQuantifier(lambda rows: 3 * np.clip(rows[:, 0], 0, 1), **FAST).fit(X, y)
    inside, outside = model.predict_loss(X), model.predict_loss(1e3 * np.array([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]))
    assert (0.5 * inside.min() <= outside).all()
    assert (outside <= 2 * inside.max()).all()


# ---------------------------------------------------------------- predictions beyond all plausible ones


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball(0.9)", "huber(2.0)", "logcosh"])
def test_a_prediction_far_beyond_all_targets_is_expected_to_lose_at_least_the_way_back(loss):
    model = LossQuantifier(LinearRegression(), loss=loss, n_members=2, random_state=0).fit(X, y)
    near, far, as_far = np.tile(X[:1], (3, 1))
    far[0], as_far[0] = 1e6, -1e6
    rows = np.stack([near, far, as_far])
    said = model.predict_uncertainty(rows)
    low, high = model.prediction_range_[:, 0]
    assert low < y.min() < y.max() < high < said.prediction[1]
    assert said.prediction[2] < low < said.prediction[0] < high
    least = losses.get(loss)(np.clip(said.prediction, low, high), said.prediction)
    assert (said.expected_loss >= least).all()
    np.testing.assert_allclose(said.expected_loss[1:], least[1:], rtol=0.01)
    assert least[0] == 0.0


def test_a_wrong_target_spoils_only_the_rows_whose_predictions_it_spoils():
    wrong = y.copy()
    wrong[7] += 1e6 * y.std()
    forest = RandomForestRegressor(20, min_samples_leaf=2, random_state=0)
    clean = LossQuantifier(forest, loss="absolute", random_state=0).fit(X, y)
    with_one = LossQuantifier(forest, loss="absolute", random_state=0).fit(X, wrong)
    new, truth = noisy(2000, 5)
    realised, expected = np.abs(truth - with_one.predict(new)), with_one.predict_loss(new)
    assert realised.mean() > 10 * np.abs(truth - clean.predict(new)).mean()  # some leaves hold the wrong target
    assert expected.mean() == pytest.approx(realised.mean(), rel=0.1)
    assert np.median(expected) == pytest.approx(np.median(clean.predict_loss(new)), rel=0.5)
    assert with_one.check_.outliers == (7,)


def test_the_range_of_predictions_knows_weights_outputs_and_custom_losses():
    both = np.column_stack([y, 100 * y])
    shared = LossQuantifier(LinearRegression(), n_members=1, epochs=2, rescale=False).fit(X, both)
    np.testing.assert_allclose(shared.prediction_range_[:, 1], 100 * shared.prediction_range_[:, 0])
    own = LossQuantifier(LinearRegression(), loss=lambda y, p: np.abs(y - p), n_members=1, epochs=2, rescale=False).fit(
        X, y
    )
    assert np.isinf(own.prediction_range_).all()
    weight = np.where(np.arange(len(y)) == 3, 0.0, 1e-200)
    wrong = np.where(weight == 0, 1e9, y)
    weighted = LossQuantifier(LinearRegression(), n_members=1, epochs=2, rescale=False).fit(
        X, wrong, sample_weight=weight
    )
    without = LossQuantifier(LinearRegression(), n_members=1, epochs=2, rescale=False).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(weighted.prediction_range_, without.prediction_range_)


@pytest.mark.parametrize("method", ["factor", "isotonic"])
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_an_absurd_prediction_does_not_decide_a_recalibration(loss, method):
    new, truth = noisy(400, 3)
    truth = truth + 2 * (truth - 3 * new[:, 0])  # three times the noise
    with_one = new.copy()
    with_one[0, 1] = 1e9
    regressor = LinearRegression().fit(X, y)
    models = [LossQuantifier(regressor, loss=loss, cv="prefit", n_members=2).fit(*noisy(600, 1)) for _ in range(2)]
    clean, spoilt = (m.recalibrate(rows, truth, method) for m, rows in zip(models, (new, with_one), strict=True))
    assert abs(spoilt.predict(with_one[:1])[0]) > 1e5
    np.testing.assert_allclose(spoilt.predict_loss(new[1:]).mean(), clean.predict_loss(new[1:]).mean(), rtol=0.1)
