"""Stein variational gradient descent: particles that climb the posterior and keep apart (Liu, Wang, NeurIPS 2016).

A particle is a network with its own noise precision gamma and weight precision lambda. Up to a constant, its log
posterior, with n rows and L the mean loss of a minibatch, is

    n s (ln gamma - gamma L)                        s = 1/2, squared loss: Gaussian; s = 1, absolute loss: Laplace
    + (P ln lambda - lambda |w|^2) / 2              P weights and biases, each N(0, 1/lambda)
    + a (ln gamma + ln lambda) - b (gamma + lambda)        Gamma(a, b) on both, in the logarithm

and all particles move together along

    (1)  phi(theta_i) = 1/M sum_j [k(theta_j, theta_i) grad ln p(theta_j) + grad_j k(theta_j, theta_i)].

Prediction: the mean over particles; the aleatoric part is the mean of 1/gamma, the epistemic part their disagreement.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import engine, losses, mixtures, objectives
from aleator.baselines.bayesian_networks import BayesianRegressor
from aleator.compiled_functions import jit
from aleator.estimators.documented import documented
from aleator.losses import Loss
from aleator.mixtures import Parts
from aleator.model_files import layout
from aleator.objectives import OBJECTIVES
from aleator.preprocessing.standardisation import TrainingSet
from aleator.preprocessing.validation import new_rows
from aleator.training import progress
from aleator.training.held_out import HeldOutLosses
from aleator.training.network_outputs import by_blocks
from aleator.training.problem import member_seeds

Floats = NDArray[np.float64]
kernel = jit(nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})

STRETCH = 50  # iterations between two ticks of the progress bar, and a line of `history_`
MOST_HELD_OUT = 500
COLUMNS = 128  # of all particles together fit into the first cache
ROWS_TO_START = 1000  # their residuals give gamma its first value


# ---------------------------------------------------------------- the method, for any log density


def transport(
    theta: Floats,
    gradient: Callable[[Floats, int], Floats],
    iterations: int,
    learning_rate: float = 1e-3,
    decay: float = 0.9,
    fudge: float = 1e-6,
) -> Floats:
    """Move particles theta (M, P) to a distribution, given the gradient (M, P) of its log density at theta, in step t.

    The step is an AdaGrad that forgets: the squares are averaged with `decay`, the first taken whole.
    """
    theta, squares = theta.copy(), np.zeros_like(theta)
    for t in range(iterations):
        _step(theta, squares, direction(theta, gradient(theta, t)), decay if t else 0.0, learning_rate, fudge)
    return theta


@kernel
def _step(theta, squares, phi, decay, rate, fudge):  # type: ignore[no-untyped-def]
    for i in range(theta.shape[0]):
        for p in range(theta.shape[1]):
            squares[i, p] = decay * squares[i, p] + (1.0 - decay) * phi[i, p] * phi[i, p]
            theta[i, p] += rate * phi[i, p] / (fudge + math.sqrt(squares[i, p]))


@kernel
def direction(theta, slopes):  # type: ignore[no-untyped-def]
    """Where the particles go: phi (M, P) of (1), with slopes grad ln p(theta_j) at each of them.

    k(a, b) = exp(-|a - b|^2 / (2 h^2)) with h^2 = median |a - b|^2 / (2 ln(M + 1)), the median over all M^2 pairs.
    """
    M, P = theta.shape
    apart = squared_distances(theta)
    width = 0.5 * np.median(apart) / math.log(M + 1.0)  # h^2
    if width == 0.0:  # one particle, or nearly all in one place: nothing to keep apart
        return np.ones((M, 1)) * (slopes.sum(axis=0) / M)
    k = np.exp(-apart / (2.0 * width)) / M
    # grad_j k_ji = k_ji (theta_i - theta_j) / h^2: what depends on j alone is summed once
    pull, phi = slopes - theta / width, np.empty((M, P))
    for lo in range(0, P, COLUMNS):
        hi = min(lo + COLUMNS, P)
        for i in range(M):
            moved = phi[i, lo:hi]
            moved[:] = k[i].sum() / width * theta[i, lo:hi]
            for j in range(0, M - M % 4, 4):  # four at a time: one load and store of `moved` for four products
                k0, k1, k2, k3 = k[i, j], k[i, j + 1], k[i, j + 2], k[i, j + 3]
                p0, p1, p2, p3 = pull[j, lo:hi], pull[j + 1, lo:hi], pull[j + 2, lo:hi], pull[j + 3, lo:hi]
                for p in range(hi - lo):
                    moved[p] += k0 * p0[p] + k1 * p1[p] + k2 * p2[p] + k3 * p3[p]
            for j in range(M - M % 4, M):
                moved += k[i, j] * pull[j, lo:hi]
    return phi


@kernel
def squared_distances(theta):  # type: ignore[no-untyped-def]
    """|theta_i - theta_j|^2, (M, M)."""
    M, P = theta.shape
    apart = np.zeros((M, M))
    for i in range(M):
        for j in range(i):
            total = 0.0
            for p in range(P):
                total += (theta[i, p] - theta[j, p]) ** 2
            apart[i, j] = apart[j, i] = total
    return apart


# ---------------------------------------------------------------- the posterior of a network


@kernel
def posterior_slopes(theta, L, slopes, n, s, outputs, a, b):  # type: ignore[no-untyped-def]
    """Gradient (M, P + 2) of the log posterior, from the mean loss L (M,) and its gradient `slopes` (M, P)."""
    M, P = slopes.shape
    by = np.empty((M, P + 2))
    for i in range(M):
        gamma, lam, square = math.exp(theta[i, P]), math.exp(theta[i, P + 1]), 0.0
        for p in range(P):
            w = theta[i, p]
            square += w * w
            by[i, p] = -n * s * gamma * slopes[i, p] - lam * w
        by[i, P] = n * s * (outputs - gamma * L[i]) + a - b * gamma
        by[i, P + 1] = 0.5 * (P - lam * square) + a - b * lam
    return by


@dataclass(frozen=True)
class Posterior:
    """The log posterior of particles (M, P + 2): weights, ln gamma, ln lambda.

    `total` is the number of observations, n above; `outputs` how many outputs have a noise; all have the same gamma.
    """

    plan: engine.Plan
    data: engine.Data
    total: float
    outputs: int
    prior: tuple[float, float]

    def gradient(self, theta: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Gradient (M, P + 2) with `rows` standing for all, and the mean loss (M,) on them."""
        s = objectives.likelihood(self.plan.loss).share
        L, slopes = engine.gradients(self.plan, self.data, rows, theta[:, :-2].astype(np.float32))
        return posterior_slopes(theta, L, slopes, self.total, s, self.outputs, *self.prior), L

    def start(self, n_particles: int, rows: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """Weights N(0, 1/(inputs + 1)), biases 0, gamma by the residuals of each, lambda from Gamma(a, scale b)."""
        network = self.plan.network
        theta = np.zeros((n_particles, network.n_params + 2))
        for particle in theta:
            params = np.zeros(network.n_params, np.float32)
            for m in network.matrices:
                m.of(params)[:] = rng.normal(size=(m.inputs, m.columns)) / np.sqrt(m.inputs + 1)
            particle[:-2] = params
        L, _ = engine.gradients(self.plan, self.data, rows[:ROWS_TO_START], theta[:, :-2].astype(np.float32))
        theta[:, -2] = -np.log(np.maximum(L / self.outputs, 1e-12))
        theta[:, -1] = np.log(np.maximum(rng.gamma(*self.prior, size=n_particles), 1e-12))
        return theta


# ---------------------------------------------------------------- the estimator


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SVGDRegressor(BayesianRegressor):
    """A Bayesian network of particles moved by Stein variational gradient descent [1]_.

    With several outputs there is an expected loss for each. While they move, particles have one noise for all outputs,
    in units of the standardised targets; the held-out rows then give the noise of each.

    Parameters
    ----------
    loss : {"squared", "absolute"} or Loss
        ``"squared"`` is a Gaussian likelihood, ``"absolute"`` a Laplace likelihood.
    n_particles : int
        Number of networks that represent the posterior.
    hidden : tuple of int
        Units of each hidden layer.
    activation : {"relu", "tanh"}
        Activation of the hidden layers.
    iterations : int
        Steps of all particles together. The authors' script takes 2,000, which at this rate ends long before
        convergence on larger tables; on some hundred noisy rows fewer than the default are better.
    batch_size : int
        Rows of a step, taken in turn from one order.
    learning_rate : float
        Factor of each step.
    decay : float
        Decay rate of the running mean of squared steps.
    fudge : float
        Added to the root of the running mean, by which a step is divided.
    prior : tuple of float
        Shape and rate of the Gamma prior of noise precision and weight precision.
    held_out : float
        Share of the rows (at most 500) that are held out. The final noise of each particle is its mean loss on them,
        and intervals need no `conformalize`. 0 learns from all rows and keeps the noise of the posterior.
    shuffle : bool
        Whether rows are put in random order first. Otherwise minibatches follow the order of the table and its last
        rows are held out, as in the authors' code.
    scaling : {"robust", "standard"}
        How inputs are standardised, as in `aleator.PairRegressor`.
    random_state : int, RandomState instance or None
        Random seed.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    params_ : ndarray of shape (n_particles, P)
        The particles.
    noise_ : ndarray of shape (n_particles, m)
        Their expected losses, in the units of the loss.
    history_ : DataFrame
        Mean loss of the minibatches by iteration, in units of the standardised target, summed over the outputs.

    References
    ----------
    .. [1] Q. Liu, D. Wang, "Stein variational gradient descent: a general purpose Bayesian inference algorithm",
       NeurIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator.baselines import SVGDRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> found = SVGDRegressor(iterations=200).fit(X, y).predict_uncertainty([[0.5], [3.0]])
    >>> bool(found.epistemic[0] < found.epistemic[1])
    True
    """

    loss: str | Loss = "squared"
    n_particles: int = 20
    hidden: tuple[int, ...] = (50,)
    activation: str = "relu"
    iterations: int = 10_000
    batch_size: int = 100
    learning_rate: float = 1e-3
    decay: float = 0.9
    fudge: float = 1e-6
    prior: tuple[float, float] = (1.0, 0.1)
    held_out: float = 0.1
    shuffle: bool = True
    scaling: str = "robust"
    random_state: Any = 0
    verbose: bool = False
    _layout: ClassVar[layout.Layout] = layout.SVGD
    learned: ClassVar[tuple[str, ...]] = ("params_", "noise_")

    def _train(self, learned: TrainingSet, total: float) -> HeldOutLosses | None:
        if callable(self.learning_rate):
            raise ValueError("learning_rate must be a positive number; SVGD has no schedule.")
        rng = np.random.default_rng(member_seeds(self.random_state, 1)[0])
        self.network_ = self._network()
        order = rng.permutation(learned.rows) if self.shuffle else np.sort(learned.rows)
        n_held = min(MOST_HELD_OUT, round(self.held_out * len(order)), len(order) - 1)
        rows, held = np.split(order, [len(order) - n_held])
        posterior = self._posterior(learned, rows, total)
        batch = posterior.plan.batch_size
        trace = np.empty(self.iterations)
        bar, tick = progress.progress_bar(self.verbose, "moving particles", self.iterations)

        def gradient(theta: Floats, t: int) -> Floats:
            turn = rows[np.arange(t * batch, (t + 1) * batch) % len(rows)]
            slopes, L = posterior.gradient(theta, turn)
            trace[t] = L.mean()
            _refuse_divergence(slopes, t)
            if (t + 1) % STRETCH == 0:
                tick(STRETCH)
            return slopes

        start = posterior.start(self.n_particles, rows, rng)
        with bar, np.errstate(over="ignore", invalid="ignore"):
            theta = transport(start, gradient, self.iterations, self.learning_rate, self.decay, self.fudge)
            self.params_ = theta[:, :-2].astype(np.float32)
            learned_noise = np.exp(-theta[:, -2:-1]) * learned.units.unit
        _refuse_divergence(np.hstack([self.params_, learned_noise]), self.iterations - 1)
        self.noise_, self.history_ = learned_noise, _history(trace)
        if not len(held):
            return None
        self.noise_ = self._losses_on(learned, held)
        mean, aleatoric, epistemic = self._mixed(learned.data.X[held])
        Y, weight = self.scaling_.restored(learned.data.Y[held]), learned.data.weight[held]
        return HeldOutLosses(held, losses.get(self.loss)(Y, mean), aleatoric + epistemic, weight, np.sign(Y - mean))

    def _network(self) -> engine.Network:
        settings = self.settings_
        return engine.network(
            self.n_features_in_,
            tuple(settings["hidden"]),
            n_outputs=self.n_outputs_,
            n_quantifiers=0,
            activation=settings["activation"],
        )

    def _posterior(self, learned: TrainingSet, rows: NDArray[np.int64], total: float) -> Posterior:
        """Of the rows learned from, as many observations as their share of the weight."""
        weight = learned.data.weight
        observed = total * weight[rows].sum() / weight[learned.rows].sum()
        data = replace(learned.data, weight=weight / weight[rows].mean())
        plan = engine.Plan(
            self.network_, losses.get(self.loss), OBJECTIVES["plain"], batch_size=min(self.batch_size, len(rows))
        )
        varying = int(np.count_nonzero(learned.scaling.y_spread))
        return Posterior(plan, data, observed, max(varying, 1), self.prior)

    def _losses_on(self, learned: TrainingSet, held: NDArray[np.int64]) -> Floats:
        """Mean loss (M, m) of each particle on rows that were not learned from: 1/gamma of largest likelihood there."""
        Y, weight = self.scaling_.restored(learned.data.Y[held]), learned.data.weight[held]
        loss = losses.get(self.loss)
        each = [np.average(loss(Y, mu), axis=0, weights=weight) for mu in self._particles(learned.data.X[held])]
        return np.array(each)

    def _file_sizes(self) -> dict[str, int]:
        return {"particles": self.settings_["n_particles"], "weights": self._network().n_params}

    # ------------------------------------------------------------ predict

    def _particles(self, X: NDArray[np.floating]) -> Floats:
        """Predictions (M, n, m) of the particles."""
        outputs = [engine.forward(self.network_, params, X, *self.scaling_.to_inputs)[0] for params in self.params_]
        return np.stack([self.scaling_.restored(y_r) for y_r in outputs])

    def _predict_parts(self, X: Any) -> Parts:
        return by_blocks(self._mixed, new_rows(self, X))

    def _mixed(self, X: NDArray[np.floating]) -> Parts:
        """Mean, aleatoric and epistemic loss, each (n, m), of the particles."""
        mu = self._particles(X)
        return mixtures.of(self._loss())(mu, np.broadcast_to(self.noise_[:, None], mu.shape))

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        model = super()._unpacked(facts, arrays)
        model.network_ = model._network()
        return model


def _refuse_divergence(values: NDArray[np.floating], t: int) -> None:
    if not np.isfinite(values).all():
        raise engine.DivergenceError(
            f"training diverged in iteration {t + 1}: the particles are no longer finite. Lower learning_rate."
        )


def _history(trace: Floats) -> pd.DataFrame:
    """The mean over stretches of iterations, at the end of each."""
    starts = np.arange(0, len(trace), STRETCH)
    ends = np.append(starts[1:], len(trace))
    return pd.DataFrame({"member": 0, "epoch": ends, "loss": np.add.reduceat(trace, starts) / (ends - starts)})
