"""A few wrong cells move nothing: quantiles, fences, plausible values, and inputs that are bounded."""

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from aleator.engine import kernels
from aleator.losses import squared
from aleator.onnx import networks
from aleator.onnx.graph import Graph
from aleator.preprocessing import outliers, standardisation
from aleator.preprocessing.standardisation import Scaling, fit_scaling, training_set, weighted_set
from aleator.torch.scaling import Scaling as TorchScaling

# ---------------------------------------------------------------- quantiles


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=30), st.floats(0.01, 0.99))
@settings(max_examples=200, deadline=None)
def test_a_weight_is_a_number_of_rows(rows, level):
    values, counts = (np.array(part, float) for part in zip(*rows, strict=True))
    repeated = np.repeat(values, counts.astype(int))
    assert outliers.quantiles(values, counts, (level,)) == outliers.quantiles(repeated, None, (level,))
    expected = np.quantile(repeated, level, method="inverted_cdf")
    assert outliers.quantiles(repeated, np.ones(len(repeated)), (level,)) == [expected]


# ---------------------------------------------------------------- the tails of a column


CLEAN = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "whole": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "log-normal": lambda rng, n: np.exp(2 * rng.normal(size=n)),
    "zero-inflated": lambda rng, n: np.where(rng.uniform(size=n) < 0.8, 0.0, rng.exponential(size=n)),
}


@pytest.mark.parametrize("n", [300, 1000, 10_000])
@pytest.mark.parametrize("kind", CLEAN)
def test_clean_columns_end_where_they_end(kind, n):
    for seed in range(5):
        values = CLEAN[kind](np.random.default_rng(seed), n)
        assert_allclose(outliers.tail_ends(values, None), (values.min(), values.max()))


@pytest.mark.parametrize("wrong", [-999.0, 9999.0, 1e30])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("kind", ["normal", "uniform", "whole", "exponential"])
def test_what_is_torn_off_is_beyond_the_end(kind, share, wrong):
    values = CLEAN[kind](np.random.default_rng(0), 2000)
    before = outliers.tail_ends(values, None)
    values[: round(share * 2000)] = wrong
    low, high = outliers.tail_ends(values, None)
    assert before[0] - 1e-9 <= low
    assert high <= before[1] + 1e-9
    assert high - low > 0.5 * (before[1] - before[0])


def test_a_weight_is_a_number_of_rows_in_the_tails_too():
    rng = np.random.default_rng(0)
    values, counts = np.exp(rng.normal(size=300)), rng.integers(1, 4, 300)
    ends = outliers.tail_ends(values, counts.astype(float))
    assert ends == outliers.tail_ends(np.repeat(values, counts), None)


def test_a_flag_is_learned_from_if_ten_rows_have_it():
    flag = np.zeros(1000)
    flag[:9] = 1
    assert outliers.tail_ends(flag, None) is None
    flag[:10] = 1
    assert outliers.tail_ends(flag, None) == (0.0, 1.0)
    flag[:3] = 1e6  # a sentinel among them
    flag[10:13] = 1
    assert outliers.tail_ends(flag, None) == (0.0, 1.0)
    few = np.zeros(40)
    few[:2] = 1
    assert outliers.tail_ends(few, None) == (0.0, 1.0)  # in a small table, a twentieth of the rows is enough


# ---------------------------------------------------------------- the largest plausible value


@pytest.mark.parametrize("n", [300, 3000, 30_000])
@pytest.mark.parametrize("draw", [stats.halfnorm, stats.expon, stats.lognorm(1.0), stats.uniform], ids=lambda d: getattr(d, "name", "log-normal"))  # fmt: skip
def test_what_a_distribution_gives_is_plausible(draw, n):
    for seed in range(20):
        values = draw.rvs(size=n, random_state=seed)
        assert values.max() <= 1.2 * outliers.plausible_maximum(values, np.ones(n))


def test_a_heavy_tail_loses_next_to_nothing():
    kept = []
    for seed in range(50):
        values = np.abs(stats.t(3).rvs(size=2000, random_state=seed))
        kept.append(np.minimum(values, outliers.plausible_maximum(values, np.ones(2000))).mean() / values.mean())
    assert np.mean(kept) > 0.995


def test_what_is_absurd_is_not_plausible():
    rng = np.random.default_rng(0)
    for n in (200, 2000, 20_000):
        values = np.abs(rng.normal(size=n))
        values[:3] *= 1e6
        assert outliers.plausible_maximum(values, np.ones(n)) < 30


@pytest.mark.parametrize("n", [500, 5000, 100_000])
def test_what_ten_rows_have_is_plausible(n):
    """However rare they are: a few claims among thousands of policies are no mistake in the data."""
    values = 1e-4 * np.abs(np.random.default_rng(0).normal(size=n))
    values[:11] = np.linspace(0.5, 1.0, 11)
    assert values.max() <= outliers.plausible_maximum(values, np.ones(n))


@pytest.mark.parametrize(("n", "torn"), [(25, 1), (25, 3), (60, 3), (300, 3), (1000, 5), (3000, 9)])
def test_values_that_are_torn_off_are_not_plausible(n, torn):
    """A few values far beyond all others: twice the largest of the others is plausible, whatever they spread."""
    others = np.sort(np.random.default_rng(n).exponential(size=n) ** 2)
    values = np.r_[others, 1e3 * others[-1] * np.arange(1, torn + 1)]
    largest = outliers.plausible_maximum(values, np.ones(len(values)))
    assert 0.1 * others[-1] < largest <= outliers.REACH * others[-1]
    assert outliers.plausible_maximum(others, np.ones(n)) >= others[-1]


def test_few_values_or_many_zeros_tell_nothing():
    assert outliers.plausible_maximum(np.r_[np.arange(4.0), 1e9], np.ones(5)) == np.inf
    assert outliers.plausible_maximum(np.r_[np.zeros(990), np.full(10, 1e9)], np.ones(1000)) == np.inf


@given(st.floats(1e-6, 1e6), st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_plausible_in_any_unit(unit, seed):
    values = np.abs(np.random.default_rng(seed).standard_t(2, size=500))
    expected = unit * outliers.plausible_maximum(values, np.ones(500))
    assert outliers.plausible_maximum(unit * values, np.ones(500)) == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- inputs


def learned(X, way="robust"):
    Y = np.arange(len(X), dtype=float)[:, None]
    rows, weight = weighted_set(X, Y, None)
    return fit_scaling(X, Y, rows, weight, way)


def test_clean_columns_are_standardised_as_in_the_paper():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), 1e6 * rng.uniform(size=500), 1e-9 * np.exp(rng.normal(size=500) / 3)])
    ours, paper = learned(X), learned(X, "standard")
    assert_array_equal(ours.x_mean, paper.x_mean)
    assert_array_equal(ours.x_spread, paper.x_spread)
    assert_array_equal(ours.inputs(X), paper.inputs(X))


@pytest.mark.parametrize("wrong", [-999.0, 9999.0, 1e6, 1e30, -1e300])
def test_one_wrong_cell_moves_no_other_row(wrong):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    before = learned(X).inputs(X)
    X[0, 0] = wrong
    after = learned(X).inputs(X)
    assert_allclose(after[1:], before[1:], atol=0.05)
    assert np.abs(after[0, 0]) <= outliers.REACH * np.abs(before[:, 0]).max() + 0.1
    assert np.sign(after[0, 0]) == np.sign(wrong)


def test_a_rare_flag_is_at_most_ten_spreads_out():
    X = np.zeros((12_000, 1))
    X[:20] = 1.0
    assert np.abs(learned(X).inputs(X)).max() <= standardisation.FARTHEST
    assert np.abs(learned(X, "standard").inputs(X)).max() > 20


def test_a_flag_set_once_is_ignored():
    X = np.zeros((1000, 2))
    X[:, 0] = np.random.default_rng(0).normal(size=1000)
    X[0, 1] = 1.0
    assert learned(X).x_scale[1] == 0
    assert learned(X, "standard").x_scale[1] > 0
    assert_array_equal(learned(X).inputs(X)[:, 1], np.zeros(1000))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bounded", [True, False])
def test_engine_torch_and_onnx_see_the_same_inputs(bounded, dtype, tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.standard_cauchy(size=(200, 3)) * [1, 100, 1e30]).astype(dtype)
    clip = np.array([[-2.0, -1.0, -5.0], [3.0, 1.0, 8.0]]) if bounded else None
    scales = Scaling(np.array([0.1, 5.0, 0.0]), np.array([2.0, 0.0, 3.0]), np.zeros(1), np.ones(1), clip)
    out = np.empty(600, np.float32)
    kernels.gather(X, *scales.to_inputs, np.arange(200), out)
    expected = scales.inputs(X)
    assert_allclose(out.reshape(200, 3), expected, rtol=1e-6, atol=1e-6)
    here = TorchScaling(scales.x_mean, scales.x_spread, x_clip=scales.to_inputs[2])
    assert_allclose(here.inputs(torch.from_numpy(X), torch.float64), expected, rtol=1e-6)
    graph = Graph()
    graph.output("Z", networks.standardised(graph.input("X", "float64", ("rows", 3)), scales), ("rows", 3))
    graph.write(tmp_path / "z.onnx", {})
    (found,) = onnxruntime.InferenceSession(tmp_path / "z.onnx").run(None, {"X": X.astype(np.float64)})
    assert_allclose(found, expected, rtol=1e-6)


def test_absurd_targets_are_learned_as_plausible_ones():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 1))
    clean = training_set(X, y, None, squared, True, "robust")
    assert_array_equal(clean.scaling.restored(clean.data.Y), training_set(X, y, None, squared, True).scaling.restored(clean.data.Y))  # fmt: skip
    y[3] = 1e9
    dirty = training_set(X, y, None, squared, True, "robust")
    assert dirty.scaling.y_spread == pytest.approx(clean.scaling.y_spread, rel=0.05)
    assert np.abs(dirty.data.Y).max() < 30
    assert_array_equal(dirty.data.truth, y)  # what it is judged by
    assert clean.data.truth is None
    assert training_set(X, y, None, squared, True).scaling.y_spread > 1e6


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize("mistake", [-999.0, 9999.0, 1e30, -1e6])
@pytest.mark.parametrize("rows", [1, 5, 30])
def test_a_cell_far_beyond_all_others_is_implausible(mistake, rows):
    values = np.random.default_rng(0).uniform(30, 200, 600)
    values[:rows] = mistake
    low, high = outliers.plausible_cells(values)
    assert ((values < low) | (values > high)).sum() == rows
    assert (low == -np.inf) == (mistake > 0)
    assert (high == np.inf) == (mistake < 0)


@pytest.mark.parametrize("draw", ["normal", "exponential", "lognormal", "uniform"])
def test_clean_columns_have_no_implausible_cells(draw):
    rng = np.random.default_rng(1)
    for n in (30, 300, 3_000):
        assert outliers.plausible_cells(getattr(rng, draw)(size=n)) == (-np.inf, np.inf)


def test_flags_constants_and_empty_columns_have_no_implausible_cells():
    flag = np.zeros(500)
    for values in (flag, np.r_[flag, 1.0], np.r_[flag, np.ones(40)], np.empty(0), np.ones(1)):
        assert outliers.plausible_cells(values) == (-np.inf, np.inf)


def test_a_group_of_rows_far_from_the_others_is_no_mistake():
    """Nor is a long tail, or a column with many zeros; a code that many rows share is one."""
    rng = np.random.default_rng(0)
    for beyond in (rng.normal(1000, 200, 100), rng.normal(1000, 200, 30)):
        assert outliers.plausible_cells(np.r_[rng.normal(10, 1, 900), beyond]) == (-np.inf, np.inf)
    for heavy in (np.exp(4 * rng.normal(size=1000)), rng.poisson(3, 1000) * (rng.uniform(size=1000) < 0.1)):
        low, high = outliers.plausible_cells(np.asarray(heavy, float))
        assert ((heavy < low) | (heavy > high)).sum() <= 20
    assert np.isfinite(outliers.plausible_cells(np.r_[rng.normal(10, 1, 900), np.full(100, 999.0)])[1])


def test_the_largest_numbers_do_not_overflow():
    values = np.r_[np.random.default_rng(0).normal(size=100), 1.7e308, -1.7e308]
    assert np.isfinite(outliers.plausible_cells(values)).all()


@pytest.mark.parametrize("share", [0.05, 0.24, 0.26, 0.45])
def test_a_code_that_many_rows_share_is_a_mistake(share):
    rng = np.random.default_rng(0)
    values = np.where(rng.uniform(size=400) < share, 9999.0, rng.normal(size=400))
    low, high = outliers.plausible_cells(values)
    assert (low, (values > high).mean()) == (-np.inf, (values == 9999).mean())


def test_rows_in_a_far_group_keep_their_place_as_inputs():
    """Plots and farms: 15 % of the rows are a hundred times as large, and not clipped."""
    rng = np.random.default_rng(0)
    sizes = np.r_[rng.uniform(1e3, 2e4, 850), rng.uniform(2e5, 2e6, 150)]
    X, y = sizes[:, None], np.ones((1000, 1))
    inputs = fit_scaling(X, y, np.arange(1000), np.ones(1000), "robust").inputs(X)[:, 0]
    assert len(np.unique(inputs)) == 1000
    assert np.abs(inputs).max() < 10


def test_new_values_count_up_to_twice_the_tail_and_no_further_than_a_long_one():
    rng = np.random.default_rng(0)
    for draw, times in (("uniform", 2.0), ("normal", None), ("long", 1.0)):
        X = np.exp(2 * rng.normal(size=(1000, 1))) if draw == "long" else getattr(rng, draw)(size=(1000, 1))
        scales = fit_scaling(X, X, np.arange(1000), np.ones(1000), "robust")
        end, far = scales.inputs(np.array([[X.max()], [1e9]]))[:, 0]
        assert_allclose(far, times * end if times else standardisation.FAR, rtol=0.02)


# ---------------------------------------------------------------- against the plain way of writing it


def quantile_written_plainly(values, level):
    """The smallest value at or below which this share of them lies."""
    ordered = sorted(values)
    return next((v for k, v in enumerate(ordered, 1) if k >= level * len(ordered) - 1e-9), ordered[-1])


def tails_written_plainly(values):
    """From the middle outwards, each step with half as many rows beyond it; a leap of more than six times ends it."""
    values = [float(v) for v in values]
    n, middle = len(values), quantile_written_plainly(values, 0.5)
    others = [v for v in values if v != middle]
    if len(others) < min(10, 0.05 * n) or not others:
        return None
    if len(others) > 0.75 * n:
        others = values
    shares = [0.5**k for k in range(2, 64) if 0.5**k * len(others) >= 0.5] or [0.25]
    reached = {}
    for side in (-1, 1):
        far = [side * (v - middle) for v in others]
        reached[side] = [max(0.0, quantile_written_plainly(far, level)) for level in [*(1 - s for s in shares), 1.0]]
    first = max(reached[-1][0], reached[1][0])
    ends = {}
    for side in (-1, 1):
        end = 0.0
        for value in reached[side]:
            limit = 6 * max(end, first)
            if value > limit:
                beyond = [side * (v - middle) for v in others if side * (v - middle) > limit]
                if len(beyond) <= 0.02 * n or len(set(beyond)) == 1:
                    break
            end = value
        ends[side] = end
    return middle, ends, first


whole_numbers = st.lists(
    st.one_of(st.integers(-4, 4), st.sampled_from([0, 0, 1, 6, 7, 12, 13, -6, -36, 37, 99, 1000])),
    min_size=2,
    max_size=140,
)


@given(whole_numbers, st.sampled_from([1, 1, 3]))
@settings(max_examples=400, deadline=None)
def test_tails_end_where_the_plain_way_ends_them(values, times):
    values = np.repeat(np.array(values, float), times)
    found, plainly = outliers.tail_ends(values, None), tails_written_plainly(values)
    if plainly is None:
        assert found is None
    else:
        middle, ends, _ = plainly
        assert found == (middle - ends[-1], middle + ends[1])
    assert found == outliers.tail_ends(values, np.ones(len(values)))


def largest_plausible_written_plainly(values):
    top = values.max()
    shared = (values == top).sum()
    found = tails_written_plainly(values[values < top] if 10 <= shared < 0.5 * len(values) else values)
    if found is None:
        return np.inf
    middle, ends, first = found
    high = middle + 6 * max(ends[1], first)
    return high if top > high else np.inf


@given(whole_numbers, st.integers(0, 15), st.sampled_from([50.0, 500.0, 9999.0]))
@settings(max_examples=400, deadline=None)
def test_plausible_cells_are_those_of_the_plain_way(values, copies, code):
    values = np.append(np.array(values, float), np.full(copies, code))
    low, high = outliers.plausible_cells(values)
    assert high == largest_plausible_written_plainly(values)
    assert low == -largest_plausible_written_plainly(-values)


def plausible_maximum_written_plainly(values):
    total = len(values)
    n = min(max(3, 0.005 * total), 10)
    if 2 * n > total:
        return np.inf
    halves = [n * 0.5**k for k in range(5) if n * 0.5**k > 1]
    inner = quantile_written_plainly(values, max(1 - 10 * n / total, 0))
    steps = [*(quantile_written_plainly(values, 1 - rows / total) for rows in halves), max(values)]
    if steps[0] <= 0:
        return np.inf
    end, torn = 0.0, np.inf
    for value in steps:
        if value > 6 * max(end, steps[0]):
            torn = 2 * end
            break
        end = value
    if 10 * n > total or inner <= 0:
        return torn
    return min(torn, steps[0] * (steps[0] / inner) ** np.log10(n / 0.1))


@given(
    st.lists(st.one_of(st.integers(0, 9), st.sampled_from([0, 54, 55, 324, 400, 5000])), min_size=1, max_size=150),
    st.sampled_from([1, 1, 5, 12]),
)
@settings(max_examples=400, deadline=None)
def test_the_plausible_maximum_is_that_of_the_plain_way(values, times):
    values = np.repeat(np.array(values, float), times)
    found = outliers.plausible_maximum(values, np.ones(len(values)))
    assert found == pytest.approx(plausible_maximum_written_plainly(values), rel=1e-9)


@given(st.lists(st.integers(-30, 30), min_size=3, max_size=80), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_no_prediction_is_plausible_twice_as_far_as_the_targets_reach(targets, times):
    targets = np.repeat(np.array(targets, float), times)
    middle = quantile_written_plainly(targets, 0.5)
    far = np.abs(targets - middle)
    reach = 2 * min(far.max(), plausible_maximum_written_plainly(far))
    assert_allclose(outliers.prediction_range(targets, np.ones(len(targets))), (middle - reach, middle + reach))
    below, above = np.maximum(middle - targets, 0), np.maximum(targets - middle, 0)
    ends = middle - plausible_maximum_written_plainly(below), middle + plausible_maximum_written_plainly(above)
    assert_allclose(outliers.plausible_range(targets, np.ones(len(targets))), ends)


def test_the_place_of_a_column_in_which_hardly_any_row_differs_is_its_median():
    X = np.zeros((400, 2))
    X[:2, 0], X[:, 1] = 1e6, 3.0
    scaling = fit_scaling(X, np.arange(400.0)[:, None], np.arange(400), np.ones(400), "robust")
    assert scaling.x_mean.tolist() == [0.0, 3.0]
    assert scaling.x_spread.tolist() == [0.0, 0.0]
