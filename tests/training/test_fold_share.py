"""What one more fold is worth: exact for power laws, and nothing where only chance speaks for it."""

import numpy as np
import pytest

from aleator.training import defaults
from aleator.training.fold_share import certain_part, extrapolated_share


@pytest.mark.parametrize("folds", [3, 5, 10])
def test_the_share_of_a_power_law_is_exact(folds):
    alpha = np.array([0.0, 0.3, 1.0])
    once, twice = (7 * (folds - k) ** -alpha for k in (1, 2))
    np.testing.assert_allclose(extrapolated_share(once, twice, folds), (1 - 1 / folds) ** alpha)
    once, twice = np.array([1.7, 1e-9, np.nan, 1.0, np.inf]), np.array([1.0, 1.0, 1.0, 0.0, np.inf])
    np.testing.assert_array_equal(extrapolated_share(once, twice, folds), [1.0, defaults.MIN_LOSS_SHARE, 1.0, 1.0, 1.0])


def test_chance_corrects_next_to_nothing():
    """Differences without a mean: the share stays within two per cent of 1 on average, and is 1 in most draws."""
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        one, noise = rng.exponential(size=200), 0.2 * rng.normal(size=200)
        share = extrapolated_share(np.array([one.mean()]), np.array([(one + noise).mean()]), 10)[0]
        found.append(certain_part(float(share), one, one + noise, np.ones(200)))
    assert np.mean(found) > 0.995
    assert np.median(found) == 1.0


def test_what_is_certain_is_corrected_in_full():
    one = np.random.default_rng(0).exponential(size=200)
    assert certain_part(0.8, one, 1.2 * one + 0.1, np.ones(200)) == pytest.approx(0.8, rel=0.01)
    assert certain_part(0.8, one, one + 0.3, np.ones(200)) == pytest.approx(0.8, rel=1e-12)
    assert certain_part(0.8, one, one - 0.3, np.ones(200)) == 1.0
    assert certain_part(1.0, one, one + 0.3, np.ones(200)) == 1.0
    assert certain_part(0.8, one[:1], one[:1] + 0.3, np.ones(1)) == 1.0


def test_it_is_the_rule_of_james_and_stein_and_a_weight_is_a_number_of_rows():
    rng = np.random.default_rng(0)
    one, two, times = rng.exponential(size=50), rng.exponential(size=50) + 0.4, rng.integers(1, 4, 50)
    difference = np.repeat(two - one, times)
    t = difference.mean() / (difference.std() / np.sqrt(len(difference)))
    assert t > 1
    expected = 0.7 ** (1 - 1 / t**2)
    for unit in (1, 5):
        assert certain_part(0.7, one, two, unit * times.astype(float)) == pytest.approx(expected, rel=1e-9)
