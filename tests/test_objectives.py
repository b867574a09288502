"""Objectives: derivatives, safety far out, and the minimum of the joint loss in closed form."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from aleator import couplings, objectives
from aleator.couplings import COUPLINGS, Coupling
from aleator.losses import LOSSES
from aleator.objectives import OBJECTIVES

XI = [-40.0, -30.5, -29.5, -12.0, -3.0, -0.4, 0.0, 0.7, 2.0, 9.0, 25.0, 40.0]


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("lam", [0.05, 1.0, 5.0])
def test_derivatives_of_every_loss_and_head(loss, objective, lam):
    """d/dy_r and d/dxi of what one sample adds, against central differences."""

    def value(y_r, xi):
        return objective.evaluate(loss.value(0.3, y_r), xi, lam)[0]

    for y_r in (-2.0, 0.31, 0.9, 4.0):
        for xi in XI:
            L = loss.value(0.3, y_r)
            _, dL, dxi = objective.evaluate(L, xi, lam)
            h = (
                1e-3 if objective.name in ("gaussian", "laplace") and xi > -13 else 1e-4
            )  # fourth order, so that 1e-6 is met
            by_xi = (
                value(y_r, xi - 2 * h) - 8 * value(y_r, xi - h) + 8 * value(y_r, xi + h) - value(y_r, xi + 2 * h)
            ) / (12 * h)
            by_y = (value(y_r + 1e-6, xi) - value(y_r - 1e-6, xi)) / 2e-6
            # a difference of values of size s is good to 1e-16 s / h
            size = max(1.0, abs(objective.evaluate(L, xi, lam)[0]))
            assert dxi == pytest.approx(by_xi, rel=1e-6, abs=max(1e-9, 1e-15 * size / h))
            assert dL * loss.slope(0.3, y_r) == pytest.approx(by_y, rel=1e-6, abs=max(1e-9, 1e-9 * size))


@pytest.mark.parametrize("L", [0.0, 1e-6, 0.3, 1e4])
@pytest.mark.parametrize("lam", [1e-3, 2.0])
@pytest.mark.parametrize("xi", [-33.5, -30.5, -30.0, -29.5, -12.0, -1e-6, 0.0, 1e-6, 1.0, 12.0, 30.5])
def test_the_joint_loss_is_exact_to_a_few_last_digits(xi, lam, L):
    """L f + lam g with fifty decimals, where the forms change over and where nearly equal numbers are subtracted."""
    with localcontext() as context:
        context.prec = 50
        x, loss, factor = Decimal(xi), Decimal(L), Decimal(lam)
        f = (1 + x.exp()).ln()
        sigma = 1 / (1 + (-x).exp())
        for name, g, dg in (("sigmoid", f - x, sigma - 1), ("softplus", -f.ln(), -sigma / f)):
            value, dL, dxi = objectives.joint(COUPLINGS[name]).evaluate(L, xi, lam)
            largest = float(max(loss * f, factor * f, factor * abs(g)))
            assert value == pytest.approx(float(loss * f + factor * g), abs=4e-16 * largest)
            assert dL == pytest.approx(float(f), rel=4e-16)
            largest = float(max(loss * sigma, -factor * dg))
            assert dxi == pytest.approx(float(loss * sigma + factor * dg), abs=8e-16 * largest)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("L", [0.0, 1e-12, 1.0, 1e6])
def test_finite_far_out(objective, L):
    for xi in [*XI, -1e4, -745.0, -88.0, 17.0, 88.0, 745.0, 1e4]:
        assert all(map(math.isfinite, objective.evaluate(L, xi, 0.2))), xi
        if objective.expected_loss:
            assert np.isfinite(objective.expected_loss(xi, 0.2))


@pytest.mark.parametrize("coupling", COUPLINGS.values(), ids=COUPLINGS)
def test_the_fused_head_is_the_composition(coupling):
    slow = objectives.composed(coupling)
    for xi in XI:
        for L in (0.0, 0.3, 7.0):
            fast = objectives.joint(coupling).evaluate(L, xi, 0.2)
            assert fast == pytest.approx(slow(L, xi, 0.2), rel=1e-12, abs=1e-14)


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
    evaluate = OBJECTIVES[f"joint-{name}"].evaluate
    xi = brentq(lambda xi: evaluate(L, xi, lam)[2], -50, 150, xtol=1e-14, rtol=1e-15)
    assert xi == pytest.approx(minimiser, rel=1e-9, abs=1e-9)
    h = 1e-4  # fourth order, so that 1e-9 is within reach
    slope = [evaluate(L, minimiser + k * h, lam)[2] for k in (-2, -1, 1, 2)]
    assert (slope[0] - 8 * slope[1] + 8 * slope[2] - slope[3]) / (12 * h) == pytest.approx(curvature, rel=1e-9)
    assert evaluate(L, minimiser, lam)[1] == pytest.approx(f_there, rel=1e-9)
    assert OBJECTIVES[f"joint-{name}"].expected_loss(xi, lam) == pytest.approx(L, rel=1e-9)  # Observation 4.1
    value = L * f_there + lam * COUPLINGS[name].g(minimiser)
    assert evaluate(L, xi, lam)[0] == pytest.approx(value, rel=1e-9)


def test_softplus_with_lam_1_is_likelihood_in_precision_form():
    """-2 log N(y; y_r, 1/z) = L z - log z + const, so the joint loss is twice the Gaussian's, and the Laplace's."""
    evaluate = OBJECTIVES["joint-softplus"].evaluate
    for xi in (-3.0, 0.2, 4.0):
        z = couplings.softplus(xi)
        assert evaluate(1.7, xi, 1.0)[0] == pytest.approx(2 * (1.7 * z / 2 - math.log(z) / 2), rel=1e-12)


def test_an_own_coupling_works():
    own = Coupling("exponential", math.exp, lambda xi: -xi, math.exp, lambda xi: -1.0)
    objective = objectives.joint(own)
    assert objective.evaluate(2.0, 0.5, 0.3)[0] == pytest.approx(2 * math.exp(0.5) - 0.15)
    assert objective.expected_loss(0.5, 0.3) == pytest.approx(0.3 * math.exp(-0.5))


@pytest.mark.parametrize("coupling", COUPLINGS.values(), ids=COUPLINGS)
def test_log_score_is_least_where_the_expected_loss_is_right(coupling):
    score = objectives.log_score(objectives.joint(coupling)).evaluate
    for lam in (0.1, 3.0):
        xi = np.linspace(-6, 30, 36_001)
        best = xi[np.argmin([score(0.7, x, lam)[0] for x in xi])]
        assert coupling.expected_loss(best, lam) == pytest.approx(0.7, rel=1e-2)
    assert objectives.log_score(OBJECTIVES["gaussian"]) is OBJECTIVES["gaussian"]


@pytest.mark.parametrize("xi", [-6.0, -0.5, 0.0, 1.3, 6.0])
def test_likelihoods_are_those_of_scipy(xi):
    """-ln p up to a constant: Gaussian with variance V, Laplace with scale b, V and b softplus(xi) and a little more."""
    spread = float(OBJECTIVES["gaussian"].expected_loss([xi], 1.0)[0])
    assert 0 < spread - math.log1p(math.exp(xi)) < 1e-5
    for name, law, loss in (
        ("gaussian", stats.norm(scale=math.sqrt(spread)), 2),
        ("laplace", stats.laplace(scale=spread), 1),
    ):
        values = [
            OBJECTIVES[name].evaluate(r**loss, xi, 1.0)[0] + law.logpdf(r) for r in (0.0, 0.4 * spread, 3 * spread)
        ]
        constant = 0.5 * math.log(2 * math.pi) if name == "gaussian" else math.log(2)
        assert values == pytest.approx([-constant] * 3, rel=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", ["squared", "absolute"])
def test_beta_nll_is_the_likelihood_times_a_weight_that_is_not_differentiated(name, beta):
    plain, weighted = objectives.likelihood(LOSSES[name]), objectives.beta_nll(LOSSES[name], beta)
    assert weighted.judge is plain
    for L, xi in ((0.1, -2.0), (3.0, 0.4), (0.7, 5.0)):
        weight = float(plain.expected_loss([xi], 1.0)[0]) ** beta
        expected = [weight * part for part in plain.evaluate(L, xi, 1.0)]
        assert weighted.evaluate(L, xi, 1.0) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="a likelihood belongs to"):
        objectives.likelihood(LOSSES["logcosh"])
