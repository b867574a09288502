"""Losses: laws every one of them obeys, own losses, names."""

import copy
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleator import losses
from aleator.losses import LOSSES, Loss

ALL = [*LOSSES.values(), losses.huber(0.3), losses.pinball(q=0.9), losses.pinball(1 / 3), losses.huber(delta=1234567.8)]
IDS = [loss.name for loss in ALL]
values = st.floats(-1e3, 1e3)


@pytest.mark.parametrize("loss", ALL, ids=IDS)
@given(y=values, y_r=values)
def test_slope_is_the_derivative(loss, y, y_r):
    h = 1e-5
    if abs(abs(y_r - y) - 0.3) < 1e-3 or abs(abs(y_r - y) - 1) < 1e-3 or abs(y_r - y) < 1e-3:
        return  # a kink of the value or of the slope
    difference = (loss.value(y, y_r + h) - loss.value(y, y_r - h)) / (2 * h)
    assert loss.slope(y, y_r) == pytest.approx(difference, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("loss", ALL, ids=IDS)
@given(y=values, y_r=values)
def test_not_negative_and_zero_at_the_target(loss, y, y_r):
    assert loss.value(y, y_r) >= 0
    assert loss.value(y, y) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("loss", [loss for loss in ALL if loss.degree], ids=lambda loss: loss.name)
@given(y=values, y_r=values, c=st.floats(0.01, 100), a=values)
def test_degree(loss, y, y_r, c, a):
    assert loss.value(a + c * y, a + c * y_r) == pytest.approx(c**loss.degree * loss.value(y, y_r), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("loss", ALL, ids=IDS)
def test_arrays_are_the_scalar_function(loss):
    rng = np.random.default_rng(0)
    y, y_r = rng.normal(size=(2, 5, 3))
    expected = [[loss.value(a, b) for a, b in zip(*rows, strict=True)] for rows in zip(y, y_r, strict=True)]
    np.testing.assert_allclose(loss(y, y_r), expected, rtol=1e-13)
    np.testing.assert_array_equal(loss(y, 0.0), loss(y, np.zeros_like(y)))


def test_minimisers_are_mean_median_quantile():
    y = np.random.default_rng(0).gamma(2, size=1001)
    grid = np.quantile(y, np.linspace(0, 1, 1001))

    def best(loss):
        return grid[np.argmin([loss(y, c).mean() for c in grid])]

    assert best(losses.squared) == pytest.approx(y.mean(), rel=1e-2)
    assert best(losses.absolute) == pytest.approx(np.median(y), rel=1e-2)
    assert best(losses.pinball(0.9)) == pytest.approx(np.quantile(y, 0.9), rel=1e-2)


@pytest.mark.parametrize("loss", ALL, ids=IDS)
def test_can_be_copied_and_pickled(loss):
    for other in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        assert other is loss
        assert other.value(1.0, 3.5) == loss.value(1.0, 3.5)


def test_names():
    assert losses.get("pinball(0.9)").value(1, 0) == pytest.approx(0.9)
    assert losses.get("huber(2)") is losses.huber(2.0) is losses.huber(delta=2)
    with pytest.raises(ValueError, match="unknown loss 'squred': did you mean 'squared'"):
        losses.get("squred")
    with pytest.raises(ValueError, match="known: squared, absolute, huber, pinball, logcosh"):
        losses.get("zzz")
    with pytest.raises(ValueError, match="q must lie strictly between 0 and 1"):
        losses.get("pinball(1.5)")
    with pytest.raises(ValueError, match="delta must be a positive number"):
        losses.huber(-1)
    with pytest.raises(ValueError, match="a name or an aleator.losses.Loss"):
        losses.get(3)


Y = np.linspace(1, 5, 50)[:, None]


def test_check_accepts_sound_losses():
    for loss in ALL:
        losses.check(loss, Y)
    losses.check(Loss("relative", lambda y, p: abs(y - p) / y, lambda y, p: math.copysign(1 / y, p - y)), Y)


def test_check_says_what_is_wrong_and_where():
    with pytest.raises(ValueError, match=r"loss 'bad' is negative at y=1, prediction="):
        losses.check(Loss("bad", lambda y, p: p - y - 10, lambda y, p: 1.0), Y)
    with pytest.raises(ValueError, match="slope is not the derivative of value at y="):
        losses.check(Loss("bad", lambda y, p: (p - y) ** 2, lambda y, p: p - y), Y)
    with pytest.raises(ValueError, match="loss 'bad' is not finite at y="):
        losses.check(Loss("bad", lambda y, p: math.inf, lambda y, p: 0.0), Y)


def test_names_of_shipped_losses_are_not_to_be_had():
    with pytest.raises(ValueError, match="the name 'squared' belongs to a loss of aleator's"):
        losses.get(Loss("squared", lambda y, p: (p - y) ** 2 / 2, lambda y, p: p - y))


def test_degree_is_checked():
    for degree, right in ((1, False), (2, True), (3, False)):
        own = Loss("own", lambda y, p: (p - y) ** 2, lambda y, p: 2 * (p - y), degree=degree)
        if right:
            losses.check(own, Y)
        else:
            with pytest.raises(ValueError, match=f"loss 'own' is not of degree {degree}"):
                losses.check(own, Y)
    for degree in (0, -1, 1.5, "a"):
        with pytest.raises(ValueError, match="degree of the loss 'own' must be a whole number"):
            Loss("own", lambda y, p: 0.0, lambda y, p: 0.0, degree=degree)
    with pytest.raises(ValueError, match="slope of the loss 'own' must be a function"):
        Loss("own", lambda y, p: 0.0, None)


def test_logcosh_is_accurate_for_small_residuals():
    for r in (1e-12, 1e-6, 1e-3, 0.5, 0.999, 1.001, 30.0):
        exact = r * r / 2 * (1 - r * r / 6) if r < 1e-2 else math.log(math.cosh(r))
        assert losses.logcosh.value(0.0, r) == pytest.approx(exact, rel=1e-9)


def test_own_loss_that_cannot_be_compiled_is_named():
    own = Loss("own", lambda y, p: {}[y], lambda y, p: 0.0)
    with pytest.raises(ValueError, match=r"cannot be compiled.*Numba says: \w+"):
        own([1.0], [2.0])


def test_parameters_of_one_family_are_not_mixed_up(tmp_path):
    """Each compiled in a process of its own, all read from the cache on disk in one: which symbol is whose?"""
    code = """
import sys
import numpy as np
from aleator import losses
y = np.linspace(-3, 3, 7)
for name in sys.argv[1:]:
    loss = losses.get(name)
    assert np.allclose(loss(y, np.zeros(7)), [loss.value(at, 0.0) for at in y]), name
"""
    names = ["huber(1.0)", "huber(0.5)", "pinball(0.1)", "pinball(0.9)"]
    for together in [[name] for name in names] + [names + names]:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", code, *together], env=environment, check=True)


def test_closed_values_on_both_sides():
    """A kink joins two pieces: a wrong constant in one of them shows in no derivative."""
    assert losses.huber(2.0)([0, 0, 0], [1, 2, -5]).tolist() == [0.5, 2.0, 8.0]
    assert losses.huber().name == "huber(1.0)"
    assert losses.pinball(0.9)([1.0, 1.0], [0.0, 2.0]) == pytest.approx([0.9, 0.1])
    assert losses.pinball().name == "pinball(0.5)"
    assert losses.logcosh([0, 0], [2, -40]) == pytest.approx([math.log(math.cosh(2)), 40 - math.log(2)], rel=1e-12)


def test_what_can_measure():
    def cost(y, y_pred):
        return np.abs(y - y_pred)

    assert losses.measured("absolute") is losses.absolute
    assert losses.measured(losses.squared) is losses.squared
    assert losses.measured(cost).function is cost
    assert losses.measured(losses.measured(cost)).function is cost
    for wrong in (Loss, 3.0, None):
        with pytest.raises(ValueError, match="loss must be"):
            losses.measured(wrong)


def test_a_loss_over_rows_with_a_wrong_gradient_is_refused():
    y = np.random.default_rng(0).normal(size=(40, 2))

    def length(y, y_r):
        return float(np.sqrt(((y_r - y) ** 2).sum()))

    def gradient(y, y_r):
        return (y_r - y) / length(y, y_r)

    losses.check(Loss("length", length, gradient, over_rows=True), y)
    for wrong, message in [
        (lambda y, y_r: 1.1 * gradient(y, y_r), "slope is not the gradient of value"),
        (lambda y, y_r: gradient(y, y_r)[::-1], "slope is not the gradient of value"),
        (lambda y, y_r: 1.0, "a slope for each output"),
    ]:
        with pytest.raises(ValueError, match=message):
            losses.check(Loss("length", length, wrong, over_rows=True), y)
    with pytest.raises(ValueError, match="is negative"):
        losses.check(Loss("minus", lambda y, y_r: -length(y, y_r), lambda y, y_r: -gradient(y, y_r), over_rows=True), y)
    with pytest.raises(ValueError, match="y has one"):
        losses.check(Loss("length", length, gradient, over_rows=True), y[:, :1])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_slope_that_is_two_percent_off_is_refused(scale):
    y = scale * np.random.default_rng(0).normal(size=(60, 1))
    losses.check(Loss("right", lambda y, p: (y - p) ** 2, lambda y, p: 2 * (p - y), degree=2), y)
    with pytest.raises(ValueError, match="slope is not the derivative"):
        losses.check(Loss("wrong", lambda y, p: (y - p) ** 2, lambda y, p: 2.04 * (p - y), degree=2), y)
    with pytest.raises(ValueError, match="is not of degree 1"):
        losses.check(Loss("degree", lambda y, p: (y - p) ** 2, lambda y, p: 2 * (p - y), degree=1), y)


def test_shapes_of_a_cost():
    y, p = np.zeros((4, 2)), np.ones((4, 2))
    assert losses.Cost(lambda y, p: np.abs(y - p))(y, p).shape == (4, 2)
    assert losses.Cost(lambda y, p: np.abs(y - p).sum(axis=1))(y, p).shape == (4,)
    assert losses.Cost(lambda y, p: np.abs(y - p).sum(axis=1, keepdims=True))(y, p).shape == (4,)
    assert losses.Cost(lambda y, p: np.abs(y - p))(y[:, :1], p[:, :1]).shape == (4, 1)
    for wrong, message in [
        (lambda y, p: np.zeros((4, 3)), r"an array of shape \(4, 3\)"),
        (lambda y, p: 1.0, "a single number"),
        (lambda y, p: np.zeros(3), "gives 3"),
        (lambda y, p: np.array(["a"] * 4), "must give numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            losses.Cost(wrong)(y, p)


def test_a_loss_over_rows_must_be_finite_and_is_zero_at_its_target():
    y = np.random.default_rng(0).normal(size=(30, 2))
    losses.check(Loss("zero", lambda y, p: 0.0, lambda y, p: np.zeros(2), over_rows=True), y)
    for value, slope in [
        (lambda y, p: math.inf, lambda y, p: np.zeros(2)),
        (lambda y, p: 1.0, lambda y, p: np.array([0.0, math.nan])),
    ]:
        with pytest.raises(ValueError, match="needs a finite value and a slope"):
            losses.check(Loss("infinite", value, slope, over_rows=True), y)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_every_degree_is_known_from_the_others(degree):
    def value(y, p):
        return abs(p - y) ** degree

    def slope(y, p):
        return math.copysign(degree * abs(p - y) ** (degree - 1), p - y)

    for claimed in (1, 2, 3, 4):
        own = Loss("own", value, slope, degree=claimed)
        if claimed == degree:
            losses.check(own, Y)
        else:
            with pytest.raises(ValueError, match=f"is not of degree {claimed}"):
                losses.check(own, Y)


@pytest.mark.parametrize("bad", [0, 12, 24])
def test_a_loss_is_tried_at_25_quantiles_from_the_least_to_the_largest(bad):
    """A loss that is negative for one of these targets only is refused, and the others are not enough."""
    y = np.arange(25.0)[:, None]
    own = Loss("hole", lambda y, p: -1.0 if y == bad else (p - y) ** 2, lambda y, p: 2 * (p - y))
    with pytest.raises(ValueError, match=f"is negative at y={bad}"):
        losses.check(own, y)


@pytest.mark.parametrize("bad", [0, 12, 24])
def test_a_loss_over_rows_is_tried_at_25_rows_from_the_first_to_the_last(bad):
    y = np.random.default_rng(0).normal(size=(25, 2))
    target = y[bad, 0]
    own = Loss(
        "hole", lambda y, p: -1.0 if y[0] == target else ((p - y) ** 2).sum(), lambda y, p: 2 * (p - y), over_rows=True
    )
    with pytest.raises(ValueError, match="is negative"):
        losses.check(own, y)


def test_a_constant_target_is_tried_too():
    y = np.full((10, 1), 5.0)
    losses.check(Loss("fine", lambda y, p: (p - y) ** 2, lambda y, p: 2 * (p - y)), y)
    with pytest.raises(ValueError, match="is negative"):
        losses.check(Loss("minus", lambda y, p: -1.0, lambda y, p: 0.0), y)
    rows = np.tile([5.0, 3.0], (10, 1))
    losses.check(Loss("fine", lambda y, p: float(((p - y) ** 2).sum()), lambda y, p: 2 * (p - y), over_rows=True), rows)
    with pytest.raises(ValueError, match="is not the gradient"):
        losses.check(
            Loss("off", lambda y, p: float(((p - y) ** 2).sum()), lambda y, p: 3 * (p - y), over_rows=True), rows
        )
