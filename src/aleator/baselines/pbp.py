"""Probabilistic backpropagation (Hernandez-Lobato, Adams 2015): each weight a Gaussian, each row one pass of moments.

Every weight is N(m, v), the noise precision Gamma(a, b), the weight precision Gamma(a_w, b_w). A row is taken in by
assumed density filtering: the moments of the output are propagated through the layers, and with the evidence

    (1)  ln Z = ln N(y; m_out, v_out + b / (a - 1))

every weight moves to the Gaussian, and the noise precision to the Gamma, whose moments match:

    (2)  m += v dlnZ/dm,    v -= v^2 [(dlnZ/dm)^2 - 2 dlnZ/dv]
    (3)  a' = 1 / (Z_2 Z / Z_1^2 (a + 1) / a - 1),    b' = 1 / (Z_2 / Z_1 (a + 1) / b - Z_1 / Z a / b),

Z_1 and Z_2 the evidence at noise b / a and b / (a + 1). After each pass over the rows the prior factor of every weight
is refined once by expectation propagation: it is taken out, and (2) and (3) with it alone,

    (4)  ln Z = ln N(0; m, v + b_w / (a_w - 1)),

put it in again. A linear layer multiplies by W / sqrt(I), the bias one of its I inputs:

    (5)  m_z = sum m_x m_w / sqrt(I),    v_z = sum [(m_x^2 + v_x) v_w + v_x m_w^2] / I

For x ~ N(mu, s^2), alpha = mu / s, the moments of max(x, 0) and, by the theorem of Price, their derivatives are closed
forms in the normal density phi and distribution Phi at alpha, with Phi' = Phi(-alpha):

    (6)  E = mu Phi + s phi                                             dE/dmu = Phi       dE/ds^2 = phi / (2 s)
    (7)  V = s^2 [Phi + alpha^2 Phi Phi' + alpha phi (Phi' - Phi) - phi^2]
                                                                        dV/dmu = 2 E Phi'  dV/ds^2 = Phi - E phi / s

A row of weight 3 is taken in three times. A fraction w of an observation has noise variance 1/w times as large in (2),
and moves a and b by w times what (3) would.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import engine, losses
from aleator.baselines.bayesian_networks import BayesianRegressor
from aleator.compiled_functions import jit
from aleator.estimators.documented import documented
from aleator.losses import Loss
from aleator.mixtures import Parts
from aleator.model_files import layout
from aleator.preprocessing.standardisation import TrainingSet
from aleator.preprocessing.validation import new_rows
from aleator.training import progress
from aleator.training.problem import member_seeds

Floats = NDArray[np.float64]

LEAST_VARIANCE, MOST = 1e-100, 1e100  # a weight that would leave these keeps its moments
WIDEST_CAVITY = 1e6
MOST_VISITS = 1e8

kernel = jit(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})

# ---------------------------------------------------------------- moments


@kernel
def relu_moments(mu, variance):  # type: ignore[no-untyped-def]
    """(6), (7): E and V of max(x, 0) for x ~ N(mu, variance), and Phi, Phi', phi / s for their derivatives."""
    s = math.sqrt(variance)
    alpha = mu / s
    Phi, rest = 0.5 * math.erfc(-alpha * math.sqrt(0.5)), 0.5 * math.erfc(alpha * math.sqrt(0.5))
    phi = math.exp(-0.5 * alpha * alpha) / math.sqrt(2.0 * math.pi)
    E = max(mu * Phi + s * phi, 0.0)
    V = variance * max(Phi + alpha * alpha * Phi * rest + alpha * phi * (rest - Phi) - phi * phi, 0.0)
    return E, V, Phi, rest, phi / s


@kernel
def gamma_update(a, b, ln_z, ln_z1, ln_z2):  # type: ignore[no-untyped-def]
    """(3): shape and rate of the Gamma whose moments match; as they were where that is not one."""
    new_a = 1.0 / (math.exp(ln_z2 - 2.0 * ln_z1 + ln_z) * (a + 1.0) / a - 1.0)
    new_b = 1.0 / (math.exp(ln_z2 - ln_z1) * (a + 1.0) / b - math.exp(ln_z1 - ln_z) * a / b)
    if 1.0 < new_a < MOST and 0.0 < new_b < MOST:
        return new_a, new_b
    return a, b


@kernel
def ln_normal(miss, variance):  # type: ignore[no-untyped-def]
    return -0.5 * (math.log(2.0 * math.pi * variance) + miss * miss / variance)


@kernel
def linear(x, x_var, x_at, m, v, at, I, U, out, out_var, out_at):  # type: ignore[no-untyped-def]
    """(5): moments (U,) of x W / sqrt(I), from those of x (I,) and W (I, U), all independent."""
    for j in range(U):
        out[out_at + j] = 0.0
        out_var[out_at + j] = 0.0
    for i in range(I):
        mu, variance = x[x_at + i], x_var[x_at + i]
        square, row = mu * mu + variance, at + i * U
        if variance == 0.0:  # an input, or the bias
            for j in range(U):
                out[out_at + j] += mu * m[row + j]
                out_var[out_at + j] += square * v[row + j]
        else:
            for j in range(U):
                out[out_at + j] += mu * m[row + j]
                out_var[out_at + j] += square * v[row + j] + variance * m[row + j] * m[row + j]
    for j in range(U):
        out[out_at + j] /= math.sqrt(I)
        out_var[out_at + j] /= I


@kernel
def buffers(sizes):  # type: ignore[no-untyped-def]
    """Room for one row: see `forward`."""
    units, layers = sizes[1:].sum(), sizes.size - 1
    x, z = np.zeros((2, sizes[0] + units + layers)), np.zeros((2, units))
    return x[0], x[1], z[0], z[1], np.zeros((3, units))


@kernel
def read_row(X, row, x):  # type: ignore[no-untyped-def]
    """The inputs of one row."""
    for i in range(X.shape[1]):
        x[i] = X[row, i]


@kernel
def forward(x, x_var, z, z_var, slopes, m, v, sizes):  # type: ignore[no-untyped-def]
    """Moments through all layers. x, x_var: what each layer reads, one after the other, each with its bias input 1 at
    the end; z, z_var: what it gives before the activation; slopes (3, units): Phi, Phi', phi / s there.
    """
    x_at, z_at, at = 0, 0, 0
    for k in range(sizes.size - 1):
        I, U = sizes[k] + 1, sizes[k + 1]
        x[x_at + I - 1], x_var[x_at + I - 1] = 1.0, 0.0
        linear(x, x_var, x_at, m, v, at, I, U, z, z_var, z_at)
        if k < sizes.size - 2:
            for j in range(U):
                E, V, Phi, rest, density = relu_moments(z[z_at + j], z_var[z_at + j])
                x[x_at + I + j], x_var[x_at + I + j] = E, V
                slopes[0, z_at + j], slopes[1, z_at + j], slopes[2, z_at + j] = Phi, rest, density
        x_at, z_at, at = x_at + I, z_at + U, at + I * U


# ---------------------------------------------------------------- one pass over the rows


@kernel
def take_in(x, x_var, x_at, by, by_var, by_at, m, v, at, I, U, back, back_var):  # type: ignore[no-untyped-def]
    """(2) for the weights of a layer, given dlnZ by the moments of its outputs; back, back_var: by those of x."""
    root, share = 1.0 / math.sqrt(I), 1.0 / I
    for i in range(I):
        mu, variance = x[x_at + i], x_var[x_at + i]
        square, row, d, d_var = mu * mu + variance, at + i * U, 0.0, 0.0
        for j in range(U):
            mean, var, g, g_var = m[row + j], v[row + j], root * by[by_at + j], share * by_var[by_at + j]
            d += g * mean + 2.0 * g_var * var * mu
            d_var += g_var * (var + mean * mean)
            by_m, by_v = g * mu + 2.0 * g_var * mean * variance, g_var * square
            new_m, new_v = mean + var * by_m, var - var * var * (by_m * by_m - 2.0 * by_v)
            fine = (new_v > LEAST_VARIANCE) & (new_v < MOST) & (abs(new_m) < MOST)
            m[row + j] = new_m if fine else mean
            v[row + j] = new_v if fine else var
        back[i], back_var[i] = d, d_var


@kernel
def filter_rows(X, Y, order, share, sizes, m, v, noise, totals):  # type: ignore[no-untyped-def]
    """Assumed density filtering of the rows of standardised inputs X in `order`, each a `share` of an observation.

    m, v (P,) and noise (M, 2), shape and rate for each output, change in place. Adds -ln Z and the squared loss of each
    prediction, made before its row was taken in, and the share to `totals`.
    """
    x, x_var, z, z_var, slopes = buffers(sizes)
    units, M = z.size, sizes[-1]
    by, by_var = np.zeros(units), np.zeros(units)
    back, back_var = np.zeros(sizes.max() + 1), np.zeros(sizes.max() + 1)
    for n in range(order.size):
        row, w = order[n], share[n]
        read_row(X, row, x)
        forward(x, x_var, z, z_var, slopes, m, v, sizes)
        for k in range(M):
            o, a, b = units - M + k, noise[k, 0], noise[k, 1]
            miss = Y[row, k] - z[o]
            ln_z = ln_normal(miss, z_var[o] + b / (a - 1.0))  # (1)
            ln_z1, ln_z2 = ln_normal(miss, z_var[o] + b / a), ln_normal(miss, z_var[o] + b / (a + 1.0))
            variance = z_var[o] + b / (a - 1.0) / w
            by[o], by_var[o] = miss / variance, 0.5 * (miss * miss / variance - 1.0) / variance
            new_a, new_b = gamma_update(a, b, ln_z, ln_z1, ln_z2)
            noise[k, 0], noise[k, 1] = a + w * (new_a - a), b + w * (new_b - b)
            totals[0] -= w * ln_z
            totals[1] += w * miss * miss
        totals[2] += w
        x_at, z_at, at = x.size - M, units, m.size  # what the last layer reads ends before its outputs
        for k in range(sizes.size - 2, -1, -1):
            I, U = sizes[k] + 1, sizes[k + 1]
            x_at, z_at, at = x_at - I, z_at - U, at - I * U
            take_in(x, x_var, x_at, by, by_var, z_at, m, v, at, I, U, back, back_var)
            if k > 0:
                for j in range(sizes[k]):
                    o = z_at - sizes[k] + j
                    E, Phi, rest, density = x[x_at + j], slopes[0, o], slopes[1, o], slopes[2, o]
                    by[o] = back[j] * Phi + back_var[j] * 2.0 * E * rest  # the derivatives beside (6) and (7)
                    by_var[o] = back[j] * 0.5 * density + back_var[j] * (Phi - E * density)


# ---------------------------------------------------------------- the prior, by expectation propagation


@kernel
def refine_prior(m, v, precision, factor_m, factor_v, factor_a, factor_b):  # type: ignore[no-untyped-def]
    """Each weight's prior factor in turn: out of the posterior (the cavity), matched with the exact one, in again.

    precision = (a_w, b_w). Factors are what they add to 1/v and m/v of the weight, and to a_w and b_w.
    """
    for k in range(m.size):
        cavity_v, cavity_m = 1.0 / v[k] - factor_v[k], m[k] / v[k] - factor_m[k]
        a, b = precision[0] - factor_a[k], precision[1] - factor_b[k]
        if not (0.0 < 1.0 / cavity_v < WIDEST_CAVITY and b > 0.0 and a > 1.0):
            continue
        var = 1.0 / cavity_v
        mean = var * cavity_m
        total = var + b / (a - 1.0)
        ln_z, ln_z1, ln_z2 = ln_normal(mean, total), ln_normal(mean, var + b / a), ln_normal(mean, var + b / (a + 1.0))
        by_m, by_v = -mean / total, 0.5 * (mean * mean / total - 1.0) / total  # of (4)
        new_m, new_v = mean + var * by_m, var - var * var * (by_m * by_m - 2.0 * by_v)
        if not (LEAST_VARIANCE < new_v < MOST and abs(new_m) < MOST):
            continue
        new_a, new_b = gamma_update(a, b, ln_z, ln_z1, ln_z2)
        factor_v[k], factor_m[k] = 1.0 / new_v - cavity_v, new_m / new_v - cavity_m
        factor_a[k], factor_b[k] = new_a - a, new_b - b
        m[k], v[k], precision[0], precision[1] = new_m, new_v, new_a, new_b


@kernel
def predict_rows(X, sizes, m, v, mean, variance):  # type: ignore[no-untyped-def]
    """Moments (n, M) of the outputs, without the noise."""
    x, x_var, z, z_var, slopes = buffers(sizes)
    last = z.size - sizes[-1]
    for row in range(X.shape[0]):
        read_row(X, row, x)
        forward(x, x_var, z, z_var, slopes, m, v, sizes)
        for o in range(sizes[-1]):
            mean[row, o], variance[row, o] = z[last + o], z_var[last + o]


# ---------------------------------------------------------------- the estimator


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PBPRegressor(BayesianRegressor):
    """A Bayesian network with a Gaussian for every weight, trained by probabilistic backpropagation [1]_.

    There is no learning rate, and the noise is learned with the weights. No rows are held out: with more than about ten
    columns and a few hundred rows, or with heavy tails, the expected loss is too small by a factor of 2 to 10.
    `recalibrate` corrects it. With several outputs each has its own noise and expected loss.

    Parameters
    ----------
    loss : {"squared", "absolute"} or Loss
        The loss to predict. The likelihood is Gaussian for both; ``E|y - mu| = sqrt(2 V / pi)``.
    hidden : tuple of int
        Units of each hidden layer, with ReLU activation.
    epochs : int
        Passes over the rows, each in an order of its own.
    prior : tuple of float
        Shape and rate of the Gamma prior of noise precision and weight precision.
    scaling : {"robust", "standard"}
        How inputs are standardised, as in `aleator.PairRegressor`.
    random_state : int, RandomState instance or None
        Random seed.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    weight_mean_ : ndarray of shape (P,)
        Means of the weights, layer by layer, each (inputs + 1, units), the biases last.
    weight_variance_ : ndarray of shape (P,)
        Variances of the weights.
    noise_precision_ : ndarray of shape (m, 2)
        Shape and rate of the Gamma distribution of each noise precision.
    weight_precision_ : ndarray of shape (2,)
        Shape and rate of the Gamma distribution of the weight precision.
    history_ : DataFrame
        By epoch: `nll`, minus the log-likelihood of each row before it was learned, and `loss`, the squared loss of its
        prediction, both of the standardised target and summed over the outputs.

    References
    ----------
    .. [1] J. M. Hernandez-Lobato, R. P. Adams, "Probabilistic backpropagation for scalable learning of Bayesian neural
       networks", ICML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator.baselines import PBPRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> found = PBPRegressor().fit(X, y).predict_uncertainty([[0.5], [3.0]])
    >>> bool(found.epistemic[0] < found.epistemic[1])
    True
    """

    loss: str | Loss = "squared"
    hidden: tuple[int, ...] = (50,)
    epochs: int = 40
    prior: tuple[float, float] = (6.0, 6.0)
    scaling: str = "robust"
    random_state: Any = 0
    verbose: bool = False
    _layout: ClassVar[layout.Layout] = layout.PBP
    learned: ClassVar[tuple[str, ...]] = ("weight_mean_", "weight_variance_", "noise_precision_", "weight_precision_")

    def _train(self, learned: TrainingSet, total: float) -> None:
        if self.epochs is None:
            raise ValueError("epochs must be a whole number >= 1, got None.")
        if self.prior[0] <= 1:
            raise ValueError(f"prior must have a shape above 1, or there is no mean variance; got {self.prior!r}.")
        rng = np.random.default_rng(member_seeds(self.random_state, 1)[0])
        sizes, (a, b), data = self._sizes(), self.prior, learned.data
        m = np.concatenate([rng.normal(size=(I + 1) * U) / np.sqrt(I + 1) for I, U in itertools.pairwise(sizes)])
        v = np.full(len(m), b / (a - 1))
        noise, precision = np.tile([a, b], (self.n_outputs_, 1)), np.array([a, b])
        # At the start the posterior is its prior factors. (The authors' begin with m = 0 there and a random m in the
        # posterior; with few rows what is left without the factor is then a huge mean, and the fit is lost.)
        factor_m, factor_v, factor_a, factor_b = m / v, 1 / v, np.zeros_like(m), np.zeros_like(m)
        rows, share = _visits(learned, total)
        X, Y = learned.scaling.inputs(data.X), data.Y.astype(np.float64)
        trace = np.zeros((self.epochs, 3))
        bar, tick = progress.progress_bar(self.verbose, "taking in the rows", self.epochs)
        with bar:
            for epoch in range(self.epochs):
                order = rng.permutation(len(rows))
                filter_rows(X, Y, rows[order], share[order], sizes, m, v, noise, trace[epoch])
                refine_prior(m, v, precision, factor_m, factor_v, factor_a, factor_b)
                if not (np.isfinite(trace[epoch]).all() and np.isfinite(m).all()):
                    raise engine.DivergenceError(f"training diverged in epoch {epoch + 1}: the moments are not finite.")
                tick(1)
        self.weight_mean_, self.weight_variance_ = m, v
        self.noise_precision_, self.weight_precision_ = noise, precision
        nll, loss = trace[:, :2].T / trace[:, 2]
        self.history_ = pd.DataFrame({"member": 0, "epoch": np.arange(1, self.epochs + 1), "nll": nll, "loss": loss})

    def _sizes(self) -> NDArray[np.int64]:
        return np.array([self.n_features_in_, *self.settings_["hidden"], self.n_outputs_], np.int64)

    def _file_sizes(self) -> dict[str, int]:
        return {"weights": sum((int(I) + 1) * int(U) for I, U in itertools.pairwise(self._sizes()))}

    # ------------------------------------------------------------ predict

    def _predict_parts(self, X: Any) -> Parts:
        rows = self.scaling_.inputs(new_rows(self, X))
        mean, variance = np.empty((2, len(rows), self.n_outputs_))
        scales = self.scaling_
        weights = self.weight_mean_, self.weight_variance_
        predict_rows(rows, self._sizes(), *weights, mean, variance)
        a, b = self.noise_precision_.T
        spread = scales.y_spread
        aleatoric = np.broadcast_to(spread**2 * b / (a - 1), mean.shape)
        epistemic = spread**2 * variance
        if not losses.is_squared(self._loss()):  # of a Gaussian, E|y - mu| = sqrt(2 V / pi)
            both = np.sqrt(2 * (aleatoric + epistemic) / np.pi)
            aleatoric = np.sqrt(2 * aleatoric / np.pi)
            epistemic = both - aleatoric
        return scales.y_mean + spread * mean, aleatoric, epistemic

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        model = super()._unpacked(facts, arrays)
        a, b = model.noise_precision_.T
        if not ((a > 1).all() and (b > 0).all()):
            raise ValueError("corrupt model file: noise_precision_ needs a shape > 1 and a rate > 0.")
        return model


def _visits(learned: TrainingSet, total: float) -> tuple[NDArray[np.int64], Floats]:
    """The rows to take in, each as often as its weight says, and which share of an observation each visit is."""
    if total > MOST_VISITS:
        raise ValueError(
            f"sample_weight adds up to {total:g} observations, and PBP takes in each of them; divide the weights, so "
            f"that they count what was observed, at most {MOST_VISITS:g}."
        )
    weight = learned.data.weight[learned.rows]
    weight = weight * (total / weight.sum())
    whole = np.floor(weight + 1e-9)
    rest = weight - whole
    part = rest > 1e-9
    rows = np.concatenate([np.repeat(learned.rows, whole.astype(np.int64)), learned.rows[part]])
    return rows, np.concatenate([np.ones(len(rows) - part.sum()), rest[part]])
