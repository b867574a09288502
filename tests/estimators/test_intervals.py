"""Intervals of fitted models: what share of the targets they cover, on each side, and how wide they are."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from aleator import LossQuantifier, PairEnsemble, PairRegressor, conformal
from aleator.metrics import coverage, interval_width


def test_skewed_errors_fall_outside_on_both_sides_alike():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 1))
    y = X[:, 0] + (0.1 + X[:, 0]) * rng.exponential(size=4000)
    model = LossQuantifier(Ridge(), loss="absolute").fit(X[:2000], y[:2000])
    low, high = model.predict_interval(X[2000:])
    assert np.mean(y[2000:] < low) == pytest.approx(0.05, abs=0.02)
    assert np.mean(y[2000:] > high) == pytest.approx(0.05, abs=0.02)
    low, high = model.predict_interval(X[2000:], symmetric=True)
    assert np.mean(y[2000:] < low) < 0.01
    assert np.mean((y[2000:] >= low) & (y[2000:] <= high)) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball(0.8)", "huber(0.5)"])
def test_a_calibrated_pair_covers(loss):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(6000, 1))
    y = X[:, 0] + (0.1 + X[:, 0]) * rng.laplace(size=6000)
    model = (
        PairRegressor(loss=loss, epochs=10, rescale=False)
        .fit(X[:2000], y[:2000])
        .conformalize(X[2000:4000], y[2000:4000])
    )
    low, high = model.predict_interval(X[4000:], coverage=0.9)
    assert coverage(y[4000:], low, high) == pytest.approx(0.9, abs=0.025)
    width = high - low
    assert width[X[4000:, 0] > 0.8].mean() > 2 * width[X[4000:, 0] < 0.2].mean()


def test_several_outputs():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 1))
    Y = np.column_stack([X[:, 0] + rng.normal(size=600), 10 * X[:, 0] + 3 * rng.normal(size=600)])
    model = (
        PairRegressor(per_output=True, epochs=10, rescale=False).fit(X[:300], Y[:300]).conformalize(X[300:], Y[300:])
    )
    low, high = model.predict_interval(X[300:], 0.8)
    assert low.shape == high.shape == (300, 2)
    np.testing.assert_allclose(np.mean((low <= Y[300:]) & (Y[300:] <= high), axis=0), 0.8, atol=0.01)
    with pytest.raises(ValueError, match="set per_output=True"):
        PairRegressor(epochs=2, rescale=False).fit(X, Y).conformalize(X, Y)


def test_messages():
    X = np.linspace(0, 1, 40)[:, None]
    y = np.sin(9 * X[:, 0])
    model = PairRegressor(epochs=5, rescale=False).fit(X, y)
    with pytest.raises(ValueError, match=r"fit held none out: call conformalize\(X, y\)"):
        model.predict_interval(X)
    model.conformalize(X[:10], y[:10])
    with pytest.raises(
        ValueError, match="coverage=0.95 needs at least 19 rows that were not learned from, and there are 10"
    ):
        model.predict_interval(X, 0.95)
    with pytest.raises(ValueError, match="coverage must lie strictly between 0 and 1, got 90"):
        model.predict_interval(X, 90)
    model.predict_interval(X, 0.9)
    with pytest.raises(ValueError, match="call conformalize"):  # a new fit forgets the old calibration
        model.fit(X, y).predict_interval(X)


def two_regions(n, seed=0):
    """A line with noise ten times as large in the last quarter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, X[:, 0] + np.where(X[:, 0] < 0.75, 0.2, 2.0) * rng.normal(size=n)


@pytest.fixture(scope="module", params=["quantifier", "pair"])
def model_of_two_regions(request):
    X, y = two_regions(4000)
    return (LossQuantifier(Ridge()) if request.param == "quantifier" else PairRegressor()).fit(X, y)


def test_mean_coverage_over_200_calibration_splits(model_of_two_regions):
    X, y = two_regions(3000, seed=1)
    wanted = (0.5, 0.8, 0.9, 0.95)
    covered = []
    for split in range(200):
        order = np.random.default_rng(split).permutation(3000)
        cal, test = order[:500], order[500:]
        model_of_two_regions.conformalize(X[cal], y[cal])
        known = model_of_two_regions.predict_uncertainty(X[test])
        covered.append([coverage(y[test], *model_of_two_regions.interval_of(known, c)) for c in wanted])
    np.testing.assert_allclose(np.mean(covered, axis=0), wanted, atol=0.01)


def test_intervals_are_as_wide_as_they_need_to_be(model_of_two_regions):
    """At equal coverage, at most 0.7 times as wide as conformal intervals of one width."""
    X, y = two_regions(20_000, seed=2)
    cal, test = slice(0, 10_000), slice(10_000, None)
    low, high = model_of_two_regions.conformalize(X[cal], y[cal]).predict_interval(X[test], 0.9)
    residual = np.abs(y[cal] - model_of_two_regions.predict(X[cal]))
    half = conformal.quantile(np.sort(residual), 0.9)
    mean = model_of_two_regions.predict(X[test])
    assert coverage(y[test], low, high) == pytest.approx(0.9, abs=0.01)
    assert coverage(y[test], mean - half, mean + half) == pytest.approx(0.9, abs=0.01)
    assert interval_width(low, high) < 0.7 * 2 * half


def test_intervals_are_not_finer_than_float32():
    """Where y is nearly always 0 predictions are off by the last bits of float32, and intervals had no width."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(600, 3)), (rng.random(600) < 0.03) * 100.0
        model = PairEnsemble(loss="absolute", n_members=2, random_state=0).fit(X, y)
        low, high = model.predict_interval(rng.normal(size=(500, 3)))
        assert ((low <= 0) & (high >= 0)).mean() > 0.9
