"""Quantifiers that learn given losses, without a regressor beside them (sec. 9 of the paper).

The regressor is there already, of any kind. For each row there is what the quantifier sees of it, Z, and its loss, L,
from a regressor that was not trained on it. The joint loss L f(z) + lam g(z) is minimised over the quantifier alone,
and the expected loss is -lam g'(z) / f'(z), averaged over the members.

Losses are divided by their mean (`given_losses.py`), so lam is in units of the mean loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from aleator import couplings, engine, objectives
from aleator.array_types import AnyFloats, Floats, Floats32, Integers, Rows
from aleator.compiled_functions import mapped
from aleator.couplings import Coupling
from aleator.preprocessing.standardisation import ROWS_PER_BLOCK, Scaling
from aleator.training import defaults, strategies
from aleator.training.given_losses import GivenLosses
from aleator.training.held_out import HeldOutLosses, held_out_losses
from aleator.training.history import in_units
from aleator.training.problem import member_seeds, problem
from aleator.training.results import HeldOutPart
from aleator.training.settings import QuantifierSettings, TrainingSettings, lam_is_auto
from aleator.training.xi_range import xi_range


@dataclass(frozen=True)
class LossNetworks:
    """K trained members: parameters (K, P), lams (K,), and the range of xi (K, 2, Q) on their training rows.

    xi is clipped to that range on new rows, so that no loss is expected that was not seen.
    """

    network: engine.Network
    coupling: Coupling
    scaling: Scaling
    unit: Floats  # (Q,)
    params: Floats32
    lams: Floats
    xi_ranges: Floats32

    def expected_loss(self, Z: AnyFloats) -> Floats:
        """The expected loss (n, Q) of rows as the quantifier sees them, in the units of the loss."""
        total = np.zeros((len(Z), len(self.unit)))
        for xi, lam in zip(self._xi(Z), self.lams, strict=True):
            total += self.coupling.expected_loss(xi, lam)
        return self.unit * total / len(self.params)

    def weights(self, Z: AnyFloats) -> Floats:
        """f(z) (n, Q): the weight of each row's loss in the joint loss L f(z) + lam g(z)."""
        mean: Floats = np.mean([mapped(self.coupling.f, xi) for xi in self._xi(Z)], axis=0)
        return mean

    def _xi(self, Z: AnyFloats) -> list[Floats32]:
        outputs = [engine.forward(self.network, params, Z, *self.scaling.to_inputs)[1] for params in self.params]
        return [np.clip(xi, low, high) for xi, (low, high) in zip(outputs, self.xi_ranges, strict=True)]


@dataclass(frozen=True)
class LossNetworkResult:
    """Trained members, their losses on held-out rows, and how training went."""

    networks: LossNetworks
    held_out: HeldOutLosses | None
    epochs: Integers
    history: pd.DataFrame


def fit_loss_networks(settings: QuantifierSettings, given: GivenLosses) -> LossNetworkResult:
    """Train on given losses; rows of one fold are held out together."""
    coupling = couplings.get(settings.coupling)
    if lam_is_auto(settings):
        settings = replace(settings, lam=defaults.GIVEN_LAM)  # type: ignore[type-var]
    Z, L, rows, weight, unit = given.Z, given.L, given.rows, given.weight, given.unit
    in_mean_losses = np.ascontiguousarray(given.in_units(), np.float32)
    scaling = given.scaling(settings.scaling)
    frame = identity_frame(L.shape[1])
    data = engine.Data(Z, scaling.x_mean, scaling.x_scale, in_mean_losses, weight, frame, scaling.x_clip)
    network = quantifier_network(Z.shape[1], L.shape[1], settings)

    def networks(params: Sequence[Floats32], lams: Floats, training_rows: Rows) -> LossNetworks:
        ranges = [xi_range(network, member, data, training_rows) for member in params]
        return LossNetworks(network, coupling, scaling, unit, np.stack(params), lams, np.stack(ranges))

    def compare(part: HeldOutPart) -> Floats:
        fitted = networks(part.params, part.lams, np.setdiff1d(rows, part.rows, assume_unique=True))
        blocks = [part.rows[lo : lo + ROWS_PER_BLOCK] for lo in range(0, len(part.rows), ROWS_PER_BLOCK)]
        return np.stack([L[part.rows], np.concatenate([fitted.expected_loss(Z[block]) for block in blocks])])

    seeds = member_seeds(settings.random_state, settings.n_members)
    task = problem(settings, network, objectives.given, objectives.joint(coupling), data, rows, given.fold[rows], seeds)
    if settings.epochs is None:
        result = strategies.cross_validated(task, judging_members=1)
    elif settings.rescale:
        result = strategies.given_length(task, settings.epochs, judging_members=1)
    else:
        result = strategies.fixed(task, task.members(settings.epochs))
    held_out = held_out_losses(result.held_out, compare)
    final = networks(list(result.params), result.lams, rows)
    return LossNetworkResult(final, held_out, result.epochs, in_units(result.history, unit))


def quantifier_network(n_inputs: int, n_losses: int, settings: TrainingSettings) -> engine.Network:
    """A quantifier without a regressor, of the shape that an estimator's settings describe."""
    return engine.network(
        n_inputs, tuple(settings.hidden), n_outputs=0, n_quantifiers=n_losses, activation=settings.activation
    )


def identity_frame(n_losses: int) -> Floats:
    """The frame of given losses: nothing is converted."""
    return np.tile([0.0, 1.0, 1.0, 1.0], (n_losses, 1))
