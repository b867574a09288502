"""Metrics against definitions written out, and against known distributions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from aleator import metrics
from aleator.losses import LOSSES

vectors = arrays(np.float64, 12, elements=st.floats(-100, 100))


def obvious_curve(y, p, u, of):
    """Sec. 8: drop the n most uncertain, error of the rest."""
    order = sorted(range(len(y)), key=lambda i: u[i])
    return [of(order[: len(y) - n]) for n in range(len(y))]


@given(y=vectors, p=vectors, u=vectors)
def test_rejection_curve_is_its_definition(y, p, u):
    rmse = obvious_curve(y, p, u, lambda kept: np.sqrt(np.mean((y[kept] - p[kept]) ** 2)))
    mae = obvious_curve(y, p, u, lambda kept: np.mean(np.abs(y[kept] - p[kept])))
    np.testing.assert_allclose(metrics.rejection_curve(y, p, u), rmse, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(metrics.rejection_curve(y, p, u, "mae"), mae, rtol=1e-9, atol=1e-9)
    area = sum((a + b) / 2 for a, b in itertools.pairwise(rmse)) / 11
    assert metrics.rejection_auc(y, p, u) == pytest.approx(area, rel=1e-9, abs=1e-9)


@given(y=vectors, p=vectors, u=vectors)
def test_nobody_beats_the_oracle(y, p, u):
    for error in ("rmse", "mae", "logcosh"):
        assert metrics.oracle_auc(y, p, error) <= metrics.rejection_auc(y, p, u, error) + 1e-9
        assert metrics.excess_auc(y, p, u, error) >= -1e-9
    assert metrics.excess_auc(y, p, (y - p) ** 2) == pytest.approx(0, abs=1e-9)


def test_a_ranking_that_knows_nothing_has_excess_one():
    rng = np.random.default_rng(0)
    y, p = rng.normal(size=(2, 20_000))
    assert metrics.excess_auc(y, p, rng.uniform(size=20_000)) == pytest.approx(1, abs=0.02)


def test_loss_calibration_of_the_truth_and_of_a_wrong_scale():
    rng = np.random.default_rng(0)
    std = rng.uniform(0.2, 3, size=200_000)
    y = std * rng.normal(size=200_000)
    right = metrics.loss_calibration(y, np.zeros_like(y), std**2)
    assert right.ratio == pytest.approx(1, abs=0.02)
    assert right.error < 0.03
    np.testing.assert_allclose(right.bins["ratio"], 1, atol=0.05)
    assert right.bins["count"].tolist() == [20_000] * 10
    assert right.bins["predicted"].is_monotonic_increasing
    wrong = metrics.loss_calibration(y, np.zeros_like(y), 3 * std**2)
    assert wrong.ratio == pytest.approx(3, rel=0.02)
    assert wrong.error == pytest.approx(2, rel=0.05)
    absolute = metrics.loss_calibration(y, np.zeros_like(y), std * np.sqrt(2 / np.pi), "absolute")
    assert absolute.ratio == pytest.approx(1, abs=0.01)


def test_nothing_expected_and_nothing_realised_is_right():
    result = metrics.loss_calibration(np.ones(20), np.ones(20), np.zeros(20))
    assert (result.ratio, result.error) == (1.0, 0.0)
    assert (result.bins["ratio"] == 1).all()
    wrong = metrics.loss_calibration([1.0, 2.0], [1.0, 2.0], [0.1, 0.2], n_bins=1)
    assert (wrong.ratio, wrong.error) == (np.inf, np.inf)


def test_coverage_and_width():
    assert metrics.coverage([1, 2, 3, 4], [0, 2, 4, 4], [2, 3, 5, 4]) == 0.75
    assert metrics.interval_width([0, 1], [2, 5]) == 3.0


@pytest.mark.parametrize(("name", "law"), [("gaussian", stats.norm), ("laplace", stats.laplace)])
def test_nll_and_crps_by_their_definitions(name, law):
    rng = np.random.default_rng(0)
    y, mean = rng.normal(size=(2, 50))
    scale = rng.uniform(0.5, 2, size=50)
    assert metrics.nll(y, mean, scale, name) == pytest.approx(-np.mean(np.log(law.pdf(y, mean, scale))))
    grid = np.linspace(-40, 40, 160_001)
    crps = [
        np.trapezoid((law.cdf(grid, m, s) - (grid >= v)) ** 2, grid) for v, m, s in zip(y, mean, scale, strict=True)
    ]
    assert metrics.crps(y, mean, scale, name) == pytest.approx(np.mean(crps), rel=1e-3)


def test_several_outputs_are_summed():
    rng = np.random.default_rng(0)
    y, p = rng.normal(size=(2, 30, 3))
    u = rng.uniform(size=30)
    assert metrics.rejection_curve(y, p, u, "mse")[0] == pytest.approx(LOSSES["squared"](y, p).sum(axis=1).mean())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.rejection_auc([1, 2], [1, 2], [1, 2, 3]), "uncertainty has 3 rows, y_true has 2"),
        (lambda: metrics.rejection_auc([1, np.nan], [1, 2], [1, 2]), "y_true contains NaN, the first in row 1"),
        (lambda: metrics.rejection_auc([[1], [2]], [1, 2], [1, 2]), "y_true has shape"),
        (lambda: metrics.rejection_auc([], [], []), "y_true must have one value a sample"),
        (lambda: metrics.rejection_auc([1], [1], [1], "rsme"), "unknown error 'rsme': did you mean 'rmse'"),
        (lambda: metrics.loss_calibration([1, 2], [1, 2], [1, 2], n_bins=5), "n_bins must be a whole number from 1"),
        (lambda: metrics.nll([1], [1], [1], "normal"), "unknown distribution 'normal'"),
        (lambda: metrics.loss_calibration([1], [1], [-1], n_bins=1), "expected_loss is negative in row 0"),
        (lambda: metrics.nll([1], [1], [1], None), "unknown distribution None"),
        (lambda: metrics.nll([1], [1], [0]), "scale must be positive; in row 0 it is not"),
        (lambda: metrics.coverage([[1], [2]], [0, 0], [1, 3]), r"y_true has shape \(2, 1\), lower \(2,\)"),
        (lambda: metrics.interval_width([[1], [2]], [0, 0]), r"lower has shape \(2, 1\), upper \(2,\)"),
        (lambda: metrics.rejection_auc([1], [1], [1], "pinball(2)"), "q must lie strictly between 0 and 1"),
        (lambda: metrics.rejection_auc(["a"], [1], [1]), "y_true must be numbers"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_perfect_ranking_of_equal_losses_has_no_excess():
    assert metrics.excess_auc([0.0, 0.0], [1.0, 1.0], [1, 2], "mae") == 0.0
    assert metrics.rejection_auc([0.0], [2.0], [1.0], "mae") == 2.0  # one row: nothing can be refused


def test_uncertainty_of_several_outputs_counts_by_its_sum():
    y, p = np.zeros((3, 2)), np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 0.5]])
    by_parts = np.array([[2.0, 1.0], [1.5, 1.0], [0.0, 0.2]])
    np.testing.assert_allclose(
        metrics.rejection_curve(y, p, by_parts, "mae"), metrics.rejection_curve(y, p, by_parts.sum(axis=1), "mae")
    )
    assert metrics.rejection_curve(y, p, by_parts, "mae").tolist() == pytest.approx([5.5 / 3, 1.25, 0.5])


def test_nothing_can_be_gained_where_all_errors_are_equal():
    assert metrics.excess_auc([0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [3.0, 1.0, 2.0]) == 0.0


def test_small_errors_have_an_excess_too():
    """The worst order of errors 0.1, 0.2 and 0.3, in units of what refusing at random costs."""
    curve = metrics.rejection_curve([0.0] * 3, [0.1, 0.2, 0.3], [3.0, 2.0, 1.0], "mae")
    best = metrics.rejection_curve([0.0] * 3, [0.1, 0.2, 0.3], [1.0, 2.0, 3.0], "mae")
    expected = (metrics.area(curve) - metrics.area(best)) / (0.2 - metrics.area(best))
    assert metrics.excess_auc([0.0] * 3, [0.1, 0.2, 0.3], [3.0, 2.0, 1.0], "mae") == pytest.approx(expected)
    assert expected > 1
