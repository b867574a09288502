"""Couplings and heads: derivatives, safety, and the closed forms of the paper."""

import copy
import math
import pickle

import numpy as np
import pytest
from scipy.optimize import brentq

from aleator import couplings, heads
from aleator.couplings import COUPLINGS, Coupling
from aleator.heads import HEADS
from aleator.losses import LOSSES

XI = [-40.0, -30.5, -29.5, -12.0, -3.0, -0.4, 0.0, 0.7, 2.0, 9.0, 25.0, 40.0]


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("lam", [0.05, 1.0, 5.0])
def test_derivatives_of_every_loss_and_head(loss, head, lam):
    """d/dy_r and d/dxi of what one sample adds, against central differences."""

    def value(y_r, xi):
        return head.evaluate(loss.value(0.3, y_r), xi, lam)[0]

    for y_r in (-2.0, 0.31, 0.9, 4.0):
        for xi in XI:
            L = loss.value(0.3, y_r)
            _, dL, dxi = head.evaluate(L, xi, lam)
            h = 1e-3 if head.name in ("gaussian", "laplace") and xi > -13 else 1e-4  # fourth order, so that 1e-6 is met
            by_xi = (
                value(y_r, xi - 2 * h) - 8 * value(y_r, xi - h) + 8 * value(y_r, xi + h) - value(y_r, xi + 2 * h)
            ) / (12 * h)
            by_y = (value(y_r + 1e-6, xi) - value(y_r - 1e-6, xi)) / 2e-6
            # a difference of values of size s is good to 1e-16 s / h
            size = max(1.0, abs(head.evaluate(L, xi, lam)[0]))
            assert dxi == pytest.approx(by_xi, rel=1e-6, abs=max(1e-9, 1e-15 * size / h))
            assert dL * loss.slope(0.3, y_r) == pytest.approx(by_y, rel=1e-6, abs=max(1e-9, 1e-9 * size))


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("L", [0.0, 1e-12, 1.0, 1e6])
def test_finite_far_out(head, L):
    for xi in [*XI, -1e4, -745.0, -88.0, 17.0, 88.0, 745.0, 1e4]:
        assert all(map(math.isfinite, head.evaluate(L, xi, 0.2))), xi
        if head.expected_loss:
            assert np.isfinite(head.expected_loss(xi, 0.2))


@pytest.mark.parametrize("coupling", COUPLINGS.values(), ids=COUPLINGS)
def test_the_fused_head_is_the_composition(coupling):
    slow = heads.composed(coupling)
    for xi in XI:
        for L in (0.0, 0.3, 7.0):
            fast = heads.joint(coupling).evaluate(L, xi, 0.2)
            assert fast == pytest.approx(slow(L, xi, 0.2), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("xi", [-8.0, -1.0, 0.0, 1.5, 8.0])
def test_safe_forms_are_the_papers_functions_of_z(xi):
    """Sec. 5: with z computed first, where that is still accurate."""
    z = 1 / (1 + math.exp(-xi))
    sigmoid = COUPLINGS["sigmoid"]
    assert sigmoid.f(xi) == pytest.approx(-math.log(1 - z), rel=1e-9)
    assert sigmoid.g(xi) == pytest.approx(-math.log(z), rel=1e-9)
    assert sigmoid.expected_loss(xi, 0.3) == pytest.approx(0.3 * (1 / z - 1), rel=1e-9)
    z = math.log(1 + math.exp(xi))
    softplus = COUPLINGS["softplus"]
    assert softplus.f(xi) == pytest.approx(z, rel=1e-9)
    assert softplus.g(xi) == pytest.approx(-math.log(z), rel=1e-9, abs=1e-12)
    assert softplus.expected_loss(xi, 0.3) == pytest.approx(0.3 / z, rel=1e-9)


@pytest.mark.parametrize("coupling", COUPLINGS.values(), ids=COUPLINGS)
def test_level_is_minus_the_quotient_of_the_slopes(coupling):
    for xi in np.linspace(-15, 15, 31):
        assert coupling.level(xi) == pytest.approx(-coupling.dg(xi) / coupling.df(xi), rel=1e-9)


CLOSED = {  # minimiser, curvature there, f there; Lemma 6.1, and sec. 6.2 for softplus
    "sigmoid": (
        lambda L, lam: math.log(lam / L),
        lambda L, lam: L * lam / (L + lam),
        lambda L, lam: math.log1p(lam / L),
    ),
    "softplus": (
        lambda L, lam: math.log(math.expm1(lam / L)),
        lambda L, lam: L**2 / lam * (1 - math.exp(-lam / L)) ** 2,
        lambda L, lam: lam / L,
    ),
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("L", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("lam", [0.05, 0.2, 1.0, 5.0])
def test_minimum_is_the_papers(name, L, lam):
    minimiser, curvature, f_there = (closed(L, lam) for closed in CLOSED[name])
    evaluate = HEADS[f"joint-{name}"].evaluate
    xi = brentq(lambda xi: evaluate(L, xi, lam)[2], -50, 150, xtol=1e-14, rtol=1e-15)
    assert xi == pytest.approx(minimiser, rel=1e-9, abs=1e-9)
    h = 1e-4  # fourth order, so that 1e-9 is within reach
    slope = [evaluate(L, minimiser + k * h, lam)[2] for k in (-2, -1, 1, 2)]
    assert (slope[0] - 8 * slope[1] + 8 * slope[2] - slope[3]) / (12 * h) == pytest.approx(curvature, rel=1e-9)
    assert evaluate(L, minimiser, lam)[1] == pytest.approx(f_there, rel=1e-9)
    assert HEADS[f"joint-{name}"].expected_loss(xi, lam) == pytest.approx(L, rel=1e-9)  # Observation 4.1
    value = L * f_there + lam * COUPLINGS[name].g(minimiser)
    assert evaluate(L, xi, lam)[0] == pytest.approx(value, rel=1e-9)


def test_softplus_with_lam_1_is_likelihood_in_precision_form():
    """-2 log N(y; y_r, 1/z) = L z - log z + const, so the joint loss is twice the Gaussian's, and the Laplace's."""
    evaluate = HEADS["joint-softplus"].evaluate
    for xi in (-3.0, 0.2, 4.0):
        z = couplings.softplus(xi)
        assert evaluate(1.7, xi, 1.0)[0] == pytest.approx(2 * (1.7 * z / 2 - math.log(z) / 2), rel=1e-12)


def test_an_own_coupling_works():
    own = Coupling("exponential", math.exp, lambda xi: -xi, math.exp, lambda xi: -1.0)
    head = heads.joint(own)
    assert head.evaluate(2.0, 0.5, 0.3)[0] == pytest.approx(2 * math.exp(0.5) - 0.15)
    assert head.expected_loss(0.5, 0.3) == pytest.approx(0.3 * math.exp(-0.5))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((lambda x: x, lambda x: -x, lambda x: 1.0, lambda x: -1.0), r"part 1 of the Condition, f > 0, at xi=-20"),
        ((lambda x: 30 - x, lambda x: -x, lambda x: -1.0, lambda x: -1.0), r"part 1 .* f' > 0, at xi=-20: it is -1"),
        ((math.exp, lambda x: x, math.exp, lambda x: 1.0), r"part 1 .* g' < 0, at xi=-20: it is 1"),
        ((math.exp, lambda x: -2 * math.exp(x), math.exp, lambda x: -2 * math.exp(x)), r"part 2 .* falling to the right"),
        ((math.exp, lambda x: -0.5 * math.exp(x), math.exp, lambda x: -0.5 * math.exp(x)), r"part 2 .* for L/lam=0.0001; it keeps falling to the right"),
        ((math.exp, lambda x: -x, lambda x: 2 * math.exp(x), lambda x: -1.0), r"df is not the derivative of f"),
        ((math.exp, lambda x: 1 / 0, math.exp, lambda x: -1.0), r"cannot be evaluated at xi=-20"),
        ((math.exp, lambda x: math.nan, math.exp, lambda x: -1.0), r"not finite at xi=-20"),
    ],
)  # fmt: skip
def test_a_coupling_that_fails_the_condition_is_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        Coupling("own", *parts)


@pytest.mark.parametrize("coupling", COUPLINGS.values(), ids=COUPLINGS)
def test_log_score_is_least_where_the_expected_loss_is_right(coupling):
    score = heads.log_score(heads.joint(coupling)).evaluate
    for lam in (0.1, 3.0):
        xi = np.linspace(-6, 30, 36_001)
        best = xi[np.argmin([score(0.7, x, lam)[0] for x in xi])]
        assert coupling.expected_loss(best, lam) == pytest.approx(0.7, rel=1e-2)
    assert heads.log_score(HEADS["gaussian"]) is HEADS["gaussian"]


def test_copies_of_a_shipped_coupling_are_itself():
    for coupling in COUPLINGS.values():
        assert copy.deepcopy(coupling) is coupling
        assert pickle.loads(pickle.dumps(coupling)) is coupling


def test_names():
    assert couplings.get("sigmoid") is COUPLINGS["sigmoid"]
    with pytest.raises(ValueError, match="unknown coupling 'sigmiod': did you mean 'sigmoid'"):
        couplings.get("sigmiod")
