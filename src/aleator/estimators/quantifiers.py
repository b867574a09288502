"""Quantifiers alone: networks that learn given losses, without a regressor beside them (sec. 9 of the paper).

The regressor is there already, of any kind. A row is what the quantifier sees of it, Z, and the loss it had, L,
measured where the regressor had not been trained. The joint loss L f(z) + lam g(z) is minimised over the quantifier
alone, and what it says is the expected loss -lam g'(z) / f'(z), averaged over the members.

Losses are divided by their mean: lam is in units of the mean loss, so it means the same for every loss and every unit.
A loss beyond what the tail of the others makes plausible is learned as the largest plausible one.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import couplings, engine, heads
from aleator.compiled import mapped
from aleator.couplings import Coupling
from aleator.estimators import fitting, recipe, robust
from aleator.estimators.held_out import HeldOut
from aleator.estimators.table import ROWS_AT_A_TIME, Scaling, scaling, weighted_set

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quantifiers:
    """K trained members: parameters (K, P), their lams (K,), and the range of xi (K, 2, Q) on the rows they know.

    Outside the rows it was trained on a network goes on in straight lines, and the expected loss, an exponential, with
    it to 0 or to infinity. So xi is held to the range it has on those rows: nothing is claimed that was not seen.
    """

    network: engine.Network
    coupling: Coupling
    scaling: Scaling
    unit: Floats  # (Q,)
    params: NDArray[np.float32]
    lams: Floats
    reach: NDArray[np.float32]

    def expected(self, Z: NDArray[np.floating]) -> Floats:
        """The expected loss (n, Q) of rows as the quantifier sees them, in the units of the loss."""
        total = np.zeros((len(Z), len(self.unit)))
        for xi, lam in zip(self._xi(Z), self.lams, strict=True):
            total += self.coupling.expected_loss(xi, lam)
        return self.unit * total / len(self.params)

    def weights(self, Z: NDArray[np.floating]) -> Floats:
        """f(z) (n, Q): how much the joint loss L f(z) + lam g(z) lets the loss of each row count."""
        mean: Floats = np.mean([mapped(self.coupling.f, xi) for xi in self._xi(Z)], axis=0)
        return mean

    def _xi(self, Z: NDArray[np.floating]) -> list[NDArray[np.float32]]:
        outputs = [engine.forward(self.network, params, Z, *self.scaling.place)[1] for params in self.params]
        return [np.clip(xi, low, high) for xi, (low, high) in zip(outputs, self.reach, strict=True)]


@dataclass(frozen=True)
class Trained:
    """Trained quantifiers, what they said of rows they had not seen, and how training went."""

    quantifiers: Quantifiers
    held_out: HeldOut | None
    epochs: NDArray[np.int64]
    history: pd.DataFrame


def learn(settings: Any, Z: NDArray[np.floating], L: Floats, weight: Floats, part: NDArray[np.int64]) -> Trained:
    """Train on rows Z (n, D) with losses L (n, Q) and weights; `part` (n,) tells which rows are held out together."""
    coupling = couplings.get(settings.coupling)
    if recipe.is_auto(settings):
        settings = replace(settings, lam=recipe.GIVEN_LAM)
    rows, weight = weighted_set(Z, L, weight)
    credible = np.minimum(L, [robust.plausible_maximum(losses, weight[rows]) for losses in L[rows].T])
    unit = np.average(credible[rows], axis=0, weights=weight[rows])
    in_units = np.ascontiguousarray(credible / np.where(unit > 0, unit, 1.0), np.float32)
    scales = scaling(Z, credible, rows, weight, settings.scaling)
    frame = as_they_are(L.shape[1])
    data = engine.Data(Z, scales.x_mean, scales.x_scale, in_units, weight, frame, scales.x_clip)
    network = alone(Z.shape[1], L.shape[1], settings)

    def trained(params: Any, lams: Floats, known: NDArray[np.int64]) -> Quantifiers:
        reach_of = [fitting.ends(network, member, data, known) for member in params]
        return Quantifiers(network, coupling, scales, unit, np.stack(params), lams, np.stack(reach_of))

    def compare(left: fitting.LeftOut) -> Floats:
        held = left.rows
        said = trained(left.params, left.lams, np.setdiff1d(rows, held, assume_unique=True))
        blocks = [held[lo : lo + ROWS_AT_A_TIME] for lo in range(0, len(held), ROWS_AT_A_TIME)]
        return np.stack([L[held], np.concatenate([said.expected(Z[block]) for block in blocks])])

    training = fitting.training(settings, network, heads.given, heads.joint(coupling), len(rows))
    make_member = fitting.member_maker(settings, data)
    seeds = fitting.member_seeds(settings.random_state, settings.n_members)
    if settings.epochs is None:
        fit = fitting.cross_validated(training, data, rows, part[rows], seeds, make_member, judges=1)
    else:
        fit = fitting.fixed(training, [make_member(rows, seed, settings.epochs) for seed in seeds])
    history = fitting.history(fit.history, unit)
    held_out = fitting.held_out(fit.left_out, compare)
    return Trained(trained(fit.params, fit.lams, rows), held_out, fit.epochs, history)


def alone(n_inputs: int, n_losses: int, settings: Any) -> engine.Network:
    """A quantifier of the shape that an estimator's settings ask for, without a regressor."""
    return engine.network(
        n_inputs, tuple(settings.hidden), n_outputs=0, n_quantifiers=n_losses, activation=settings.activation
    )


def as_they_are(n_losses: int) -> Floats:
    """The frame of losses that are given: nothing is to be converted."""
    return np.tile([0.0, 1.0, 1.0, 1.0], (n_losses, 1))
