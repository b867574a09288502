"""The scale for a regressor that lacks no fold: what one more fold is worth, for any regressor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor

import aleator
from aleator import LossQuantifier
from aleator.training import defaults

FAST = {"n_members": 1, "random_state": 0, "quantifier": "network"}


class Learner(RegressorMixin, BaseEstimator):
    """Predicts n^-power, where n is the number of rows it was fitted to; `fits` has these numbers."""

    fits: list[int] = []  # noqa: RUF012

    def __init__(self, power=0.5):
        self.power = power

    def fit(self, X, y, sample_weight=None):
        self.n_ = len(y) if sample_weight is None else sample_weight.sum()
        Learner.fits.append(self.n_)
        return self

    def predict(self, X):
        return np.full(len(X), float(self.n_) ** -self.power)


def prediction_as_loss(y, y_pred):
    return y_pred


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=n)


@pytest.mark.parametrize("cv", ["auto", 5, 10, 20])
@pytest.mark.parametrize("power", [0.1, 0.5, 1.0])
def test_losses_that_fall_like_a_power_of_the_rows_are_extrapolated_exactly(cv, power):
    X, y = table()
    model = LossQuantifier(Learner(power), loss=prediction_as_loss, cv=cv, **FAST).fit(X, y)
    assert_allclose(model.predict_loss(X), 400**-power, rtol=2e-3)
    without = LossQuantifier(Learner(power), loss=prediction_as_loss, cv=KFold(5), **FAST).fit(X, y)
    assert_allclose(without.predict_loss(X), 320**-power, rtol=2e-3)


def test_a_loss_that_grows_with_the_rows_is_not_extrapolated():
    X, y = table()
    model = LossQuantifier(Learner(-0.5), loss=prediction_as_loss, **FAST).fit(X, y)
    assert model.fold_share_.tolist() == [1.0]


@pytest.mark.parametrize(
    ("n", "cv", "pairs"),
    [(400, "auto", 5), (400, 5, 2), (400, 3, 1), (400, 2, 0), (1500, "auto", 3), (4500, "auto", 1)],
)
def test_how_many_regressors_are_fitted(n, cv, pairs):
    X, y = table(n)
    Learner.fits.clear()
    LossQuantifier(Learner(), loss=prediction_as_loss, cv=cv, epochs=2, **FAST).fit(X, y)
    n_folds = {"auto": 10 if n < 4000 else 5}.get(cv, cv)
    assert len(Learner.fits) == n_folds + pairs + 1
    expected = sorted([1 - 1 / n_folds] * n_folds + [1 - 2 / n_folds] * pairs + [1])
    assert_allclose(np.sort(Learner.fits) / n, expected, atol=2 / n)


@pytest.mark.parametrize(("n_folds", "n_rows"), [(k, n) for k in range(2, 21) for n in (100, 5000, 20_000)])
def test_pairs_are_no_more_than_half_of_the_folds(n_folds, n_rows):
    assert 2 * defaults.pairs_of_folds(n_folds, n_rows) <= n_folds


def test_nothing_is_measured_where_it_would_not_be_used():
    X, y = table()
    for settings in ({"cv": KFold(5)}, {"rescale": False, "epochs": 2}):
        Learner.fits.clear()
        model = LossQuantifier(Learner(), loss=prediction_as_loss, **FAST | settings).fit(X, y)
        assert model.fold_share_.tolist() == [1.0]
        assert len(Learner.fits) == (6 if "cv" in settings else 11)
    fitted = LossQuantifier(LinearRegression().fit(X, y), cv="prefit", **FAST).fit(*table(seed=1))
    assert fitted.fold_share_.tolist() == [1.0]


def test_weights_are_repetitions():
    X, y = table(300)
    weight = np.random.default_rng(1).integers(0, 3, 300)
    settings = FAST | {"loss": "absolute", "cv": 5}
    weighted = LossQuantifier(KNeighborsRegressor(1), **settings).fit(X, y, sample_weight=weight.astype(float))
    rows = np.repeat(np.arange(300), weight)
    repeated = LossQuantifier(KNeighborsRegressor(1), **settings).fit(X[rows], y[rows])
    assert_allclose(weighted.fold_share_, repeated.fold_share_, rtol=1e-9)


def test_small_groups_and_several_outputs():
    X, y = table(300)
    groups = np.arange(300) % 4
    model = LossQuantifier(LinearRegression(), **FAST).fit(X, y, groups=groups)
    assert model.out_of_fold_["fold"].nunique() == 4  # "auto" has no more folds than there are groups
    Y = np.column_stack([np.sin(9 * X[:, 0]), y])
    both = LossQuantifier(KNeighborsRegressor(1), per_output=True, **FAST).fit(X, Y)
    assert both.fold_share_.shape == (2,)
    assert both.fold_share_[0] < 0.95 < both.fold_share_[1]  # a smooth function gains by more rows, noise does not


def test_noise_free_tables_have_the_right_scale(tmp_path):
    """With ten folds, losses are about twenty per cent too large where they fall like n^-2."""
    ratios = {"auto": [], "plain": []}
    for seed in range(6):
        X, _ = table(240, seed)
        new = table(2000, seed + 100)[0]
        for name, cv in (("auto", "auto"), ("plain", KFold(10))):
            model = LossQuantifier(KNeighborsRegressor(1), loss="squared", cv=cv, **FAST).fit(X, X @ [1, 2])
            known = model.predict_uncertainty(new)
            ratios[name].append([known.expected_loss.mean(), ((known.prediction - new @ [1, 2]) ** 2).mean()])
    auto, plain = (np.sum(ratios[name], axis=0) for name in ("auto", "plain"))
    assert abs(np.log(auto[0] / auto[1])) < abs(np.log(plain[0] / plain[1]))


def test_out_of_fold_losses_are_expected_with_a_fold_missing_and_files_keep_the_scale(tmp_path):
    X, _ = table(300)
    model = LossQuantifier(KNeighborsRegressor(1), loss="absolute", **FAST).fit(X, np.sin(3 * X[:, 0]))
    assert model.fold_share_[0] < 0.97
    found = model.out_of_fold_
    assert found["expected_loss"].mean() == pytest.approx(found["loss"].mean(), rel=0.02)
    model.save(tmp_path / "m.aleator")
    read = aleator.load(tmp_path / "m.aleator")
    assert read.fold_share_ == model.fold_share_
    np.testing.assert_array_equal(read.predict_loss(X), model.predict_loss(X))


@pytest.mark.parametrize(("n", "settings"), [(8, {}), (9, {}), (8, {"cv": 4}), (12, {"cv": 3})])
def test_a_regressor_that_needs_more_rows_is_not_corrected(n, settings):
    """Five neighbours can be found without one fold, and not without two."""
    X, y = table(n)
    model = LossQuantifier(KNeighborsRegressor(5), **FAST | settings).fit(X, y)
    assert model.fold_share_.tolist() == [1.0]


def test_folds_as_an_array():
    X, y = table(100)
    halves = np.arange(50), np.arange(50, 100)
    cv = np.array([halves, halves[::-1]])
    model = LossQuantifier(LinearRegression(), cv=cv, **FAST).fit(X, y)
    assert sorted(model.out_of_fold_["row"]) == list(range(100))


def test_the_number_of_folds_follows_from_different_rows_with_weight():
    X, y = table(2500)
    counted = {
        "twice": LossQuantifier(Learner(), loss=prediction_as_loss, **FAST).fit(np.repeat(X, 2, 0), np.repeat(y, 2)),
        "weight 2": LossQuantifier(Learner(), loss=prediction_as_loss, **FAST).fit(
            X, y, sample_weight=2 * np.ones(2500)
        ),
    }
    assert {name: model.out_of_fold_["fold"].nunique() for name, model in counted.items()} == dict.fromkeys(counted, 10)
    X, y = table(1300)
    Learner.fits.clear()
    weight = np.r_[np.ones(900), np.zeros(400)]
    LossQuantifier(Learner(), loss=prediction_as_loss, **FAST).fit(X, y, sample_weight=weight)
    assert len(Learner.fits) == 16


def test_one_group_is_no_cross_validation():
    X, y = table(100)
    with pytest.raises(ValueError, match="groups must hold at least two different values"):
        LossQuantifier(LinearRegression(), **FAST).fit(X, y, groups=np.zeros(100))
