"""A few wrong cells move nothing: quantiles, fences, plausible values, and inputs that are bounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from aleator import engine
from aleator.engine import kernels
from aleator.estimators import robust
from aleator.estimators.table import CLIP, Scaling, scaling, table, weighted_set
from aleator.losses import squared

# ---------------------------------------------------------------- quantiles


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=30), st.floats(0.01, 0.99))
@settings(max_examples=200, deadline=None)
def test_a_weight_is_a_number_of_rows(rows, level):
    values, counts = (np.array(part, float) for part in zip(*rows, strict=True))
    repeated = np.repeat(values, counts.astype(int))
    assert robust.quantiles(values, counts, (level,)) == robust.quantiles(repeated, None, (level,))
    expected = np.quantile(repeated, level, method="inverted_cdf")
    assert robust.quantiles(repeated, np.ones(len(repeated)), (level,)) == [expected]


# ---------------------------------------------------------------- the bulk of a column


def test_clean_columns_lie_within_their_fences():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=5000), rng.uniform(size=5000), rng.integers(0, 5, 5000).astype(float)):
        low, high = robust.fences(values, None)
        assert low < values.min()
        assert values.max() < high


def test_a_sentinel_does_not_move_the_fences():
    values = np.random.default_rng(0).normal(size=1000)
    before = robust.fences(values, None)
    values[:3] = 1e9
    assert_allclose(robust.fences(values, None), before, atol=0.05)


def test_a_flag_has_a_range_if_ten_rows_have_it():
    flag = np.zeros(1000)
    flag[:9] = 1
    assert robust.fences(flag, None) is None
    flag[:10] = 1
    assert robust.fences(flag, None) == (0.0, 1.0)
    flag[:3] = 1e6  # a sentinel among the ten
    flag[10:13] = 1
    assert robust.fences(flag, None) == (0.0, 1.0)
    few = np.zeros(40)
    few[:2] = 1
    assert robust.fences(few, None) == (0.0, 1.0)  # in a small table, a twentieth of the rows is enough


# ---------------------------------------------------------------- the largest plausible value


@pytest.mark.parametrize("n", [300, 3000, 30_000])
@pytest.mark.parametrize("draw", [stats.halfnorm, stats.expon, stats.lognorm(1.0), stats.uniform], ids=lambda d: getattr(d, "name", "log-normal"))  # fmt: skip
def test_what_a_distribution_gives_is_plausible(draw, n):
    for seed in range(20):
        values = draw.rvs(size=n, random_state=seed)
        assert values.max() <= robust.plausible_maximum(values, np.ones(n))


def test_a_heavy_tail_loses_next_to_nothing():
    kept = []
    for seed in range(50):
        values = np.abs(stats.t(3).rvs(size=2000, random_state=seed))
        kept.append(np.minimum(values, robust.plausible_maximum(values, np.ones(2000))).mean() / values.mean())
    assert np.mean(kept) > 0.995


def test_what_is_absurd_is_not_plausible():
    rng = np.random.default_rng(0)
    for n in (200, 2000, 20_000):
        values = np.abs(rng.normal(size=n))
        values[: max(1, n // 1000)] *= 1e6
        assert robust.plausible_maximum(values, np.ones(n)) < 20


def test_a_rare_region_of_large_losses_is_plausible():
    """One row in fifty loses a hundred times as much: that is no mistake in the data."""
    values = np.abs(np.random.default_rng(0).normal(size=5000))
    values[::50] *= 100
    assert values.max() < robust.plausible_maximum(values, np.ones(5000))


def test_few_values_or_many_zeros_tell_nothing():
    assert robust.plausible_maximum(np.arange(20.0), np.ones(20)) == np.inf
    assert robust.plausible_maximum(np.r_[np.zeros(990), np.full(10, 1e9)], np.ones(1000)) == np.inf


@given(st.floats(1e-6, 1e6), st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_plausible_in_any_unit(unit, seed):
    values = np.abs(np.random.default_rng(seed).standard_t(2, size=500))
    expected = unit * robust.plausible_maximum(values, np.ones(500))
    assert robust.plausible_maximum(unit * values, np.ones(500)) == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- inputs


def learned(X, way="robust"):
    Y = np.arange(len(X), dtype=float)[:, None]
    rows, weight = weighted_set(X, Y, None)
    return scaling(X, Y, rows, weight, way)


def test_clean_columns_are_standardised_as_in_the_paper():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1, 1e6, 1e-9]
    ours, paper = learned(X), learned(X, "standard")
    assert_array_equal(ours.x_mean, paper.x_mean)
    assert_array_equal(ours.x_spread, paper.x_spread)
    inside = np.abs((X - X.mean(0)) / X.std(0)).max(axis=1) < CLIP[0]
    assert_allclose(ours.inputs(X)[inside], ((X - X.mean(0)) / X.std(0))[inside], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("wrong", [-999.0, 9999.0, 1e6, 1e30, -1e300])
def test_one_wrong_cell_moves_no_other_row(wrong):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    before = learned(X).inputs(X)
    X[0, 0] = wrong
    after = learned(X).inputs(X)
    assert_allclose(after[1:], before[1:], atol=0.05)
    assert np.abs(after).max() <= sum(CLIP)
    assert after[0, 0] == pytest.approx(np.sign(wrong) * sum(CLIP), abs=0.01)


def test_a_flag_set_once_is_ignored():
    X = np.zeros((1000, 2))
    X[:, 0] = np.random.default_rng(0).normal(size=1000)
    X[0, 1] = 1.0
    assert learned(X).x_scale[1] == 0
    assert learned(X, "standard").x_scale[1] > 0
    assert_array_equal(learned(X).inputs(X)[:, 1], np.zeros(1000))


@given(st.floats(0, 10), st.floats(0, 10), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_clipping_is_smooth_rising_and_bounded(inner, margin, values):
    z = np.sort(np.array(values))
    t = Scaling(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1), np.array([inner, margin])).inputs(z[:, None])[:, 0]
    assert (np.diff(t) >= -1e-9).all()
    assert (np.abs(t) <= inner + margin + 1e-9).all()
    assert_allclose(t[np.abs(z) <= inner], z[np.abs(z) <= inner], atol=1e-12)
    if inner > 1e-3 and margin > 1e-3:  # the slope is 1 on both sides of the edge
        step = 1e-6 * min(inner, margin)
        near = np.array([inner - step, inner, inner + step])[:, None]
        left, right = np.diff(Scaling(*np.eye(1).repeat(4, 0) * [[0], [1], [0], [1]], np.array([inner, margin])).inputs(near)[:, 0])  # fmt: skip
        assert left == pytest.approx(step, rel=1e-3)
        assert right == pytest.approx(step, rel=1e-3)


@pytest.mark.parametrize("clip", [CLIP, tuple(engine.UNBOUNDED)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_engine_sees_the_same_inputs(clip, dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_cauchy(size=(200, 3)) * [1, 100, 1e30]).astype(dtype)
    scales = Scaling(np.array([0.1, 5.0, 0.0]), np.array([2.0, 0.0, 3.0]), np.zeros(1), np.ones(1), np.array(clip))
    out = np.empty(600, np.float32)
    kernels.gather(X, *scales.place, np.arange(200), out)
    assert_allclose(out.reshape(200, 3), scales.inputs(X), rtol=1e-6, atol=1e-6)


def test_absurd_targets_are_learned_as_plausible_ones():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 1))
    clean = table(X, y, None, squared, True, "robust")
    assert_array_equal(clean.scaling.restored(clean.data.Y), table(X, y, None, squared, True).scaling.restored(clean.data.Y))  # fmt: skip
    y[3] = 1e9
    dirty = table(X, y, None, squared, True, "robust")
    assert dirty.scaling.y_spread == pytest.approx(clean.scaling.y_spread, rel=0.05)
    assert np.abs(dirty.data.Y).max() < 15
    assert table(X, y, None, squared, True).scaling.y_spread > 1e6
