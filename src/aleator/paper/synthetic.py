"""The experiments of section 7: one-dimensional data, small networks, and what lam does to them.

The paper says which networks (eq. (7.1): two hidden layers of 10 tanh units, for regressor and quantifier each) and
which lam; not how they were trained, nor on how many samples. Here all are trained alike (`TRAINING`), with small
batches at a constant rate as in sec. 8: networks feel the noise of the samples in their steps, and lam is about that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.baselines import PlainRegressor
from aleator.datasets.synthetic import EDGES, Synthetic, smooth, smooth_truth, two_strips, two_strips_truth
from aleator.estimators import PairRegressor

Floats = NDArray[np.float64]

NETWORK = {"hidden": (10, 10), "activation": "tanh"}  # eq. (7.1)
TRAINING = {"optimizer": "nesterov", "learning_rate": 5e-3, "l2": 0.0}
EPOCHS = 3000
STAGES = {"early": 100, "middle": 500, "final": EPOCHS}
# When the pair with lam = 0.05 knows the clean regions, by share of noise; networks are compared at the same epoch.
ENOUGH = {0.2: 250, 0.8: EPOCHS}

GRID = (np.arange(1000) + 0.5) / 1000  # where curves are drawn and errors are taken; no point lies on an edge


@dataclass(frozen=True)
class Setting:
    """Data, and the pair that learns them; without a coupling, the standard network of the same size."""

    noisy: float | None = 0.8  # the share of the samples in the strips; None for the smooth data
    coupling: str | None = "sigmoid"
    lam: float = 0.05
    seed: int = 0

    def data(self) -> Synthetic:
        """The samples; they do not depend on the network."""
        return smooth(5000, self.seed) if self.noisy is None else two_strips(2000, self.noisy, self.seed)

    def truth(self, x: Floats) -> tuple[Floats, Floats]:
        """True mean and standard deviation at x."""
        return smooth_truth(x) if self.noisy is None else two_strips_truth(x)

    @property
    def edges(self) -> Floats:
        """Where regions of x meet: those of the strips, or where the smooth noise passes its mean."""
        return np.array([0.25, 0.5, 0.75]) if self.noisy is None else EDGES

    def region(self, x: Floats) -> NDArray[np.int64]:
        """The region of each x, counted from 0."""
        return np.searchsorted(self.edges, x, side="right")

    @property
    def is_noisy(self) -> NDArray[np.bool_]:
        """Of each region, from left to right."""
        return np.array([True, False, True, False] if self.noisy is None else [False, True, False, True, False])

    def model(self) -> PairRegressor | PlainRegressor:
        """The networks of eq. (7.1), untrained."""
        batch_size = 20 if self.noisy is None else 5
        common: dict[str, Any] = NETWORK | TRAINING | {"batch_size": batch_size, "epochs": EPOCHS}
        common |= {"random_state": self.seed, "n_jobs": 1, "scaling": "standard"}
        if self.coupling is None:
            return PlainRegressor(**common)
        return PairRegressor(coupling=self.coupling, lam=self.lam, rescale=False, **common)


def predicted(model: Any, x: Floats) -> tuple[Floats, Floats]:
    """Prediction and standard deviation at x (n,); without a quantifier the latter is NaN."""
    if isinstance(model, PlainRegressor):
        return model.predict(x[:, None]), np.full(len(x), np.nan)
    mean, std = model.predict(x[:, None], return_std=True)
    return mean, std


@dataclass(frozen=True)
class Curve:
    """What a network says on GRID after so many epochs."""

    setting: Setting
    epochs: int
    mean: Floats
    std: Floats

    @property
    def error(self) -> float:
        """Root mean squared error against the true mean, of two strips only in the clean regions."""
        truth, std = self.setting.truth(GRID)
        counts = np.full(len(GRID), True) if self.setting.noisy is None else std == 0
        return float(np.sqrt(np.mean((self.mean - truth)[counts] ** 2)))

    @property
    def largest_deviations(self) -> tuple[float, float]:
        """From the true mean and from the true standard deviation, on [0.02, 0.98]."""
        inside = (GRID >= 0.02) & (GRID <= 0.98)
        mean, std = self.setting.truth(GRID)
        return float(np.abs(self.mean - mean)[inside].max()), float(np.abs(self.std - std)[inside].max())


def curves(setting: Setting, epochs: Sequence[int]) -> Iterator[Curve]:
    """The curves at these stages of one training, one after the other."""
    data = setting.data()
    for epoch, model in zip(epochs, setting.model().fit_staged(data.X, data.y, epochs), strict=True):
        yield Curve(setting, epoch, *predicted(model, GRID))
