"""Couplings: the functions of the paper in a safe form, their slopes, and the Condition."""

import copy
import math
import pickle
from decimal import Decimal, localcontext

import numpy as np
import pytest

from aleator import couplings
from aleator.couplings import COUPLINGS, Coupling


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


def test_copies_of_a_shipped_coupling_are_itself():
    for coupling in COUPLINGS.values():
        assert copy.deepcopy(coupling) is coupling
        assert pickle.loads(pickle.dumps(coupling)) is coupling


def test_names():
    assert couplings.get("sigmoid") is COUPLINGS["sigmoid"]
    with pytest.raises(ValueError, match="unknown coupling 'sigmiod': did you mean 'sigmoid'"):
        couplings.get("sigmiod")


@pytest.mark.parametrize("coupling", COUPLINGS.values(), ids=COUPLINGS)
def test_without_a_closed_level_the_slopes_are_divided(coupling):
    """-lam g'/f' (Interpretation 4.1), for any lam, as for a coupling of the user's."""
    plain = Coupling("plain", coupling.f, coupling.g, coupling.df, coupling.dg)
    xi = np.linspace(-10, 10, 21)
    for lam in (0.01, 3.0):
        np.testing.assert_allclose(plain.expected_loss(xi, lam), coupling.expected_loss(xi, lam), rtol=1e-9)
    level = plain.level_of()
    np.testing.assert_allclose([level(each) for each in xi], coupling.expected_loss(xi, 1.0), rtol=1e-9)
    assert coupling.level_of() is coupling.level


def test_far_out_the_safe_forms_are_their_asymptotes():
    """softplus(xi) -> xi and e^xi, so -ln softplus(xi) -> -ln xi and -xi."""
    sigmoid, softplus = COUPLINGS["sigmoid"], COUPLINGS["softplus"]
    for xi in (31.0, 50.0, 700.0, 1e4):
        assert sigmoid.f(xi) == pytest.approx(xi, rel=1e-12)
        assert sigmoid.g(-xi) == pytest.approx(xi, rel=1e-12)
        assert softplus.g(xi) == pytest.approx(-math.log(xi), rel=1e-12)
        assert softplus.g(-xi) == pytest.approx(xi, rel=1e-12)
        assert softplus.dg(-xi) == pytest.approx(-1.0, rel=1e-12)
        assert softplus.dg(xi) == pytest.approx(-1 / xi, rel=1e-12)
    assert sigmoid.expected_loss([-1e4], 1.0)[0] == pytest.approx(math.exp(couplings.LARGEST_EXPONENT))


def test_exponential_levels_are_known_as_such():
    assert COUPLINGS["sigmoid"].is_exponential
    assert not COUPLINGS["softplus"].is_exponential
    twice = Coupling("twice", math.exp, lambda x: -2 * x, math.exp, lambda x: -2.0)
    assert not twice.is_exponential


@pytest.mark.parametrize("xi", [-33.5, -30.5, -30.0, -29.5, -12.0, -1.0, -1e-6, 0.0, 1e-6, 1.0, 12.0, 29.5, 30.5])
def test_safe_forms_are_exact_to_a_few_last_digits(xi):
    """Against fifty decimals, where the forms change over and where differences of nearly equal numbers threaten."""
    with localcontext() as context:
        context.prec = 50
        x = Decimal(xi)
        rise, fall = (1 + x.exp()).ln(), (1 + (-x).exp()).ln()  # softplus(xi), softplus(-xi)
        share = 1 / (1 + (-x).exp())  # sigmoid(xi)
        exact = {
            "sigmoid": (rise, fall, share, share - 1, (-x).exp()),
            "softplus": (rise, -rise.ln(), share, -share / rise, 1 / rise),
        }
    for name, values in exact.items():
        coupling = COUPLINGS[name]
        parts = (coupling.f, coupling.g, coupling.df, coupling.dg, coupling.level)
        for part, value in zip(parts, values, strict=True):
            digits = 5e-14 if part is coupling.level else 2e-15  # the level of softplus is e^-xi below -30
            assert part(xi) == pytest.approx(float(value), rel=digits, abs=1e-300)


@pytest.mark.parametrize("steepness", [1e-6, 1e-7])
def test_a_minimum_is_looked_for_up_to_a_thousand_million(steepness):
    """e^(k xi) and -k xi have their minimum at -ln(L) / k: 9e6 and 9e7 for L = 1e-4."""

    def f(xi):
        return math.exp(steepness * xi)

    Coupling("slow", f, lambda xi: -steepness * xi, lambda xi: steepness * f(xi), lambda xi: -steepness)


def test_slopes_are_compared_to_a_ten_thousandth():
    for wrong, fine in ((1.00005, True), (1.0002, False)):
        parts = (math.exp, lambda x: -x, lambda x, wrong=wrong: wrong * math.exp(x), lambda x: -1.0)
        if fine:
            Coupling("nearly", *parts)
        else:
            with pytest.raises(ValueError, match="df is not the derivative"):
                Coupling("off", *parts)
