"""Ensembles as mixtures, against draws from the mixture."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aleator import losses, mixtures

mus = arrays(np.float64, (4, 3), elements=st.floats(-5, 5))
sizes = arrays(np.float64, (4, 3), elements=st.floats(0.01, 5))


def test_gaussian_rule_by_monte_carlo_for_members_of_any_shape():
    rng = np.random.default_rng(0)
    mu, V = np.array([0.0, 1.0, 3.0]), np.array([0.5, 2.0, 1.0])
    draws = np.concatenate(
        [
            mu[0] + np.sqrt(V[0]) * rng.normal(size=10**6),
            mu[1] + np.sqrt(V[1] / 2) * rng.laplace(size=10**6),
            mu[2] + np.sqrt(12 * V[2]) * rng.uniform(-0.5, 0.5, size=10**6),
        ]
    )
    mean, aleatoric, epistemic = mixtures.gaussian(mu[:, None], V[:, None])
    assert mean[0] == pytest.approx(draws.mean(), abs=5e-3)
    assert aleatoric[0] + epistemic[0] == pytest.approx(draws.var(), rel=5e-3)
    assert aleatoric[0] == pytest.approx(V.mean())


def test_laplace_rule_by_monte_carlo():
    rng = np.random.default_rng(0)
    mu, b = np.array([0.0, 1.0, 3.0]), np.array([0.5, 2.0, 1.0])
    draws = np.concatenate([m + s * rng.laplace(size=10**6) for m, s in zip(mu, b, strict=True)])
    mean, aleatoric, epistemic = mixtures.laplace(mu[:, None], b[:, None])
    assert aleatoric[0] + epistemic[0] == pytest.approx(np.abs(draws - mean[0]).mean(), rel=5e-3)


@given(mu=mus, size=sizes)
def test_parts_are_not_negative_and_vanish_for_equal_members(mu, size):
    for rule in (mixtures.gaussian, mixtures.laplace, mixtures.of(losses.huber(1.0))):
        _, aleatoric, epistemic = rule(mu, size)
        assert (aleatoric > 0).all()
        assert (epistemic >= 0).all()
        _, _, none = rule(np.tile(mu[0], (4, 1)), size)
        np.testing.assert_allclose(none, 0, atol=1e-12)


@given(mu=mus, V=sizes)
def test_additive_rule_is_exact_for_the_squared_loss(mu, V):
    for a, b in zip(mixtures.gaussian(mu, V), mixtures.additive(mu, V, losses.squared), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_additive_rule_bounds_the_laplace_rule():
    rng = np.random.default_rng(0)
    mu, b = rng.normal(size=(5, 100)), rng.uniform(0.1, 2, size=(5, 100))
    exact, bound = mixtures.laplace(mu, b), mixtures.additive(mu, b, losses.absolute)
    assert (exact[1] + exact[2] <= bound[1] + bound[2] + 1e-12).all()


def test_one_quantifier_for_several_outputs_sums_the_distances():
    mu = np.array([[[0.0, 0.0]], [[2.0, 4.0]]])  # two members, one row, two outputs
    mean, aleatoric, epistemic = mixtures.gaussian(mu, np.array([[1.0], [3.0]]))
    assert mean.tolist() == [[1.0, 2.0]]
    assert aleatoric.tolist() == [2.0]
    assert epistemic.tolist() == [5.0]


def test_zero_expected_loss_is_fine():
    _, aleatoric, epistemic = mixtures.laplace([[1.0], [3.0]], [[0.0], [0.0]])
    assert (aleatoric[0], epistemic[0]) == (0.0, 1.0)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="do not fit"):
        mixtures.gaussian(np.zeros((3, 4)), np.zeros((3, 5)))


def test_each_loss_has_its_rule():
    mu, expected = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[1.0, 2.0], [3.0, 0.5]])
    assert mixtures.of(losses.squared) is mixtures.gaussian
    assert mixtures.of(losses.absolute) is mixtures.laplace
    for loss in (losses.huber(1.0), losses.pinball(0.9), losses.Cost(lambda y, p: np.abs(y - p))):
        for ours, theirs in zip(mixtures.of(loss)(mu, expected), mixtures.additive(mu, expected, loss), strict=True):
            np.testing.assert_array_equal(ours, theirs)
