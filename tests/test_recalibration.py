"""Corrections of the expected loss: a factor, a rising curve, and scale and limits of `fit` before them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleator import recalibration
from aleator.loss_correction import LossCorrection
from aleator.recalibration import Correction


@given(seed=st.integers(0, 99), factor=st.floats(1e-3, 1e3))
def test_a_factor_is_the_quotient_of_the_means(seed, factor):
    expected = np.random.default_rng(seed).exponential(size=60)
    curve = recalibration.learn(factor * expected[::-1], expected, "factor")
    assert len(curve.before) == 1
    np.testing.assert_allclose(curve(expected), factor * expected)
    assert curve(np.array([0.0])) == 0


def test_isotonic_goes_through_the_means_of_bins_of_25_rows():
    rng = np.random.default_rng(0)
    expected = rng.permutation(np.arange(1.0, 101.0))
    curve = recalibration.learn(expected**2, expected, "isotonic")
    bins = np.arange(1.0, 101.0).reshape(4, 25)
    np.testing.assert_allclose(curve.before, bins.mean(axis=1))
    np.testing.assert_allclose(curve.after, (bins**2).mean(axis=1))
    assert (
        len(recalibration.learn(expected[:49] ** 2, expected[:49], "isotonic").before) == 1
    )  # below 50 rows: a factor
    assert len(recalibration.learn(expected[:50] ** 2, expected[:50], "isotonic").before) == 2


def test_isotonic_never_falls_and_keeps_the_mean_of_what_it_pools():
    """Realised losses that fall with the expected ones are pooled: the bins' common mean, weighted by their rows."""
    expected = np.concatenate([np.repeat(1.0, 25), np.repeat(2.0, 50), np.repeat(3.0, 25)])
    realised = np.concatenate([np.repeat(5.0, 25), np.repeat(2.0, 50), np.repeat(9.0, 25)])
    curve = recalibration.learn(realised, expected, "isotonic")
    np.testing.assert_allclose(curve.before, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(curve.after, [3.0, 3.0, 9.0])


def test_isotonic_recalibration_of_losses_in_steps():
    """Three values expected, two of them realised as one, and the smallest may be no loss at all."""
    expected, realised = np.repeat([1.0, 2.0, 3.0], 200), np.repeat([1.0, 1.0, 10.0], 200)
    curve = recalibration.learn(realised, expected, "isotonic")
    np.testing.assert_allclose(curve(np.array([0.5, 1.0, 2.0, 2.5, 3.0, 6.0])), [0.5, 1, 1, 5.5, 10, 20])
    free = recalibration.learn(np.repeat([0.0, 1.0, 10.0], 200), expected, "isotonic")
    np.testing.assert_allclose(free(np.array([1.0, 3.0])), [0, 10])
    with pytest.raises(ValueError, match="nothing to correct"):
        recalibration.learn(realised, np.zeros(600), "factor")


def test_a_curve_is_straight_between_knots_and_in_proportion_beyond():
    curve = Correction(np.array([1.0, 3.0]), np.array([2.0, 10.0]))
    np.testing.assert_allclose(curve(np.array([0.5, 1.0, 2.0, 3.0, 6.0])), [1.0, 2.0, 6.0, 10.0, 20.0])
    zero = Correction(np.array([0.0, 2.0]), np.array([0.0, 4.0]))
    np.testing.assert_allclose(zero(np.array([0.0, 1.0, 4.0])), [0.0, 2.0, 8.0])


def test_scale_then_limits_then_curves():
    """Each quantifier has its own; limits come after the scale and before the curves."""
    raw = np.array([[1.0, 10.0], [4.0, 40.0]])
    plain = LossCorrection(np.array([2.0, 0.5]))
    np.testing.assert_array_equal(plain(raw), [[2.0, 5.0], [8.0, 20.0]])
    limited = LossCorrection(plain.scale, np.array([[3.0, 0.0], [6.0, 15.0]]))
    np.testing.assert_array_equal(limited(raw), [[3.0, 5.0], [6.0, 15.0]])
    np.testing.assert_array_equal(limited.within_limits(raw), [[3.0, 10.0], [4.0, 15.0]])
    curves = tuple(Correction(np.array([1.0]), np.array([factor])) for factor in (10.0, 100.0))
    corrected = LossCorrection(limited.scale, limited.limits, curves)
    np.testing.assert_array_equal(corrected(raw), [[30.0, 500.0], [60.0, 1500.0]])
