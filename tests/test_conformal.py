"""Conformal intervals: level sets of the loss, and the coverage that is promised."""

from fractions import Fraction

import numpy as np
import pytest

from aleator import conformal, losses

ALL = [*losses.LOSSES.values(), losses.huber(0.3), losses.pinball(0.8)]


@pytest.mark.parametrize("loss", ALL, ids=lambda loss: loss.name)
def test_ends_lie_on_the_level(loss):
    rng = np.random.default_rng(0)
    mean, level = rng.normal(size=50), rng.uniform(0.01, 20, size=50)
    for end in conformal.level_set(loss, mean, level):
        np.testing.assert_allclose(loss(end, mean), level, rtol=1e-9)
    low, high = conformal.level_set(loss, mean, level)
    assert (low < mean).all()
    assert (mean < high).all()


def test_closed_form_is_what_bisection_finds():
    bare = losses.Loss("bare", losses.absolute.value, losses.absolute.slope)
    mean, level = np.array([0.0, 5.0, -3e5]), np.array([1.0, 1e-8, 1e6])
    for a, b in zip(
        conformal.level_set(losses.absolute, mean, level), conformal.level_set(bare, mean, level), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("promised", [0.5, 0.8, 0.9, 0.95])
def test_coverage_over_calibration_splits(promised):
    """Exact for finite samples: over many splits the mean is the promise to within 1 / (n + 1)."""
    rng = np.random.default_rng(1)
    n, covered = 60, []
    for _ in range(400):
        scale = rng.uniform(0.1, 3, size=n + 200)
        realised = (scale * rng.standard_t(3, size=n + 200)) ** 2
        q = conformal.quantile(conformal.scores(realised[:n], scale[:n] ** 2), promised)
        covered.append(np.mean(realised[n:] <= q * scale[n:] ** 2))
    assert promised - 0.01 < np.mean(covered) < promised + 1 / (n + 1) + 0.01


@pytest.mark.parametrize("promised", [0.5, 0.8, 0.9])
def test_both_sides_over_calibration_splits(promised):
    """Skewed errors: below and above at most half of what is left each, and not much less."""
    rng = np.random.default_rng(1)
    n, below, above = 99, [], []
    for _ in range(400):
        scale = rng.uniform(0.1, 3, size=n + 200)
        miss = scale * (rng.exponential(size=n + 200) - 0.5)
        scores = conformal.scores(np.abs(miss[:n, None]), scale[:n, None], np.sign(miss[:n, None]))
        ends = conformal.ends(losses.absolute, np.zeros(200), scale[n:], conformal.quantiles(scores, promised))
        below.append(np.mean(miss[n:] < ends[0]))
        above.append(np.mean(miss[n:] > ends[1]))
    for share in (below, above):
        assert (1 - promised) / 2 - 1 / (n + 1) - 0.01 < np.mean(share) < (1 - promised) / 2 + 0.01


def test_the_interval_contains_the_prediction():
    """Where nearly all targets are on one side, the other end is the prediction; so it is where nothing was expected."""
    for sign in (-1.0, 1.0):
        scores = np.sort(sign * np.r_[np.linspace(1, 2, 98), -1, -2])[:, None]
        low, high = conformal.ends(losses.absolute, np.zeros(1), np.ones(1), conformal.quantiles(scores, 0.9))
        assert low[0] <= 0 <= high[0]
        assert (high[0] if sign > 0 else -low[0]) == pytest.approx(1.96, abs=0.02)
    endless = np.sort(np.r_[np.full(98, np.inf), -1, -2])[:, None]
    low, high = conformal.ends(losses.absolute, np.zeros(1), np.ones(1), conformal.quantiles(endless, 0.9))
    assert (low[0], high[0]) == (0.0, np.inf)


def test_few_rows_have_one_level_for_both_sides():
    scores = np.sort(np.random.default_rng(0).normal(size=(18, 1)), axis=0)
    assert conformal.quantiles(scores, 0.9) is None
    assert conformal.quantiles(np.vstack([scores, [[9.0]]]), 0.9) is not None
    assert conformal.quantiles(np.abs(scores.repeat(9, axis=0)), 0.9) is None  # files from before scores had a sign


def test_a_side_that_costs_nothing_has_no_end():
    late = losses.Loss("late", lambda y, p: max(y - p, 0.0), lambda y, p: -1.0 if y > p else 0.0, degree=1)
    low, high = conformal.level_set(late, np.zeros(1), np.ones(1))
    assert (low[0], high[0]) == (-np.inf, 1.0)
    bare = losses.Loss("bare", losses.absolute.value, losses.absolute.slope)
    assert conformal.level_set(bare, np.zeros(2), np.array([np.inf, 1.0]))[1].tolist() == [np.inf, pytest.approx(1.0)]


# ---------------------------------------------------------------- ranks, by exact fractions

SHARES = [Fraction(1, 2), Fraction(4, 5), Fraction(9, 10), Fraction(19, 20), Fraction(99, 100)]


@pytest.mark.parametrize("promised", SHARES, ids=str)
def test_ranks_of_both_ends(promised):
    """The largest rank with a level of at most a / 2, the smallest with one of at least 1 - a / 2; levels are k / (n + 1)."""
    tail = (1 - promised) / 2
    for n in range(2, 250):
        ranks = range(1, n + 1)
        lower = max((k for k in ranks if Fraction(k, n + 1) <= tail), default=None)
        upper = min((k for k in ranks if Fraction(k, n + 1) >= 1 - tail), default=None)
        shifted = np.arange(1.0, n + 1)[:, None] - 1.5  # the first is negative
        found = conformal.quantiles(shifted, float(promised))
        if lower is None or upper is None:
            assert found is None
        else:
            assert [float(q[0]) + 1.5 for q in found] == [lower, upper]


@pytest.mark.parametrize("promised", SHARES, ids=str)
def test_rank_of_the_symmetric_interval(promised):
    """The smallest rank with a level of at least the coverage; signs do not count."""
    for n in range(1, 250):
        rank = min((k for k in range(1, n + 1) if Fraction(k, n + 1) >= promised), default=None)
        signs = np.where(np.arange(n) % 2, -1.0, 1.0)
        signed = np.sort(np.arange(1.0, n + 1) * signs)[:, None]
        if rank is None:
            needed = min(m for m in range(1, 1000) if Fraction(m, m + 1) >= promised)
            with pytest.raises(ValueError, match=f"needs at least {needed} rows .* and there are {n}:"):
                conformal.quantile(signed, float(promised))
        else:
            assert conformal.quantile(signed, float(promised))[0] == rank


def test_zero_is_no_negative_score():
    """Without one negative score there are no signs, and no level for each end; one is enough."""
    assert conformal.quantiles(np.arange(200.0)[:, None], 0.9) is None
    assert conformal.quantiles(np.arange(200.0)[:, None] - 1.0, 0.9) is not None


def test_scores():
    realised, expected = np.array([6.0, 0.0, 2.0, 0.0, 3.0]), np.array([2.0, 0.0, 0.0, 5.0, 3.0])
    np.testing.assert_array_equal(conformal.scores(realised, expected), [0.0, 0.0, 1.0, 3.0, np.inf])
    sides = np.array([-1.0, -1.0, -1.0, 0.0, 1.0])
    np.testing.assert_array_equal(conformal.scores(realised, expected, sides), [-np.inf, -3.0, 0.0, 0.0, 1.0])
    columns = conformal.scores(np.array([[3.0, 1.0], [1.0, 2.0]]), np.ones((2, 2)))
    np.testing.assert_array_equal(columns, [[1.0, 1.0], [3.0, 2.0]])  # each output for itself


def test_levels():
    factor, expected = np.array([2.0, np.inf, np.inf, 0.0]), np.array([3.0, 0.0, 1.0, 7.0])
    np.testing.assert_array_equal(conformal.levels(factor, expected), [6.0, np.inf, np.inf, 0.0])


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize(
    "loss", [losses.absolute, losses.pinball(0.8), losses.huber(0.3), losses.squared], ids=lambda loss: loss.name
)
def test_targets_at_the_ends_have_the_scores_at_the_ends(loss):
    rng = np.random.default_rng(0)
    mean, expected = 10 * rng.normal(size=40), rng.uniform(0.1, 5, size=40)
    lower, upper = np.array([-0.7]), np.array([2.5])
    low, high = conformal.ends(loss, mean, expected, (lower, upper))
    assert (low < mean).all()
    assert (mean < high).all()
    np.testing.assert_allclose(-loss(low, mean) / expected, lower[0], rtol=1e-9)
    np.testing.assert_allclose(loss(high, mean) / expected, upper[0], rtol=1e-9)


def test_an_end_on_the_other_side_is_the_prediction():
    mean, expected = np.array([1.0, -2.0]), np.array([1.0, 3.0])
    low, high = conformal.ends(losses.absolute, mean, expected, (np.array([0.5]), np.array([2.0])))
    np.testing.assert_array_equal(low, mean)
    np.testing.assert_array_equal(high, mean + 2 * expected)
    low, high = conformal.ends(losses.absolute, mean, expected, (np.array([-2.0]), np.array([-0.5])))
    np.testing.assert_array_equal(low, mean - 2 * expected)
    np.testing.assert_array_equal(high, mean)


def test_ends_of_a_cost_known_by_its_values():
    """Bisection from 1 up to the end of float64 and down to 1e-50, each side for itself."""

    def cost(y, mean):
        return np.where(y > mean, 3.0 * np.sqrt(np.abs(y - mean)), np.abs(y - mean) / 7.0)

    for level in (1e-25, 0.3, 1.0, 40.0, 1e150):
        low, high = conformal.level_set(cost, np.zeros(2), np.full(2, level))
        np.testing.assert_allclose(low, -7.0 * level, rtol=1e-9)
        np.testing.assert_allclose(high, (level / 3.0) ** 2, rtol=1e-9)
    mixed = conformal.level_set(cost, np.array([5.0, 5.0]), np.array([np.inf, 3.0]))
    np.testing.assert_allclose(mixed[0], [-np.inf, -16.0])
    np.testing.assert_allclose(mixed[1], [np.inf, 6.0])


# ---------------------------------------------------------------- costs that grow


def bent(at, side, slope=-1.0, mean_only=None):
    """|y - y_r|, which beyond `at` on one side goes on with another slope."""

    def cost(y, mean):
        far = np.maximum(side * (y - mean) - at, 0.0)
        falls = far if mean_only is None else np.where(mean == mean_only, far, 0.0)
        return np.abs(y - mean) + (slope - 1.0) * falls

    return cost


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_cost_that_falls_is_found_up_to_four_spreads(side):
    mean = np.array([-1.0, 1.0] * 10)  # a spread of 1
    assert conformal.grows(bent(3.85, side), mean) is False
    assert conformal.grows(bent(0.05, side), mean) is False
    assert conformal.grows(bent(4.05, side), mean) is True
    assert conformal.grows(bent(2.0, side, slope=0.0), mean) is True  # level is not falling
    assert conformal.grows(bent(2.0, side, slope=-1e-6), mean) is False
    assert conformal.grows(bent(2.0, side, slope=-1e-9), mean) is True  # rounding is not falling


def test_predictions_that_are_all_equal_are_tried_in_thousandths():
    same = np.full(20, -1000.0)  # a spread of 0: a thousandth of 1000 in its place
    assert conformal.grows(bent(3.85, 1.0), same) is False
    assert conformal.grows(bent(4.05, 1.0), same) is True
    assert conformal.grows(bent(1e-9, 1.0), np.zeros(20)) is True  # nothing tells how far to go


def test_the_first_25_predictions_are_tried():
    mean = np.arange(40.0)
    assert conformal.grows(bent(0.1, 1.0, mean_only=24.0), mean) is False
    assert conformal.grows(bent(0.1, 1.0, mean_only=25.0), mean) is True


def test_a_loss_is_known_to_grow():
    falling = losses.Loss("falling", lambda y, p: -abs(y - p), lambda y, p: 0.0)
    assert conformal.grows(falling, np.arange(5.0)) is True
    assert conformal.grows(lambda y, p: -np.abs(y - p), np.arange(5.0)) is False


def test_a_cost_that_is_flat_for_a_while_grows():
    """Within a tolerance nothing is lost; no cost may fall on the way out, whatever the predictions are."""
    y_pred = np.linspace(-3, 5, 30)
    assert conformal.grows(losses.Cost(lambda y, p: np.maximum(np.abs(y - p) - 1, 0)), y_pred)
    assert conformal.grows(losses.Cost(lambda y, p: np.abs(y - p)), np.zeros(3))
    assert not conformal.grows(losses.Cost(lambda y, p: np.minimum(np.abs(y - p), 3 - np.abs(y - p))), y_pred)
    assert not conformal.grows(
        losses.Cost(lambda y, p: np.where(y < p, np.minimum(p - y, 1) - 1e-3 * (p - y), y - p)), y_pred
    )


def test_a_loss_on_one_side_only_has_no_end_on_the_other():
    late = losses.Loss("late", lambda y, p: max(y - p, 0.0), lambda y, p: -1.0 if y > p else 0.0, degree=1)
    low, high = conformal.level_set(late, np.array([1.0, 2.0]), np.array([3.0, 0.5]))
    np.testing.assert_array_equal(low, [-np.inf, -np.inf])
    np.testing.assert_allclose(high, [4.0, 2.5])


def test_a_dead_zone_belongs_to_the_interval_of_score_zero():
    """Errors up to 1 cost nothing: where all scores are 0, so does every target up to 1 away."""
    zone = losses.Loss(
        "zone", lambda y, p: max(abs(y - p) - 1.0, 0.0), lambda y, p: float(p > y + 1) - float(p < y - 1)
    )
    zero = np.zeros(3)
    low, high = conformal.ends(zone, np.array([0.0, 4.0, -9.0]), np.ones(3), (zero, zero))
    np.testing.assert_allclose(low, [-1.0, 3.0, -10.0], rtol=1e-12)
    np.testing.assert_allclose(high, [1.0, 5.0, -8.0], rtol=1e-12)


def test_a_free_side_has_no_end_at_level_zero_either():
    below = losses.Loss("below", lambda y, p: max(p - y, 0.0), lambda y, p: float(p > y), degree=1)
    low, high = conformal.level_set(below, np.array([0.0, 1.0]), np.array([0.0, 2.0]))
    assert low.tolist() == [0.0, -1.0]
    assert high.tolist() == [np.inf, np.inf]
