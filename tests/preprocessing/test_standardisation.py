"""Training rows are a weighted set of rows: order, repetition and weights written differently are the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aleator import losses
from aleator.preprocessing.standardisation import _left_out_errors, fit_scaling, loss_units, weighted_set

small = arrays(np.float64, (12, 2), elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
counts = arrays(np.int64, 12, elements=st.integers(0, 3)).filter(lambda w: w.sum() > 0)


@given(X=small, w=counts, seed=st.integers(0, 99))
def test_weights_are_repetitions_in_any_order(X, w, seed):
    Y = X[:, :1] ** 2
    rows, weight = weighted_set(X, Y, w.astype(float))
    repeated = np.random.default_rng(seed).permutation(np.repeat(np.arange(12), w))
    rows2, weight2 = weighted_set(X[repeated], Y[repeated], None)
    np.testing.assert_array_equal(X[rows], X[repeated][rows2])
    np.testing.assert_array_equal(weight[rows], weight2[rows2])
    a, b = fit_scaling(X, Y, rows, weight), fit_scaling(X[repeated], Y[repeated], rows2, weight2)
    for name in ("x_mean", "x_spread", "y_mean", "y_spread"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@given(X=small, w=counts)
def test_distinct_sorted_and_complete(X, w):
    rows, weight = weighted_set(X, X[:, :1], w.astype(float))
    found = [tuple(row) for row in X[rows]]
    assert found == sorted({tuple(row) for row in X[w > 0]})
    totals = {row: sum(w[(row == X).all(axis=1)]) for row in found}
    np.testing.assert_allclose(weight[rows] / weight[rows].sum(), np.array([totals[r] for r in found]) / w.sum())


@given(
    X=arrays(np.float64, (30, 3), elements=st.floats(-1e6, 1e6)), w=arrays(np.float64, 30, elements=st.floats(0.1, 5))
)
def test_moments_are_numpys(X, w):
    rows = np.arange(30)
    s = fit_scaling(X, X[:, :1], rows, w)
    mean = np.average(X, axis=0, weights=w)
    std = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    np.testing.assert_allclose(s.x_mean, mean, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(s.x_spread, std, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("c", [1e-200, 1e-30, 1e30, 1e200])
def test_moments_at_the_ends_of_the_range(c):
    X = np.random.default_rng(0).normal(5, 2, size=(100, 2))
    rows, w = np.arange(100), np.ones(100)
    a, b = fit_scaling(X, X, rows, w), fit_scaling(c * X, c * X, rows, w)
    np.testing.assert_allclose(b.x_spread / c, a.x_spread, rtol=1e-12)
    np.testing.assert_allclose(b.x_scale * c, a.x_scale, rtol=1e-12)


def test_a_constant_column_has_spread_zero_exactly():
    X = np.full((7, 1), 0.1)
    s = fit_scaling(X, X, np.arange(7), np.ones(7))
    assert s.x_spread[0] == 0
    assert s.x_scale[0] == 0
    assert s.x_mean[0] == 0.1
    assert not s.standardised(X).any()


@pytest.mark.parametrize("loss", [*losses.LOSSES.values(), losses.pinball(0.8)], ids=lambda loss: loss.name)
def test_the_unit_is_the_loss_of_missing_by_one_standard_deviation(loss):
    y = np.random.default_rng(0).normal(10, 3, size=(500, 2)) * [1, 4]
    s = fit_scaling(y, y, np.arange(500), np.ones(500))
    each = [(loss.value(m + d, m) + loss.value(m - d, m)) / 2 for m, d in zip(s.y_mean, s.y_spread, strict=True)]
    np.testing.assert_allclose(loss_units(loss, s, per_output=True).unit, each, rtol=1e-9)
    together = loss_units(loss, s, per_output=False)
    np.testing.assert_allclose(together.unit, [sum(each)], rtol=1e-9)
    # the engine's loss, times the unit, is the loss of the original target
    standard = s.standardised(y)
    shift, scale, factor, push = together.frame.T
    # alone, the regressor follows the gradient; together, each output in its own unit
    alone = loss_units(loss, s, per_output=True).frame
    np.testing.assert_allclose(alone[:, 3], alone[:, 2], rtol=1e-6)
    np.testing.assert_allclose(push, alone[:, 2] / 2, rtol=1e-6)
    framed = factor * loss(shift + scale * standard, shift + scale * np.zeros_like(standard))
    np.testing.assert_allclose(together.unit * framed, loss(y, s.y_mean), rtol=1e-4, atol=1e-4)


def test_the_error_of_rows_left_out_is_that_of_lines_without_them():
    rng = np.random.default_rng(0)
    x, Y, w = rng.normal(size=12), rng.normal(size=(12, 2)), rng.uniform(0.5, 2, 12)
    errors = np.zeros(2)
    for i in range(12):
        others = np.arange(12) != i
        for k, target in enumerate(Y.T):
            line = np.polynomial.Polynomial.fit(x[others], target[others], 1, w=np.sqrt(w[others]))
            errors[k] += w[i] / w.sum() * (target[i] - line(x[i])) ** 2
    np.testing.assert_allclose(_left_out_errors(x, Y, w), errors)


@pytest.mark.parametrize("wanted", ["nothing", "the prediction", "the noise"])
def test_a_long_tail_stays_where_it_tells_something(wanted):
    """Rows at the end of a log-normal column are clipped to those before, unless y or its noise follows them."""
    rng = np.random.default_rng(1)
    x = np.exp(1.5 * rng.normal(size=400))
    noise = rng.normal(size=400)
    y = {"nothing": noise, "the prediction": x + noise, "the noise": x * noise}[wanted]
    rows, weight = weighted_set(x[:, None], y[:, None], None)
    scales = fit_scaling(x[:, None], y[:, None], rows, weight, "robust")
    seen = scales.inputs(x[:, None])[:, 0]
    clipped = (seen == seen.max()).sum()
    assert clipped == (5 if wanted == "nothing" else 1)


def test_weights_have_mean_one_over_the_distinct_rows():
    """So that a step of the engine is as long whatever the weights' unit is."""
    X, w = np.array([[0.0], [1.0], [1.0], [2.0]]), np.array([2.0, 1.0, 3.0, 0.0])
    rows, weight = weighted_set(X, np.zeros((4, 1)), w)
    assert rows.tolist() == [0, 1]
    np.testing.assert_allclose(weight[rows], [2 / 3, 4 / 3])
    for factor in (1e-300, 7.0, 1e300):
        np.testing.assert_allclose(weighted_set(X, np.zeros((4, 1)), factor * w)[1][rows], [2 / 3, 4 / 3])


def test_the_unit_of_a_loss_over_rows():
    """The mean of the losses of missing all outputs by one standard deviation, upwards and downwards."""

    def late(y, y_r):  # 2 for each unit too low, 1 for each too high, of the longest error
        error = y_r - y
        return float(max(2 * error.max(), -error.min(), 0.0))

    loss = losses.Loss("late", late, lambda y, y_r: np.zeros(2), over_rows=True)
    y = np.random.default_rng(0).normal(10, 3, size=(500, 2)) * [1, 4]
    s = fit_scaling(y, y, np.arange(500), np.ones(500))
    units = loss_units(loss, s, per_output=False)
    np.testing.assert_allclose(units.unit, [1.5 * s.y_spread.max()], rtol=1e-9)
    np.testing.assert_allclose(
        units.frame, np.column_stack([s.y_mean, s.y_spread, *[np.full(2, 1 / units.unit[0])] * 2]), rtol=1e-6
    )
    with pytest.raises(ValueError, match="gives one a row"):
        loss_units(loss, s, per_output=True)
    for wrong in (0.0, np.inf):
        with pytest.raises(ValueError, match="by one standard deviation"):
            loss_units(
                losses.Loss("wrong", lambda y, p, v=wrong: v, lambda y, p: np.zeros(2), over_rows=True),
                s,
                per_output=False,
            )


@pytest.mark.parametrize("unit", [1e-9, 1e6])
@pytest.mark.parametrize("wanted", ["nothing", "the prediction"])
def test_units_of_a_column_do_not_matter(unit, wanted):
    """Long tails too keep their place, or lose it, whatever the column is measured in."""
    rng = np.random.default_rng(1)
    x = np.exp(1.5 * rng.normal(size=400))
    y = rng.normal(size=400) + (x if wanted == "the prediction" else 0)
    rows = np.arange(400)
    here, there = (
        fit_scaling(c * x[:, None], y[:, None], rows, np.ones(400), "robust").inputs(c * x[:, None]) for c in (1, unit)
    )
    np.testing.assert_allclose(there, here, rtol=1e-5)


@pytest.mark.parametrize("loss", [losses.huber(1e-30), losses.pinball(0.5)], ids=["huber", "pinball"])
def test_a_loss_that_float64_cannot_hold_is_refused(loss):
    """Of an output whose spread is so small that its loss is 0, also beside outputs of which it is not."""
    y = np.column_stack([np.random.default_rng(0).normal(size=60), 1e-310 * np.arange(60.0)])
    scales = fit_scaling(y, y, np.arange(60), np.ones(60))
    with pytest.raises(ValueError, match="is 0 in float64"):
        loss_units(loss, scales, per_output=False)


@pytest.mark.parametrize("unit", [1e-6, 0.3, 1.0, 1e6])
def test_targets_there_and_back(unit):
    Y = unit * np.random.default_rng(0).normal(3.0, [1.0, 0.2, 0.0], size=(200, 3))
    scales = fit_scaling(Y, Y, np.arange(200), np.ones(200))
    seen = scales.standardised(Y)
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(seen.std(axis=0), [1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(scales.restored(seen), Y, rtol=1e-6)
