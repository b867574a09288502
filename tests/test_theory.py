"""Section 6: closed forms against numerical minimisation and differentiation, and the limits the paper names."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

from aleator import theory
from aleator.couplings import COUPLINGS, Coupling

LOSSES, LAMS = np.array([0.01, 0.3, 1.0, 4.0, 50.0]), np.array([0.02, 0.5, 1.0, 7.0])


def copy_of(name):
    """The same functions under another name: solved numerically."""
    c = COUPLINGS[name]
    return Coupling(f"own-{name}", c.f, c.g, c.df, c.dg)


def joint(coupling, L, lam, xi):
    return L * coupling.f(xi) + lam * coupling.g(xi)


@pytest.mark.parametrize("name", COUPLINGS)
@pytest.mark.parametrize("L", LOSSES)
@pytest.mark.parametrize("lam", LAMS)
def test_the_optimum_is_the_least_and_its_curvature_that_of_the_joint_loss(name, L, lam):
    coupling = COUPLINGS[name]
    best = theory.optimum(L, lam, name)
    found = minimize_scalar(lambda xi: joint(coupling, L, lam, xi), bracket=(best.xi - 2, best.xi + 2), tol=1e-12)
    assert best.value == pytest.approx(found.fun, rel=1e-12)
    assert abs(L * coupling.df(best.xi) + lam * coupling.dg(best.xi)) < 1e-12 * max(L, lam, 1)
    h = 1e-3 * max(1, abs(best.xi))
    slopes = [L * coupling.df(best.xi + k * h) + lam * coupling.dg(best.xi + k * h) for k in (-2, -1, 1, 2)]
    curvature = (slopes[0] - 8 * slopes[1] + 8 * slopes[2] - slopes[3]) / (12 * h)
    assert best.curvature == pytest.approx(curvature, rel=1e-8)
    assert theory.regressor_speed(L, lam, name) == pytest.approx(coupling.f(best.xi), rel=1e-12)
    assert theory.quantifier_speed(L, lam, name) == best.curvature


@pytest.mark.parametrize("name", COUPLINGS)
def test_closed_forms_are_what_a_coupling_without_them_gets(name):
    L, lam, own = LOSSES[:, None], LAMS[None], copy_of(name)
    ours, numerical = theory.optimum(L, lam, name), theory.optimum(L, lam, own)
    np.testing.assert_allclose(numerical.xi, ours.xi, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(numerical.value, ours.value, rtol=1e-10)
    np.testing.assert_allclose(numerical.curvature, ours.curvature, rtol=1e-8)
    np.testing.assert_allclose(theory.regressor_speed(L, lam, own), theory.regressor_speed(L, lam, name), rtol=1e-8)
    assert ours.xi.shape == (5, 4)


@pytest.mark.parametrize("name", COUPLINGS)
def test_the_expected_loss_at_the_optimum_is_the_loss(name):
    """Interpretation 4.1: -lam g'/f' = L there."""
    best = theory.optimum(LOSSES, 0.7, name)
    np.testing.assert_allclose(COUPLINGS[name].expected_loss(best.xi, 0.7), LOSSES, rtol=1e-12)


@pytest.mark.parametrize("name", COUPLINGS)
def test_ratios_tend_to_their_limits(name):
    L1, L2 = 0.1, 3.0
    limits = theory.limits(L1, L2, name)
    for ratio, limit in (
        (theory.regressor_ratio, limits["regressor"]),
        (theory.quantifier_ratio, limits["quantifier"]),
    ):
        assert ratio(1e-9, L1, L2, name) == pytest.approx(limit.small, rel=1e-6)
        # a logarithm is slow: ln(1 + lam/L1) / ln(1 + lam/L2) comes as near to 1 as ln(L2/L1) / ln(lam)
        assert ratio(1e300, L1, L2, name) == pytest.approx(limit.large, rel=0.01)
        lams = np.logspace(-4, 4, 50)
        path = ratio(lams, L1, L2, name)
        assert (np.diff(path) <= 1e-12).all()  # from the one limit down to the other
    with pytest.raises(ValueError, match="unknown coupling 'other'"):
        theory.limits(L1, L2, "other")


def test_the_fastest_quantifier_of_the_softplus_coupling():
    """The paper rounds to 1.3 and 0.4."""
    mu0, largest = theory.MU0, theory.LARGEST_SOFTPLUS_SPEED
    assert mu0 == pytest.approx(1.256431, abs=1e-6)
    assert math.exp(mu0) == pytest.approx(1 + 2 * mu0, rel=1e-14)
    assert largest == pytest.approx(0.407264, abs=1e-6)
    for L in (0.2, 5.0):
        minus = functools.partial(lambda L, ln: -theory.quantifier_speed(L, math.exp(ln), "softplus"), L)
        found = minimize_scalar(minus, bracket=(-3, 3), tol=1e-10)
        assert math.exp(found.x) == pytest.approx(mu0 * L, rel=1e-6)
        assert -found.fun == pytest.approx(largest * L, rel=1e-12)


@pytest.mark.parametrize("name", COUPLINGS)
def test_far_ends_keep_their_accuracy(name):
    """lam / L from 1e-12 to 1e12: the asymptotes of sec. 6, no overflow, no cancellation."""
    for lam in (1e-12, 1e12):
        speed, quick = theory.regressor_speed(1.0, lam, name), theory.quantifier_speed(1.0, lam, name)
        assert np.isfinite([speed, quick]).all()
        if lam < 1:
            assert speed == pytest.approx(lam, rel=1e-9)  # lam / L
            assert quick == pytest.approx(lam, rel=1e-9)  # lam, whatever L is
    assert theory.quantifier_ratio(1e-300, 1.0, 2.0, name) == pytest.approx(1)
    assert theory.quantifier_speed(2.0, 1e12, "sigmoid") == pytest.approx(2.0)
    assert theory.quantifier_speed(2.0, 1e6, "softplus") == pytest.approx(4e-6)


def test_a_small_lam_moves_the_minimum_to_that_of_the_clean_region():
    """Two regions with minima at -1 (clean) and 1 (noisy): the loss surface over theta_r, eq. (6.9)."""
    theta = np.linspace(-2, 2, 4001)
    losses = np.stack([0.02 + 0.1 * (theta + 1) ** 2, 3 + 0.1 * (theta - 1) ** 2])
    least = {lam: theta[np.argmin(theory.surface(losses, lam))] for lam in (1e-3, 0.05, 2.0, 1e3)}
    assert least[1e-3] < least[0.05] < least[2.0] < least[1e3]
    assert least[1e-3] == pytest.approx(-1, abs=0.1)
    plain = theta[np.argmin(losses.mean(axis=0))]
    assert least[1e3] == pytest.approx(plain, abs=0.4)
    alone = theory.surface(losses, 0.05, shares=[1.0, 0.0])
    assert theta[np.argmin(alone)] == pytest.approx(-1, abs=1e-3)
    with pytest.raises(ValueError, match="there are 2 regions, and shares of shape"):
        theory.surface(losses, 0.05, shares=[1.0])


@pytest.mark.parametrize(
    ("L", "lam", "message"),
    [(0.0, 1.0, "L must be positive"), ([1.0, -2.0], 1.0, "L must .* got -2"), (1.0, np.nan, "lam must be")],
)
def test_bad_values(L, lam, message):
    with pytest.raises(ValueError, match="L must be positive"):
        theory.limits(0.0, 1.0)
    with pytest.raises(ValueError, match="not for 'own-sigmoid'"):
        theory.limits(1.0, 2.0, copy_of("sigmoid"))
    with pytest.raises(ValueError, match="a row for each region"):
        theory.surface([], 0.1)
    with pytest.raises(ValueError, match=message):
        theory.optimum(L, lam)
    with pytest.raises(ValueError, match="unknown coupling"):
        theory.optimum(1.0, 1.0, "sigmod")


def test_the_table_of_relative_contributions_is_the_papers():
    """Table 1 of sec. 2, computed from R and Q; as printed in the paper."""
    printed = pd.DataFrame(
        [
            ["clean > noisy", "clean = noisy", "clean > noisy", "clean = noisy"],
            ["clean = noisy", "clean < noisy", "clean > noisy", "clean << noisy"],
        ],
        index=pd.Index(["small", "large"], name="lam"),
        columns=pd.MultiIndex.from_product([["sigmoid", "softplus"], ["regressor", "quantifier"]]),
    )
    pd.testing.assert_frame_equal(theory.contributions(), printed)
    own = theory.contributions(copy_of("sigmoid"), copy_of("softplus"))  # found numerically
    assert own.to_numpy().tolist() == printed.to_numpy().tolist()
    half = Coupling(
        "half",
        lambda xi: math.exp(xi / 2),
        lambda xi: math.exp(-xi / 2),
        lambda xi: math.exp(xi / 2) / 2,
        lambda xi: -math.exp(-xi / 2) / 2,
    )  # R = (L2 / L1)^(1/2) for every lam
    assert theory.contributions(half).to_numpy().tolist() == 2 * [["clean > noisy", "clean < noisy"]]
    with pytest.raises(ValueError, match="two couplings are named 'sigmoid'"):
        theory.contributions("sigmoid", "sigmoid")
