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

A row of weight w is w observations of the same y: one observation with noise precision w gamma, times gamma^((w-1)/2).
"""

import itertools
import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import engine, heads, losses
from aleator.compiled import jit
from aleator.engine.kernels import FARTHEST
from aleator.estimators import fitting, saving
from aleator.estimators.quantified import QuantifiedRegressor
from aleator.estimators.reading import check_parameters, columns, new_rows, training_rows
from aleator.estimators.table import Scaling, Table, table
from aleator.losses import Loss

Floats = NDArray[np.float64]

LEAST_VARIANCE, MOST = 1e-100, 1e100  # a weight that would leave these keeps its moments
WIDEST_CAVITY = 1e6

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
def filter_rows(X, shift, scale, Y, weight, order, sizes, m, v, noise, totals):  # type: ignore[no-untyped-def]
    """Assumed density filtering of the rows in `order`; m, v (P,) and noise = (a, b) change in place.

    Adds -ln Z and the squared loss of each prediction, made before its row was taken in, and the weight to `totals`.
    """
    L, D, M = sizes.size - 1, sizes[0], sizes[-1]
    units = 0
    for k in range(1, L + 1):
        units += sizes[k]
    x, x_var = np.zeros(D + units + L), np.zeros(D + units + L)
    z, z_var, by, by_var = np.zeros(units), np.zeros(units), np.zeros(units), np.zeros(units)
    slopes, back, back_var = np.zeros((3, units)), np.zeros(sizes.max() + 1), np.zeros(sizes.max() + 1)
    for row in order:
        w = weight[row]
        for i in range(D):
            x[i] = (X[row, i] - shift[i]) * scale[i]
        forward(x, x_var, z, z_var, slopes, m, v, sizes)
        a, b = noise[0] + 0.5 * M * (w - 1.0), noise[1]
        if a <= 1.0:
            a = noise[0]
        ln_z = ln_z1 = ln_z2 = 0.0
        for o in range(units - M, units):
            miss = Y[row, o - units + M] - z[o]
            variance = z_var[o] + b / (a - 1.0) / w
            ln_z += ln_normal(miss, variance)  # (1)
            ln_z1 += ln_normal(miss, z_var[o] + b / a / w)
            ln_z2 += ln_normal(miss, z_var[o] + b / (a + 1.0) / w)
            by[o], by_var[o] = miss / variance, 0.5 * (miss * miss / variance - 1.0) / variance
            totals[1] += w * miss * miss
        totals[0] -= w * ln_z
        totals[2] += w
        noise[0], noise[1] = gamma_update(a, b, ln_z, ln_z1, ln_z2)
        x_at, z_at, at = x.size - M, units, m.size  # what the last layer reads ends before its outputs
        for k in range(L - 1, -1, -1):
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

    precision = (a_w, b_w). Factors are in natural parameters: 1/v and m/v of the weight, a - 1 and -b of the precision.
    """
    for k in range(m.size):
        cavity_v, cavity_m = 1.0 / v[k] - factor_v[k], m[k] / v[k] - factor_m[k]
        a, b = precision[0] - factor_a[k], precision[1] + factor_b[k]
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
        factor_a[k], factor_b[k] = new_a - a, b - new_b
        m[k], v[k], precision[0], precision[1] = new_m, new_v, new_a, new_b


@kernel
def predict_rows(X, shift, scale, sizes, m, v, mean, variance):  # type: ignore[no-untyped-def]
    """Moments (n, M) of the outputs, without the noise."""
    L, D, M = sizes.size - 1, sizes[0], sizes[-1]
    units = 0
    for k in range(1, L + 1):
        units += sizes[k]
    x, x_var = np.zeros(D + units + L), np.zeros(D + units + L)
    z, z_var, slopes = np.zeros(units), np.zeros(units), np.zeros((3, units))
    for row in range(X.shape[0]):
        for i in range(D):
            x[i] = min(max((X[row, i] - shift[i]) * scale[i], -FARTHEST), FARTHEST)
        forward(x, x_var, z, z_var, slopes, m, v, sizes)
        for o in range(M):
            mean[row, o], variance[row, o] = z[units - M + o], z_var[units - M + o]


# ---------------------------------------------------------------- the estimator


@dataclass(eq=False, repr=False)
class PBPRegressor(QuantifiedRegressor):
    """A Bayesian neural network with a Gaussian for every weight, trained by probabilistic backpropagation.

    Nothing has to be tuned: there is no learning rate, and the noise is learned with the weights.

    Parameters
    ----------
    loss : "squared" or "absolute". The likelihood is Gaussian for both; E|y - mu| = sqrt(2 V / pi).
    hidden : units of each hidden layer (ReLU).
    epochs : passes over the rows, each in an order of its own.
    prior : shape and rate of the Gamma prior of noise precision and weight precision.
    random_state, verbose : as in `PairRegressor`.

    With several outputs there is an expected loss for each; the noise, of the standardised targets, is common.

    Attributes
    ----------
    weight_mean_, weight_variance_ (P,) : of the weights, layer by layer, each (inputs + 1, units), the biases last.
    noise_precision_, weight_precision_ : shape and rate of their Gamma distributions.
    history_ : DataFrame by epoch: `nll`, minus the log-likelihood of each row before it was taken in, and `loss`, the
        squared loss of its prediction, both of the standardised target.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> said = PBPRegressor().fit(X, y).predict_uncertainty([[0.5], [3.0]])
    >>> bool(said.epistemic[0] < said.epistemic[1])
    True
    """

    loss: str | Loss = "squared"
    _: KW_ONLY
    hidden: tuple[int, ...] = (50,)
    epochs: int = 40
    prior: tuple[float, float] = (6.0, 6.0)
    random_state: Any = 0
    verbose: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take in X (n, d) and y (n,) or (n, m), row by row. A weight of 2 is the same as the row twice."""
        with self._as_it_was_on_error():
            return self._learn(X, y, sample_weight)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> Self:
        check_parameters(self)
        if self.epochs is None:
            raise ValueError("epochs must be a whole number >= 1, got None.")
        if self.prior[0] <= 1:
            raise ValueError(f"prior must have a shape above 1, or there is no mean variance; got {self.prior!r}.")
        loss = losses.get(self.loss)
        heads.likelihood(loss)  # refuses what is neither squared nor absolute
        X, y, weight = training_rows(self, X, y, sample_weight)
        Y = columns(y)
        learned = table(X, Y, weight, loss, per_output=True)
        self.settings_ = self.get_params(deep=False)
        self.scaling_ = learned.scaling
        self.y_is_1d_, self.n_outputs_, self.loss_scale_ = y.ndim == 1, Y.shape[1], np.ones(Y.shape[1])
        self._take_in(learned, len(y) if weight is None else weight.sum())
        self._calibrated_by(None)
        return self

    def _sizes(self) -> NDArray[np.int64]:
        return np.array([self.n_features_in_, *self.settings_["hidden"], self.n_outputs_], np.int64)

    def _take_in(self, learned: Table, total: float) -> None:
        seed = fitting.member_seeds(self.random_state, 1)[0]
        sizes, (a, b), data = self._sizes(), self.prior, learned.data
        shapes = [(I + 1, U) for I, U in itertools.pairwise(sizes)]
        rng = np.random.default_rng(seed)
        m = np.concatenate([rng.normal(size=I * U) / np.sqrt(I) for I, U in shapes])
        v = np.full(len(m), b / (a - 1))
        noise, precision = np.array([a, b]), np.array([a, b])
        factor_m, factor_v, factor_a, factor_b = np.zeros_like(m), 1 / v, np.zeros_like(m), np.zeros_like(m)
        weight = data.weight * total / data.weight[learned.rows].sum()  # so that a weight counts observations
        rows = data.X.astype(np.float64, copy=False), data.shift, data.scale, data.Y.astype(np.float64), weight
        trace = np.zeros((self.epochs, 3))
        bar, tick = fitting.progress(self.verbose, "taking in the rows", self.epochs)
        with bar:
            for epoch in range(self.epochs):
                order = rng.permutation(learned.rows)
                filter_rows(*rows, order, sizes, m, v, noise, trace[epoch])
                refine_prior(m, v, precision, factor_m, factor_v, factor_a, factor_b)
                if not (np.isfinite(trace[epoch]).all() and np.isfinite(m).all()):
                    raise engine.DivergenceError(f"training diverged in epoch {epoch + 1}: the moments are not finite.")
                tick(1)
        self.weight_mean_, self.weight_variance_ = m, v
        self.noise_precision_, self.weight_precision_ = noise, precision
        nll, loss = trace[:, :2].T / trace[:, 2]
        self.history_ = pd.DataFrame({"member": 0, "epoch": np.arange(1, self.epochs + 1), "nll": nll, "loss": loss})

    # ------------------------------------------------------------ predict

    def _means(self, X: Any) -> Floats:
        return self._answers(X)[0]

    def _answers(self, X: Any) -> tuple[Floats, Floats, Floats]:
        rows = new_rows(self, X).astype(np.float64, copy=False)
        mean, variance = np.empty((2, len(rows), self.n_outputs_))
        scales = self.scaling_
        weights = self.weight_mean_, self.weight_variance_
        predict_rows(rows, scales.x_mean, scales.x_scale, self._sizes(), *weights, mean, variance)
        a, b = self.noise_precision_
        spread = scales.y_spread
        aleatoric = np.broadcast_to(spread**2 * b / (a - 1), mean.shape)
        epistemic = spread**2 * variance
        if not losses.is_squared(self._loss()):  # of a Gaussian, E|y - mu| = sqrt(2 V / pi)
            both = np.sqrt(2 * (aleatoric + epistemic) / np.pi)
            aleatoric = np.sqrt(2 * aleatoric / np.pi)
            epistemic = both - aleatoric
        return scales.y_mean + spread * mean, aleatoric, epistemic

    def _loss(self) -> Loss:
        return losses.get(self.settings_["loss"])

    # ------------------------------------------------------------ files

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        facts, arrays = saving.pack(self, self.settings_)
        arrays |= {name: getattr(self, name) for name in (*_LEARNED, "loss_scale_")}
        return facts, arrays | {name: getattr(self.scaling_, name) for name in saving.SCALING}

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        model = saving.unpack(cls, facts, arrays)
        for name in (*_LEARNED, "loss_scale_"):
            setattr(model, name, arrays[name])
        model.scaling_ = Scaling(*(arrays[name] for name in saving.SCALING))
        D, M = len(model.scaling_.x_mean), model.n_outputs_
        model.n_features_in_ = D
        sizes = model._sizes()
        P = int(((sizes[:-1] + 1) * sizes[1:]).sum())
        shapes = {"weight_mean_": (P,), "weight_variance_": (P,), "noise_precision_": (2,), "weight_precision_": (2,)}
        shapes |= {"loss_scale_": (M,), "x_mean": (D,), "x_spread": (D,), "y_mean": (M,), "y_spread": (M,)}
        saving.check_shapes({name: (arrays[name], np.float64, shape) for name, shape in shapes.items()})
        return model


_LEARNED = ("weight_mean_", "weight_variance_", "noise_precision_", "weight_precision_")
