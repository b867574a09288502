"""Monte Carlo dropout: a network trained with dropout, asked with dropout too (Gal, Ghahramani, ICML 2016).

Each pass drops hidden units at random, the same ones for all rows: a thinned network, a draw from the approximate
posterior. The T passes are a mixture with a common noise: what they disagree on is the epistemic part, the noise, the
same everywhere, the aleatoric part. With dropout p, length scale l of the prior and the penalty l2 / (2 n) |w|^2 on the
mean loss, their model precision tau = (1 - p) l^2 / (2 n decay) reads

    squared loss:   variance 1 / tau = l2 / (2 (1 - p) l^2)
    absolute loss:  scale b = l2 / ((1 - p) l^2), the same argument with a Laplace likelihood

in units of the standardised target. (Theirs is for units that are dropped and not scaled up for it; with 1 / (1 - p),
as here and in most code, the same l belongs to (1 - p)^2 times this.) Nobody knows l, so by default the noise is found
on held-out rows instead.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from aleator import losses, mixtures, objectives
from aleator.array_types import AnyFloats, Booleans, Floats, Floats32
from aleator.estimators.documented import documented
from aleator.estimators.network_regressor import NetworkRegressor
from aleator.losses import Loss
from aleator.mixtures import Parts
from aleator.model_files import layout, serialization
from aleator.objectives import OBJECTIVES, Objective
from aleator.preprocessing.validation import new_rows
from aleator.training.held_out import held_out_losses
from aleator.training.network_outputs import by_blocks
from aleator.training.problem import Problem, threads
from aleator.training.results import HeldOutPart, TrainingResult
from aleator.training.settings import RegressorSettings
from aleator.training.strategies import trained_without_folds

ROWS_FOR_NOISE = 10_000  # at most so many held-out rows tell one number


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class DropoutRegressor(RegressorSettings, NetworkRegressor):
    """A network with dropout in training and in prediction (Monte Carlo dropout) [1]_.

    Parameters
    ----------
    loss : {"squared", "absolute"} or Loss
        ``"squared"`` is Gaussian noise, ``"absolute"`` Laplace noise.
    n_passes : int
        Number of thinned networks whose answers are averaged.
    noise : {"held-out", "formula"}
        ``"held-out"`` finds the noise under which held-out training rows are most likely. ``"formula"`` is ``l2 / ((1 -
        dropout) length_scale^2)``, half of it for the squared loss, in units of the standardised target. With settings
        that were not chosen for it the formula may be far too small.
    length_scale : float
        Length scale of the prior, for ``noise="formula"`` only.

    Attributes
    ----------
    noise_ : ndarray of shape (m,)
        The expected loss that is left if the passes agree, for each output.
    masks_ : ndarray of bool, shape (n_passes, n_units)
        The units that each pass keeps.

    References
    ----------
    .. [1] Y. Gal, Z. Ghahramani, "Dropout as a Bayesian approximation: representing model uncertainty in deep
       learning", ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator.baselines import DropoutRegressor
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=300)
    >>> model = DropoutRegressor(epochs=20, noise="formula").fit(X, y)
    >>> model.predict([[0.1], [0.9]]).shape
    (2,)
    """

    loss: str | Loss = "squared"
    n_passes: int = 50
    noise: str = "held-out"
    length_scale: float = 1.0
    dropout: float = 0.1
    _layout: ClassVar[layout.Layout] = layout.DROPOUT

    def _objective(self) -> Objective:
        objectives.likelihood(losses.get(self.loss))  # refuses what has no noise model
        return OBJECTIVES["plain"]

    # ------------------------------------------------------------ fit

    def _held_out_parts(self, result: TrainingResult, task: Problem) -> tuple[HeldOutPart, ...]:
        """Rows that members have not seen: those that training held out, or if it held out none, five folds in turn."""
        if result.held_out or self.noise == "formula":
            return result.held_out
        return trained_without_folds(task, int(result.epochs[0]), task.seeds)

    def _set_uncertainty(self, parts: Sequence[HeldOutPart], seeds: list[int], loss_share: Floats) -> None:
        rng = np.random.default_rng([seeds[0], 2])
        self.masks_ = rng.uniform(size=(self.n_passes, sum(self.hidden))) >= self.dropout
        unit = self.units_.unit
        found = self.noise == "held-out" and parts
        self.noise_ = unit * (self._noise_on(parts) if found else self._noise_by_formula())
        self._set_correction(None, len(unit))
        self._set_scores(held_out_losses(parts, self._compare))

    def _noise_by_formula(self) -> float:
        """1 / tau of Gal, Ghahramani 2016, and its twin for the absolute loss."""
        if self.l2 == 0 and self.noise == "formula":
            raise ValueError("noise='formula' computes the noise from l2, which is 0; set l2 or noise='held-out'.")
        share = objectives.likelihood(self._loss()).share
        return share * self.l2 / ((1 - self.dropout) * self.length_scale**2)

    def _noise_on(self, parts: Sequence[HeldOutPart]) -> Floats:
        """The noise (M,) of largest likelihood on held-out rows, in units of the standardised target."""
        every = -(-sum(len(part.rows) for part in parts) // ROWS_FOR_NOISE)
        gaps, weights = [], []
        for part in parts:
            rows = part.rows[::every]
            passes = self._passes(part.params[0], part.data.X[rows])  # (T, n, M)
            spread = np.where(self.scaling_.y_spread > 0, self.scaling_.y_spread, 1.0)
            gaps.append((passes - self.scaling_.restored(part.data.Y[rows])) / spread)
            weights.append(part.data.weight[rows])
        gap, weight = np.concatenate(gaps, axis=1), np.concatenate(weights)
        return np.array([self._best_noise(each, weight) for each in np.moveaxis(gap, 2, 0)])

    def _best_noise(self, gap: Floats, weight: Floats) -> float:
        """The noise under which rows that the passes miss by `gap` (T, n) are likeliest."""
        loss = losses.get(self.loss)
        each = np.asarray(loss(gap, np.zeros_like(gap)))
        share = objectives.likelihood(loss).share

        def surprise(log_noise: float) -> float:
            """Minus the log-likelihood of the mixture, up to a constant."""
            density = -share * (each / np.exp(log_noise) + log_noise)
            return float(-weight @ logsumexp(density, axis=0))

        largest = float(np.average(each.mean(axis=0), weights=weight))  # no mixture needs more
        if largest == 0:
            return 0.0
        top = np.log(largest)
        found = minimize_scalar(surprise, bounds=(top - 20, top + 1), method="bounded", options={"xatol": 1e-4})
        return float(np.exp(found.x))

    def _compare(self, part: HeldOutPart) -> Floats:
        """Realised and predicted loss of held-out rows, and the side of the target, (3, n, M)."""
        data, rows = part.data, part.rows
        mean, aleatoric, epistemic = by_blocks(lambda X: self._mixed(part.params[0], X), data.X[rows])
        Y = self._readout().targets(data, rows)
        return np.stack([losses.get(self.loss)(Y, mean), aleatoric + epistemic, np.sign(Y - mean)])

    # ------------------------------------------------------------ predict

    def _predict(self, X: Any) -> Floats:
        return self._predict_parts(X)[0]

    def _predict_parts(self, X: Any) -> Parts:
        return by_blocks(lambda rows: self._mixed(self.params_[0], rows), new_rows(self, X))

    def _mixed(self, params: Floats32, X: AnyFloats) -> Parts:
        """Mean, aleatoric and epistemic loss, each (n, M), of the passes."""
        passes = self._passes(params, X)
        return mixtures.of(self._loss())(passes, np.broadcast_to(self.noise_, passes.shape))

    def _passes(self, params: Floats32, X: AnyFloats) -> Floats:
        """Predictions (T, n, M) of the thinned networks, in the target's units."""
        readout = self._readout()
        with ThreadPoolExecutor(threads(self.n_jobs)) as pool:
            return np.stack(
                list(pool.map(lambda mask: readout.outputs(self._thinned(params, mask), X)[0], self.masks_))
            )

    def _thinned(self, params: Floats32, mask: Booleans) -> Floats32:
        """The network without the units that a pass drops: what follows a kept unit sees it times 1 / (1 - p)."""
        thinned, first = params.copy(), 0
        for weights in self.network_.matrices[1:]:  # those that read hidden units
            kept = mask[first : first + weights.inputs]
            weights.of(thinned)[:] *= kept[:, None] / np.float32(1 - self.settings_["dropout"])
            first += weights.inputs
        return thinned

    # ------------------------------------------------------------ files

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        facts, arrays = serialization.pack_network(self)
        return facts, arrays | {"noise_": self.noise_, "masks_": self.masks_}

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        model = serialization.unpack_network(cls, facts, arrays)
        model.noise_, model.masks_ = arrays["noise_"], arrays["masks_"]
        if model.masks_.shape != (model.n_passes, sum(model.hidden)):
            raise ValueError("corrupt model file: masks_ must have a row for each pass and a column for each unit.")
        return model
