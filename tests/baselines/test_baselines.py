"""What each baseline does, against independent slow versions, exact cases and Monte Carlo."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_diabetes

from aleator import LossQuantifier, PairRegressor, engine, losses, mixtures, objectives
from aleator.baselines import (
    BetaNLLRegressor,
    DropoutRegressor,
    MeanVarianceEnsemble,
    MeanVarianceRegressor,
    PBPRegressor,
    PlainRegressor,
    SVGDRegressor,
    pbp,
    svgd,
)
from aleator.couplings import COUPLINGS
from aleator.datasets import synthetic
from aleator.training import strategies
from aleator.training.problem import problem

X, y = load_diabetes(return_X_y=True)
LIKELIHOODS = {"squared": (0.5, objectives.OBJECTIVES["gaussian"]), "absolute": (1.0, objectives.OBJECTIVES["laplace"])}


# ---------------------------------------------------------------- maximum likelihood


@pytest.mark.parametrize("loss", LIKELIHOODS)
@pytest.mark.parametrize("xi", [-6.0, -0.7, 0.0, 1.3, 8.0])
def test_likelihood_in_the_precision_is_the_joint_loss(loss, xi):
    """Sec. 4: softplus coupling, lam = 1, times 1/2 (Gaussian) or 1 (Laplace). Derivatives by complex steps."""
    share, _ = LIKELIHOODS[loss]
    h = 1e-30

    def nll(L, xi):
        precision = np.log1p(np.exp(xi))  # tau or 1/b
        return share * (precision * L - np.log(precision))  # -ln N(y; mu, 1/tau) or -ln Laplace(y; mu, b), but for 2 pi

    for L in (0.0, 0.3, 7.0):
        value, dL, dxi = objectives.joint(COUPLINGS["softplus"]).evaluate(L, xi, 1.0)
        assert share * value == pytest.approx(nll(L, xi), rel=1e-12, abs=1e-14)
        assert share * dL == pytest.approx(nll(L + 1j * h, xi).imag / h, rel=1e-12)
        assert share * dxi == pytest.approx(nll(L, xi + 1j * h).imag / h, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("loss", LIKELIHOODS)
def test_the_likelihood_is_that_of_scipy(loss):
    _, objective = LIKELIHOODS[loss]
    L = 1.7**2 if loss == "squared" else 1.7
    for xi in (-3.0, 0.2, 4.0):
        spread = float(objective.expected_loss(xi, 1.0))
        law = stats.norm(0, math.sqrt(spread)) if loss == "squared" else stats.laplace(0, spread)
        constant = 0.5 * math.log(2 * math.pi) if loss == "squared" else math.log(2)
        assert objective.evaluate(L, xi, 1.0)[0] + constant == pytest.approx(-law.logpdf(1.7), rel=1e-9)


@pytest.mark.parametrize("loss", LIKELIHOODS)
def test_beta_weighs_the_derivatives_of_the_likelihood(loss):
    _, objective = LIKELIHOODS[loss]
    for xi in (-4.0, 0.0, 3.0):
        spread = float(objective.expected_loss(xi, 1.0))
        plain = np.array(objective.evaluate(2.0, xi, 1.0))
        for beta in (0.0, 0.5, 1.0):
            weighted = objectives.beta_nll(losses.get(loss), beta).evaluate(2.0, xi, 1.0)
            np.testing.assert_allclose(weighted, spread**beta * plain, rtol=1e-12)
        # beta = 1: the regressor learns as by the plain loss, whatever the quantifier says
        assert objectives.beta_nll(losses.get(loss), 1.0).evaluate(2.0, xi, 1.0)[1] == pytest.approx(
            LIKELIHOODS[loss][0]
        )


def test_beta_zero_is_maximum_likelihood():
    settings = {"epochs": 10, "rescale": False}
    ours = BetaNLLRegressor(beta=0.0, **settings).fit(X, y).predict_uncertainty(X)
    theirs = MeanVarianceRegressor(**settings).fit(X, y).predict_uncertainty(X)
    np.testing.assert_array_equal(ours.prediction, theirs.prediction)
    np.testing.assert_array_equal(ours.expected_loss, theirs.expected_loss)


def test_a_beta_model_is_judged_by_the_likelihood():
    """Values weighted by their own spread fall when the spread does: they would choose a model that collapses."""
    network = engine.network(1, (5,), n_outputs=1, n_quantifiers=1)
    rows, objective = np.arange(10), objectives.beta_nll(losses.squared, 0.5)
    task = problem(BetaNLLRegressor(), network, losses.squared, objective, None, rows, rows % 5, [0])
    assert task.plan.objective is objective
    assert task.judge.objective is objectives.OBJECTIVES["gaussian"]


@pytest.mark.parametrize(
    "model", [MeanVarianceRegressor(), MeanVarianceEnsemble(n_members=2), BetaNLLRegressor()], ids=lambda m: type(m).__name__
)  # fmt: skip
@pytest.mark.parametrize("loss", LIKELIHOODS)
def test_noise_is_found_where_it_is(model, loss):
    """Deviation 1 + sin(4 pi x): the expected loss follows it, right in scale."""
    data, new = synthetic.smooth(2000), synthetic.smooth(4000, random_state=1)
    said = model.set_params(loss=loss, epochs=400).fit(data.X, data.y).predict_uncertainty(new.X)
    expected = new.std**2 if loss == "squared" else math.sqrt(2 / math.pi) * new.std
    assert np.corrcoef(said.expected_loss, expected)[0, 1] > 0.9
    assert said.expected_loss.mean() == pytest.approx(expected.mean(), rel=0.15)


# ---------------------------------------------------------------- plain


def test_a_plain_network_refuses_to_tell_its_uncertainty():
    plain = PlainRegressor(epochs=10).fit(X, y)
    for ask in (plain.predict_uncertainty, plain.predict_loss, lambda X: plain.predict(X, return_std=True)):
        with pytest.raises(ValueError, match="PlainRegressor has no quantifier.*LossQuantifier"):
            ask(X)
    with pytest.raises(ValueError, match="has no quantifier"):
        plain.conformalize(X, y)
    with pytest.raises(ValueError, match="has no quantifier"):
        plain.recalibrate(X, y)
    with pytest.raises(ValueError, match="has no quantifier"):
        plain.predict_interval(X)
    assert LossQuantifier(plain).fit(X, y).predict_loss(X).min() > 0  # as the message says


def test_a_plain_network_takes_any_loss():
    for loss in (*losses.LOSSES, "pinball(0.9)"):
        low = np.mean(y < PlainRegressor(loss=loss).fit(X, y).predict(X))
        assert (0.8 < low < 0.97) if "pinball" in loss and "0.9" in loss else low > 0.2


# ---------------------------------------------------------------- dropout


def thinned_by_hand(model, table, mask):
    """The network of `model` in numpy, with the units outside `mask` silent."""
    scales, params = model.scaling_, model.params_[0].astype(np.float64)
    *hidden, last = model.network_.matrices
    h, first = scales.inputs(table), 0
    for weights in hidden:
        kept = mask[first : first + weights.columns] / (1 - model.dropout)
        h = np.maximum(h @ weights.of(params) + weights.bias_of(params), 0) * kept
        first += weights.columns
    return scales.y_mean[0] + scales.y_spread[0] * ((h @ last.of(params))[:, 0] + params[-1])


@pytest.mark.parametrize("hidden", [(50,), (20, 10)])
def test_passes_are_thinned_networks(hidden):
    model = DropoutRegressor(hidden=hidden, epochs=20, dropout=0.3, n_passes=7).fit(X, y)
    passes = np.stack([thinned_by_hand(model, X, mask) for mask in model.masks_])
    said = model.predict_uncertainty(X)
    np.testing.assert_allclose(said.prediction, passes.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(said.epistemic, passes.var(axis=0), rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(said.aleatoric, model.noise_[0])


def test_units_are_dropped_as_often_as_said():
    model = DropoutRegressor(epochs=1, dropout=0.3, n_passes=1000).fit(X[:50], y[:50])
    assert model.masks_.mean() == pytest.approx(0.7, abs=0.01)


def test_without_dropout_the_passes_agree():
    model = DropoutRegressor(epochs=10, dropout=0.0, n_passes=3).fit(X, y)
    assert model.predict_uncertainty(X).epistemic.max() < 1e-20
    np.testing.assert_allclose(model.predict(X), PlainRegressor(epochs=10).fit(X, y).predict(X), rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("settings", [{}, {"epochs": 60}, {"early_stopping": True}], ids=["cv", "fixed", "stopped"])
def test_the_noise_of_dropout_is_found(loss, settings):
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, size=(3000, 2))
    target = table[:, 0] + 0.5 * rng.normal(size=3000)
    model = DropoutRegressor(loss=loss, dropout=0.05, **settings).fit(table, target)
    expected = 0.25 if loss == "squared" else 0.5 * math.sqrt(2 / math.pi)
    assert model.noise_[0] == pytest.approx(expected, rel=0.15)
    assert len(model.history_) > 0


def test_the_model_precision_of_dropout():
    """Gal, Ghahramani 2016: tau = (1 - p) l^2 / (2 n decay), with (1/n) sum (y - f)^2 / 2 + decay |w|^2 minimised."""
    model = DropoutRegressor(noise="formula", l2=0.4, dropout=0.2, length_scale=0.5, epochs=5).fit(X, y)
    n = len(y)
    decay = 0.4 / (2 * n) / 2  # ours is the mean of (y - f)^2, twice theirs, plus l2 / (2 n) |w|^2
    tau = (1 - 0.2) * 0.5**2 / (2 * n * decay)
    assert model.noise_[0] == pytest.approx(y.var() / tau)
    # Laplace: n |y - f| / b + (1 - p) l^2 / 2 |w|^2 is n / b times the mean of |y - f| plus l2 / (2 n) |w|^2
    absolute = model.set_params(loss="absolute").fit(X, y)
    assert absolute.noise_[0] == pytest.approx(y.std() * 0.4 / ((1 - 0.2) * 0.5**2))
    with pytest.raises(ValueError, match="from l2, which is 0"):
        DropoutRegressor(noise="formula", l2=0.0, epochs=5).fit(X, y)


def test_the_noise_of_dropout_is_that_of_rows_not_seen():
    """A wide network that learns its hundred rows by heart: their own residuals would say there is no noise."""
    rng = np.random.default_rng(0)
    table, target = rng.normal(size=(100, 8)), rng.normal(size=100)
    model = DropoutRegressor(hidden=(200,), dropout=0.02, l2=0.0, epochs=400).fit(table, target)
    assert np.mean((model.predict(table) - target) ** 2) < 0.35
    assert model.noise_[0] > 0.5


def test_the_noise_of_dropout_goes_by_weight():
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, size=(2000, 2))
    noisy = np.arange(2000) % 2 == 0
    target = table[:, 0] + np.where(noisy, 1.0, 0.1) * rng.normal(size=2000)
    low, high = (
        DropoutRegressor(dropout=0.02, epochs=40).fit(table, target, sample_weight=np.where(noisy, w, 1)).noise_[0]
        for w in (0.001, 1000)
    )
    assert low < 0.1 < 0.6 < high


def test_changing_a_parameter_later_changes_nothing():
    for model in (DropoutRegressor(epochs=5, n_passes=4), SVGDRegressor(iterations=20), PBPRegressor(epochs=2)):
        before = model.fit(X, y).predict_loss(X)
        model.set_params(loss="absolute", hidden=(3,))
        if isinstance(model, DropoutRegressor):
            model.set_params(dropout=0.7, n_passes=2)
        np.testing.assert_array_equal(model.predict_loss(X), before)


def test_a_plain_network_trains_no_judges(monkeypatch):
    """Five networks to find the number of epochs and one to keep; a pair trains five more to learn its scale."""
    counted = []
    begin = engine.begin
    for module in (engine.train.__globals__, strategies.__dict__):
        monkeypatch.setitem(module, "begin", lambda *arguments: counted.append(1) or begin(*arguments))
    PlainRegressor(n_jobs=1).fit(X, y)
    assert len(counted) == 6
    PairRegressor(lam=0.2, n_jobs=1).fit(X, y)
    assert len(counted) == 6 + 11


def test_the_noise_is_the_likeliest():
    """The mixture's likelihood at the noise found is larger than at its neighbours."""
    rng = np.random.default_rng(0)
    gap = rng.normal(size=(20, 500)) * 0.3 + rng.normal(size=500)  # passes differ by 0.3, the noise is 1
    for loss, law in (("squared", lambda s: stats.norm(0, math.sqrt(s))), ("absolute", lambda s: stats.laplace(0, s))):
        found = DropoutRegressor(loss=loss)._best_noise(gap, np.ones(500))

        def likelihood(noise, law=law):
            return np.log(law(noise).pdf(gap).mean(axis=0)).sum()

        assert likelihood(found) > max(likelihood(0.98 * found), likelihood(1.02 * found))


# ---------------------------------------------------------------- SVGD


def test_a_lone_particle_climbs():
    theta, slopes = np.random.default_rng(0).normal(size=(2, 1, 5))
    np.testing.assert_array_equal(svgd.direction(theta, slopes), slopes)


def test_the_direction_is_the_formula():
    """The formula term by term, the gradient of the kernel by finite differences."""
    rng = np.random.default_rng(0)
    theta, slopes = rng.normal(size=(2, 6, 4))
    apart = ((theta[:, None] - theta[None]) ** 2).sum(axis=2)
    h2 = 0.5 * np.median(apart) / np.log(7)

    def k(a, b):
        return np.exp(-((a - b) ** 2).sum() / (2 * h2))

    for i in range(6):
        phi = np.zeros(4)
        for j in range(6):
            steps = 1e-5 * np.eye(4)
            by_j = np.array([(k(theta[j] + e, theta[i]) - k(theta[j] - e, theta[i])) / 2e-5 for e in steps])
            phi += (k(theta[j], theta[i]) * slopes[j] + by_j) / 6
        np.testing.assert_allclose(svgd.direction(theta, slopes)[i], phi, rtol=1e-7)


def test_particles_take_the_shape_of_a_gaussian():
    covariance, mean = np.array([[1.0, 0.6], [0.6, 2.0]]), np.array([1.0, -2.0])
    inverse = np.linalg.inv(covariance)
    start = np.random.default_rng(0).normal(size=(300, 2))  # 200 are 4 to 5 % too narrow
    moved = svgd.transport(start, lambda theta, t: -(theta - mean) @ inverse, 800, learning_rate=0.05)
    moved = svgd.transport(moved, lambda theta, t: -(theta - mean) @ inverse, 500, learning_rate=0.005)
    np.testing.assert_allclose(moved.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(moved.T), covariance, rtol=0.05)


def slow_log_posterior(theta, shapes, table, target, total, prior, loss):
    """One particle's log posterior in torch, written from the model; table (n, d), target (n, m)."""
    w, ln_gamma, ln_lambda = theta[:-2], theta[-2], theta[-1]
    h, at = table, 0
    for k, (I, U) in enumerate(shapes):
        last = k == len(shapes) - 1
        block = w[at : at + I * U]
        W = block.reshape(U, I).T if last else block.reshape(I, U)  # the engine's order
        h = h @ W + w[at + I * U : at + I * U + U]
        h = h if last else torch.relu(h)
        at += (I + 1) * U
    gamma = torch.exp(ln_gamma)
    if loss == "squared":
        likelihood = torch.distributions.Normal(0.0, gamma**-0.5).log_prob(target - h)
    else:
        likelihood = torch.distributions.Laplace(0.0, 1 / gamma).log_prob(target - h)
    weights = torch.distributions.Normal(0.0, torch.exp(-0.5 * ln_lambda)).log_prob(w).sum()
    hyper = torch.distributions.Gamma(*prior)
    # densities of the logarithms: times the precision
    precisions = hyper.log_prob(gamma) + ln_gamma + hyper.log_prob(torch.exp(ln_lambda)) + ln_lambda
    return total * likelihood.sum(dim=1).mean() + weights + precisions


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("hidden", [(7,), (6, 5)])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_gradient_of_the_posterior(loss, hidden, outputs):
    rng = np.random.default_rng(0)
    table, target = rng.normal(size=(40, 3)), rng.normal(size=(40, outputs)).astype(np.float32)
    frame = np.tile([0.0, 1, 1, 1], (outputs, 1))
    data = engine.Data(table, np.zeros(3), np.ones(3), target, np.ones(40), frame)
    network = engine.network(3, hidden, n_outputs=outputs, n_quantifiers=0)
    plan = engine.Plan(network, losses.get(loss), objectives.OBJECTIVES["plain"], 40)
    posterior = svgd.Posterior(plan, data, 123.0, outputs, (1.5, 0.2))
    theta = rng.normal(size=(3, network.n_params + 2)).astype(np.float32).astype(np.float64)
    slopes, _ = posterior.gradient(theta, np.arange(40))
    shapes = list(itertools.pairwise((3, *hidden, outputs)))
    data = torch.tensor(table), torch.tensor(target.astype(float))
    for particle, slope in zip(theta, slopes, strict=True):
        at = torch.tensor(particle, requires_grad=True)
        slow_log_posterior(at, shapes, *data, 123.0, (1.5, 0.2), loss).backward()
        np.testing.assert_allclose(slope, at.grad.numpy(), rtol=2e-4, atol=2e-4 * np.abs(slope).max())


@pytest.mark.parametrize(
    ("n_particles", "batch_size", "loss"), [(1, 90, "squared"), (1, 90, "absolute"), (4, 40, "squared")]
)
def test_every_step_in_slow_motion(n_particles, batch_size, loss, monkeypatch):
    """The whole fit followed in torch: log posterior by automatic differentiation, the direction by its formula.

    With one particle this is gradient ascent to the maximum a posteriori.
    """
    table, target = X[:90, :4], y[:90]
    seen = []
    gradient = svgd.Posterior.gradient

    def recording(self, theta, rows):
        seen.append((theta.copy(), rows))
        return gradient(self, theta, rows)

    monkeypatch.setattr(svgd.Posterior, "gradient", recording)
    settings = {"hidden": (5,), "iterations": 40, "batch_size": batch_size, "held_out": 0.0, "learning_rate": 0.01}
    settings |= {"scaling": "standard"}
    ours = SVGDRegressor(loss=loss, n_particles=n_particles, **settings).fit(table, target)
    scaled = torch.tensor((table - table.mean(axis=0)) / table.std(axis=0))
    goal = torch.tensor((target - target.mean()) / target.std())[:, None]
    theta, squares = torch.tensor(seen[0][0]), None
    assert {len(rows) for _, rows in seen} == {batch_size}
    assert set(np.concatenate([rows for _, rows in seen])) == set(range(90))  # all rows have their turn
    for _, rows in seen:
        slopes = torch.zeros_like(theta)
        for i in range(n_particles):
            one = theta[i].clone().requires_grad_()
            shapes, prior = [(4, 5), (5, 1)], (1.0, 0.1)
            slow_log_posterior(one, shapes, scaled[rows], goal[rows], 90.0, prior, loss).backward()
            slopes[i] = one.grad
        phi = slopes
        if n_particles > 1:
            apart = torch.cdist(theta, theta) ** 2
            h2 = 0.5 * np.median(apart) / math.log(n_particles + 1)
            k = torch.exp(-apart / (2 * h2))
            repulsion = (k[:, :, None] * (theta[:, None] - theta[None]) / h2).sum(dim=1)
            phi = (k @ slopes + repulsion) / n_particles
        squares = phi**2 if squares is None else 0.9 * squares + 0.1 * phi**2
        theta = theta + 0.01 * phi / (1e-6 + torch.sqrt(squares))
    np.testing.assert_allclose(ours.params_, theta[:, :-2], atol=2e-3)
    unit = target.var() if loss == "squared" else target.std()
    np.testing.assert_allclose(ours.noise_[:, 0], unit * torch.exp(-theta[:, -2]).numpy(), rtol=5e-3)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_particles_are_a_mixture_with_the_noise_of_held_out_rows(loss, monkeypatch):
    seen = []
    gradient = svgd.Posterior.gradient
    monkeypatch.setattr(
        svgd.Posterior, "gradient", lambda self, theta, rows: seen.append(rows) or gradient(self, theta, rows)
    )
    model = SVGDRegressor(loss=loss, iterations=300).fit(X, y)
    held = np.setdiff1d(np.arange(len(y)), np.concatenate(seen))
    assert len(held) == 44  # a tenth was never learned from
    mu = model._particles(X)[:, :, 0]
    noise = np.array(losses.get(loss)(y[held] + 0 * mu[:, held], mu[:, held])).mean(axis=1)
    np.testing.assert_allclose(model.noise_[:, 0], noise, rtol=1e-5)
    mean, aleatoric, epistemic = mixtures.of(losses.get(loss))(mu, np.tile(noise[:, None], (1, len(y))))
    said = model.predict_uncertainty(X)
    np.testing.assert_allclose(said.prediction, mean, rtol=1e-5)
    np.testing.assert_allclose(said.aleatoric, aleatoric, rtol=1e-5)
    np.testing.assert_allclose(said.epistemic, epistemic, rtol=1e-5)


def test_weights_are_observations_to_the_posterior(monkeypatch):
    """The likelihood has the weight of the rows learned from, wherever the heavy rows are; the mean loss is weighted."""
    seen = []
    gradient = svgd.Posterior.gradient

    def recording(self, theta, rows):
        seen.append((self, theta.copy(), rows))
        return gradient(self, theta, rows)

    monkeypatch.setattr(svgd.Posterior, "gradient", recording)
    weight = np.random.default_rng(0).exponential(size=len(y)) ** 3
    SVGDRegressor(iterations=1, batch_size=len(y)).fit(X, y, sample_weight=weight)
    posterior, theta, rows = seen[0]
    assert len(np.unique(rows)) == len(rows) == 398
    assert posterior.total == pytest.approx(weight[rows].sum())
    plain, params = replace(posterior.data, weight=np.ones(len(y))), theta[:, :-2].astype(np.float32)
    each = [engine.gradients(posterior.plan, plain, np.array([row]), params)[0] for row in rows]
    expected = np.average(each, axis=0, weights=weight[rows])
    np.testing.assert_allclose(posterior.gradient(theta, rows)[1], expected, rtol=1e-4)


def test_rows_held_out_give_intervals():
    low, high = SVGDRegressor(iterations=300).fit(X, y).predict_interval(X, coverage=0.8)
    assert 0.6 < np.mean((low <= y) & (y <= high)) < 0.97
    for model in (SVGDRegressor(iterations=20, held_out=0.0), PBPRegressor(epochs=2)):
        with pytest.raises(ValueError, match="call conformalize"):
            model.fit(X, y).predict_interval(X)


def test_few_rows_are_not_all_held_out():
    for n in (2, 4, 9):
        model = SVGDRegressor(iterations=20, held_out=0.95).fit(X[:n], y[:n])
        assert np.isfinite(model.predict(X)).all()


def test_an_output_that_never_changes_has_no_noise_to_share():
    alone = SVGDRegressor(iterations=500, held_out=0.0).fit(X, y).noise_[:, 0].mean()
    beside = SVGDRegressor(iterations=500, held_out=0.0).fit(X, np.column_stack([y, np.ones(len(y))])).noise_
    assert beside[:, 0].mean() == pytest.approx(alone, rel=0.2)
    assert not beside[:, 1].any()


def test_diverging_particles_are_reported():
    with pytest.raises(engine.DivergenceError, match="iteration .* Lower learning_rate"):
        SVGDRegressor(learning_rate=1e6, iterations=50).fit(X, y)
    with pytest.raises(engine.DivergenceError, match="iteration 1:"):
        SVGDRegressor(learning_rate=1e39, iterations=1).fit(X, y)


# ---------------------------------------------------------------- PBP


@pytest.mark.parametrize(("mu", "variance"), [(0.0, 1.0), (0.7, 0.3), (-1.5, 2.0), (4.0, 0.5), (-2.0, 0.9)])
def test_moments_of_a_rectified_gaussian(mu, variance):
    draws = np.maximum(np.random.default_rng(0).normal(mu, math.sqrt(variance), size=1_000_000), 0)
    E, V, *_ = pbp.relu_moments(mu, variance)
    assert pytest.approx(draws.mean(), rel=0.01) == E
    assert pytest.approx(draws.var(), rel=0.01) == V


@pytest.mark.parametrize("variance", [1e-12, 1e-3, 1.0, 1e6])
def test_rectified_moments_far_out(variance):
    """In the far tails: never negative, never NaN, and V = variance where nothing is cut off."""
    s = math.sqrt(variance)
    for alpha in (-1e6, -50.0, -38.0, -30.0, -12.0, 0.0, 12.0, 50.0, 1e6):
        E, V, Phi, rest, density = pbp.relu_moments(alpha * s, variance)
        assert np.isfinite([E, V, Phi, rest, density]).all()
        assert E >= 0
        assert V >= 0
        if alpha >= 12:
            assert pytest.approx(variance, rel=1e-9) == V
            assert pytest.approx(alpha * s, rel=1e-9) == E
        if alpha == -12:  # V -> s^2 2 phi / |alpha|^3 (1 - 6 / alpha^2 + ...)
            assert pytest.approx(variance * 2 * density * s / 12**3, rel=0.1) == V


def test_moments_through_a_layer():
    """A layer of random weights and a ReLU over random inputs, against a million draws."""
    rng = np.random.default_rng(1)
    I, U, n = 4, 3, 1_000_000
    x_mean, x_var = np.append(rng.normal(size=I - 1), 1.0), np.append(rng.uniform(0.1, 1, size=I - 1), 0.0)
    m, v = rng.normal(size=(I, U)), rng.uniform(0.1, 1, size=(I, U))
    z, z_var = np.zeros(U), np.zeros(U)
    pbp.linear(x_mean, x_var, 0, m.ravel(), v.ravel(), 0, I, U, z, z_var, 0)
    x = rng.normal(x_mean, np.sqrt(x_var), size=(n, I))
    drawn = np.stack(
        [(x * rng.normal(m[:, j], np.sqrt(v[:, j]), size=(n, I))).sum(axis=1) for j in range(U)], axis=1
    ) / math.sqrt(I)
    np.testing.assert_allclose(z, drawn.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(z_var, drawn.var(axis=0), rtol=0.01)
    for j in range(U):  # the method takes the sum for a Gaussian; of one, the moments are exact
        rectified = np.maximum(rng.normal(z[j], math.sqrt(z_var[j]), size=n), 0)
        E, V, *_ = pbp.relu_moments(z[j], z_var[j])
        assert pytest.approx(rectified.mean(), rel=0.01) == E
        assert pytest.approx(rectified.var(), rel=0.01) == V


def slow_evidence(x, target, m, v, sizes, variance):
    """Ln Z of each output in torch: moments by the definition of the rectified Gaussian, E[h^2] - E[h]^2."""
    mean, var, at = x, torch.zeros_like(x), 0
    for k, (I, U) in enumerate(itertools.pairwise(sizes)):
        one = torch.ones(1, dtype=torch.float64)
        mean, var = torch.cat([mean, one]), torch.cat([var, 0 * one])
        W, S = m[at : at + (I + 1) * U].reshape(I + 1, U), v[at : at + (I + 1) * U].reshape(I + 1, U)
        mean, var = mean @ W / math.sqrt(I + 1), ((mean**2 + var) @ S + var @ W**2) / (I + 1)
        at += (I + 1) * U
        if k < len(sizes) - 2:
            s = torch.sqrt(var)
            normal = torch.distributions.Normal(0.0, 1.0)
            Phi, phi = normal.cdf(mean / s), torch.exp(normal.log_prob(mean / s))
            first, second = mean * Phi + s * phi, (mean**2 + var) * Phi + mean * s * phi
            mean, var = first, second - first**2
    return torch.distributions.Normal(mean, torch.sqrt(var + variance)).log_prob(target)


def slow_gamma(a, b, evidence):
    """Match the first two moments of the precision: E = Z1 a / (Z b), E2 = Z2 a (a + 1) / (Z b^2)."""
    Z, Z1, Z2 = (math.exp(evidence(noise)) for noise in (b / (a - 1), b / a, b / (a + 1)))
    first, second = Z1 * a / (Z * b), Z2 * a * (a + 1) / (Z * b**2)
    return first**2 / (second - first**2), first / (second - first**2)


@pytest.mark.parametrize("sizes", [(3, 5, 1), (3, 1), (2, 4, 3, 1), (3, 6, 2)], ids=str)
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_one_row_taken_in(sizes, share):
    """Every parameter after one step, against automatic differentiation of an independent evidence."""
    rng = np.random.default_rng(0)
    D, M = sizes[0], sizes[-1]
    P = sum((I + 1) * U for I, U in itertools.pairwise(sizes))
    m, v, noise = rng.normal(size=P), rng.uniform(0.05, 0.5, size=P), rng.uniform(4, 7, size=(M, 2))
    x, target = rng.normal(size=(1, D)), rng.normal(size=(1, M))
    at_m, at_v = (torch.tensor(a, requires_grad=True) for a in (m, v))

    def evidence(variance):  # (M,), of each output
        return slow_evidence(torch.tensor(x[0]), torch.tensor(target[0]), at_m, at_v, sizes, torch.tensor(variance))

    a, b = noise.T.copy()
    evidence(b / (a - 1) / share).sum().backward()
    by_m, by_v = at_m.grad.numpy(), at_v.grad.numpy()
    new_m, new_v = m + v * by_m, v - v**2 * (by_m**2 - 2 * by_v)
    assert (new_v > 0).all()
    new_noise = [
        slow_gamma(a[k], b[k], lambda variance, k=k: evidence(np.full(M, variance))[k].item()) for k in range(M)
    ]
    ln_z = evidence(b / (a - 1)).sum().item()
    totals = np.zeros(3)
    pbp.filter_rows(x, target, np.array([0]), np.array([share]), np.array(sizes), m, v, noise, totals)
    np.testing.assert_allclose(m, new_m, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(v, new_v, rtol=1e-9)
    before = np.stack([a, b], axis=1)
    np.testing.assert_allclose(noise, before + share * (np.array(new_noise) - before), rtol=1e-8)
    assert totals[0] == pytest.approx(-share * ln_z)
    assert totals[2] == share


def test_updates_that_make_no_sense_are_not_made():
    """A weight whose variance would fall below zero keeps its moments; so does a Gamma that would not be one."""
    m, v = np.array([1.0, 1.0]), np.array([0.5, 0.5])
    by, by_var = np.array([0.0, 3.0]), np.array([0.0, -5.0])  # v - v^2 (9 + 10) < 0 for the second
    pbp.take_in(np.ones(1), np.zeros(1), 0, by, by_var, 0, m, v, 0, 1, 2, np.zeros(1), np.zeros(1))
    np.testing.assert_array_equal(m, [1.0, 1.0])
    np.testing.assert_array_equal(v, [0.5, 0.5])
    assert pbp.gamma_update(6.0, 5.0, 0.0, 0.0, -1.0) == (6.0, 5.0)  # the second moment would be below the square
    assert pbp.gamma_update(6.0, 5.0, 0.0, -1e4, 0.0) == (6.0, 5.0)  # beyond what floats can hold
    new_a, new_b = pbp.gamma_update(6.0, 5.0, 0.0, 0.0, 0.0)  # no evidence at all, no change
    assert (new_a, new_b) == pytest.approx((6.0, 5.0))


def test_a_fit_is_filtering_and_refining_in_turn(monkeypatch):
    calls = []
    for name in ("filter_rows", "refine_prior"):
        function = getattr(pbp, name)
        monkeypatch.setattr(pbp, name, lambda *a, name=name, function=function: calls.append((name, a)) or function(*a))
    model = PBPRegressor(epochs=3).fit(X, y)
    assert [name for name, _ in calls] == ["filter_rows", "refine_prior"] * 3
    orders = [arguments[2] for name, arguments in calls if name == "filter_rows"]
    assert all(sorted(order) == list(range(len(y))) for order in orders)
    assert (orders[0] != orders[1]).any()
    assert (model.weight_precision_ != 6.0).all()
    nll = model.history_["nll"].to_numpy()
    assert nll[-1] < nll[0] < 3  # about ln(2 pi e) / 2 = 1.42 for someone who knows the mean and the deviation
    assert nll[-1] > 0.5


@pytest.mark.parametrize("times", [2, 5, 20])
def test_weights_are_observations_to_pbp(times):
    """Rows of weight 5, and five rows that are nearly the same, so that they cannot be merged."""
    rng = np.random.default_rng(0)
    table = rng.uniform(-2, 2, size=(150, 2))
    target = np.sin(table[:, 0]) + 0.4 * rng.normal(size=150)
    weighted = PBPRegressor().fit(table, target, sample_weight=np.full(150, times))
    near = np.repeat(table, times, axis=0) + 1e-9 * rng.normal(size=(150 * times, 2))
    copies = PBPRegressor().fit(near, np.repeat(target, times))
    ours, theirs = weighted.predict_uncertainty(table), copies.predict_uncertainty(table)
    assert ours.aleatoric[0] == pytest.approx(theirs.aleatoric[0], rel=0.15)
    assert np.sqrt(np.mean((ours.prediction - theirs.prediction) ** 2)) < 0.1
    assert weighted.noise_precision_[0, 0] == pytest.approx(copies.noise_precision_[0, 0], rel=0.1)


def test_fractions_of_rows_add_up():
    """Many rows of hardly any weight say hardly anything; all weights 0.5 are half the evidence."""
    rng = np.random.default_rng(0)
    table = rng.uniform(-2, 2, size=(5150, 2))
    target = np.sin(table[:, 0]) + 0.4 * rng.normal(size=5150)
    few = PBPRegressor(epochs=5).fit(table[:150], target[:150])
    light = np.where(np.arange(5150) < 150, 1.0, 1e-6)
    many = PBPRegressor(epochs=5).fit(table, target, sample_weight=light)
    assert many.noise_precision_[0, 0] == pytest.approx(few.noise_precision_[0, 0], rel=0.05)
    half = PBPRegressor(epochs=5).fit(table[:150], target[:150], sample_weight=np.full(150, 0.5))
    gained = [model.noise_precision_[0, 0] - 6 for model in (half, few)]
    assert gained[0] == pytest.approx(gained[1] / 2, rel=0.15)
    with pytest.raises(ValueError, match="sample_weight adds up to 1.5e.10 observations"):
        PBPRegressor().fit(table[:150], target[:150], sample_weight=np.full(150, 1e8))


@pytest.mark.parametrize("n", [3, 5, 10, 20, 50])
def test_few_rows_leave_pbp_near_its_prior(n):
    for seed in range(3):
        model = PBPRegressor(random_state=seed).fit(X[:n], y[:n])
        assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 2.5 * y.std()


def test_each_output_has_its_own_noise():
    rng = np.random.default_rng(0)
    table, noise = rng.uniform(-1, 1, size=(800, 2)), rng.normal(size=(800, 2))
    target = np.column_stack([table + [1.0, 0.1] * noise, np.ones(800)])
    said = PBPRegressor().fit(table, target).predict_uncertainty(table)
    np.testing.assert_allclose(said.aleatoric[0], [1.0, 0.01, 0.0], rtol=0.25, atol=1e-9)


def test_the_prior_put_in_again():
    """One weight after the other: cavity, moment matching by automatic differentiation, new factor."""
    rng = np.random.default_rng(0)
    m, v, precision = rng.normal(size=5), rng.uniform(0.1, 1, size=5), np.array([7.0, 4.0])
    factors = [0.1 * rng.normal(size=5), 0.3 / v, 0.05 * rng.normal(size=5), 0.05 * rng.normal(size=5)]
    factors[1][3] = 2 / v[3]  # a cavity of negative variance: left as it is
    want_m, want_v, (a, b) = m.copy(), v.copy(), precision
    want = [factor.copy() for factor in factors]
    for k in range(5):
        cavity = torch.tensor([m[k] / v[k] - want[0][k], 1 / v[k] - want[1][k]])
        a_cavity, b_cavity = a - want[2][k], b - want[3][k]
        if cavity[1] <= 0:
            continue
        mean, var = (cavity[0] / cavity[1]).requires_grad_(), (1 / cavity[1]).requires_grad_()

        def evidence(noise, mean=mean, var=var):
            return torch.distributions.Normal(mean, torch.sqrt(var + noise)).log_prob(
                torch.zeros((), dtype=torch.float64)
            )

        evidence(b_cavity / (a_cavity - 1)).backward()
        new_m = mean.item() + var.item() * mean.grad.item()
        new_v = var.item() - var.item() ** 2 * (mean.grad.item() ** 2 - 2 * var.grad.item())
        a, b = slow_gamma(a_cavity, b_cavity, lambda noise, evidence=evidence: evidence(noise).item())
        want_m[k], want_v[k] = new_m, new_v
        want[0][k], want[1][k] = new_m / new_v - cavity[0].item(), 1 / new_v - cavity[1].item()
        want[2][k], want[3][k] = a - a_cavity, b - b_cavity
    pbp.refine_prior(m, v, precision, *factors)
    np.testing.assert_allclose(m, want_m, rtol=1e-9)
    np.testing.assert_allclose(v, want_v, rtol=1e-9)
    np.testing.assert_allclose(precision, (a, b), rtol=1e-8)
    for ours, theirs in zip(factors, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


def test_a_linear_network_is_bayesian_linear_regression():
    """Without hidden layers and with much data the posterior mean is that of least squares."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(2000, 3))
    target = table @ [1.0, -2.0, 0.5] + 3 + 0.3 * rng.normal(size=2000)
    model = PBPRegressor(hidden=(), scaling="standard").fit(table, target)
    coefficients = np.linalg.lstsq(np.column_stack([table, np.ones(2000)]), target, rcond=None)[0]
    np.testing.assert_allclose(model.predict(table), np.column_stack([table, np.ones(2000)]) @ coefficients, atol=0.03)
    assert model.predict_uncertainty(table).aleatoric[0] == pytest.approx(0.09, rel=0.1)


@pytest.mark.parametrize("hidden", [(50,), (20, 20), ()])
def test_variances_stay_positive(hidden):
    for table, target in ((X, y), (X, X[:, 0]), (X[:30], y[:30])):  # the second has no noise at all
        model = PBPRegressor(hidden=hidden).fit(table, target)
        assert (model.weight_variance_ > 0).all()
        assert (model.noise_precision_ > [1, 0]).all()
        assert np.isfinite(model.weight_mean_).all()


def test_the_absolute_loss_of_a_gaussian():
    squared, absolute = (
        PBPRegressor(loss=loss, epochs=5).fit(X, y).predict_uncertainty(X) for loss in ("squared", "absolute")
    )
    np.testing.assert_array_equal(squared.prediction, absolute.prediction)
    np.testing.assert_allclose(absolute.expected_loss, np.sqrt(2 * squared.expected_loss / np.pi))


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MeanVarianceRegressor(loss="huber"), r"a likelihood belongs to the squared loss .* not to the 'huber\(1.0\)' loss"),
        (MeanVarianceEnsemble(loss="pinball(0.8)"), "a likelihood belongs to"),
        (BetaNLLRegressor(loss="logcosh"), "a likelihood belongs to"),
        (DropoutRegressor(loss="huber"), "a likelihood belongs to"),
        (SVGDRegressor(loss="huber"), "a likelihood belongs to"),
        (PBPRegressor(loss="huber"), "a likelihood belongs to"),
        (MeanVarianceRegressor(loss="square"), "did you mean 'squared'"),
        (BetaNLLRegressor(beta=1.5), r"beta must be a number in \[0, 1\], got 1.5"),
        (DropoutRegressor(n_passes=0), "n_passes must be a whole number >= 1, got 0"),
        (DropoutRegressor(noise="heldout"), "unknown noise 'heldout': did you mean 'held-out'"),
        (DropoutRegressor(length_scale=0), "length_scale must be a positive number, got 0"),
        (DropoutRegressor(dropout=1.0), r"dropout must be a number in \[0, 1\), got 1.0"),
        (SVGDRegressor(n_particles=0), "n_particles must be a whole number >= 1, got 0"),
        (SVGDRegressor(iterations=1.5), "iterations must be a whole number >= 1, got 1.5"),
        (SVGDRegressor(prior=(1.0,)), "prior must be a tuple of two positive numbers"),
        (SVGDRegressor(held_out=1.0), r"held_out must be a number in \[0, 1\), got 1.0"),
        (SVGDRegressor(decay=-1), "decay must be a number in"),
        (SVGDRegressor(fudge=0), "fudge must be a positive number"),
        (SVGDRegressor(learning_rate=lambda epoch: 0.1), "learning_rate must be a positive number"),
        (PBPRegressor(prior=(1.0, 6.0)), "prior must have a shape above 1"),
        (PBPRegressor(epochs=None), "epochs must be a whole number >= 1, got None"),
        (PBPRegressor(hidden=(0,)), "hidden must be a tuple of positive whole numbers"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:30],
)  # fmt: skip
def test_bad_parameters(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
