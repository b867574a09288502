"""Quantifiers that learn the losses of held-out rows: step 3 of lam="auto" (`procedure.py`).

They have the shape of a pair's own quantifiers, and can take their place.
"""

from dataclasses import dataclass, replace

import numpy as np

from aleator import engine, objectives
from aleator.array_types import Floats, Floats32, Rows
from aleator.couplings import Coupling
from aleator.preprocessing.standardisation import ROWS_PER_BLOCK
from aleator.training import defaults, loss_network
from aleator.training.auto.pair_problem import PairProblem
from aleator.training.problem import Problem, problem
from aleator.training.results import HeldOutPart
from aleator.training.settings import JointSettings, Lam, NetworkSettings, Schedule
from aleator.training.xi_range import xi_range


@dataclass(kw_only=True)
class RefitSettings(NetworkSettings):
    """The training of quantifiers that learn given losses."""

    coupling: str | Coupling
    lam: Lam = defaults.GIVEN_LAM
    learning_rate: Schedule = defaults.GIVEN_RATE
    l2: float = defaults.GIVEN_L2


@dataclass(frozen=True)
class QuantifierRefit:
    """How the quantifiers of a pair are trained on given losses."""

    pairs: PairProblem
    settings: RefitSettings
    network: engine.Network

    def problem(self, losses: Floats) -> tuple[Problem, float] | None:
        """The problem of learning losses (n, Q), NaN where unknown, and their mean, which is the unit.

        None if nothing can be learned: all losses are zero, or one is too large for the numbers of the networks.
        """
        pairs = self.pairs.problem
        rows = pairs.rows  # in this order, sums do not depend on the order of the table
        known = rows[~np.isnan(losses[rows, 0])]
        mean = float(np.average(losses[known].mean(axis=1), weights=pairs.data.weight[known]))
        if not 0 < mean < np.inf or losses[known].max() / mean > np.finfo(np.float32).max:
            return None
        Y = np.zeros(losses.shape, np.float32)
        Y[known] = losses[known] / mean
        data = replace(pairs.data, Y=Y, frame=loss_network.identity_frame(losses.shape[1]))
        objective = self.pairs.readout.objective
        new = problem(
            self.settings, self.network, objectives.given, objective, data, rows, pairs.fold, pairs.seeds, pairs.group
        )
        return new, mean

    def expected_sum(self, part: HeldOutPart, mean: float, known: Rows) -> Floats:
        """The sum (Q,) of the losses that all members expect of held-out rows, where `mean` is their unit.

        xi is clipped to its range on the rows the members know.
        """
        data, rows = part.data, part.rows
        expected_loss, total = self.pairs.readout.objective.expected_loss, np.zeros(self.network.n_quantifiers)
        assert expected_loss is not None
        for params, lam in zip(part.params, part.lams, strict=True):
            low, high = xi_range(self.network, params, data, known)
            for lo in range(0, len(rows), ROWS_PER_BLOCK):
                block = rows[lo : lo + ROWS_PER_BLOCK]
                xi = engine.forward(self.network, params, data.X[block], data.shift, data.scale, data.clip)[1]
                total += mean * (data.weight[block] @ expected_loss(np.clip(xi, low, high), lam))
        return total

    def with_quantifier(self, pair: Floats32, quantifier: Floats32) -> Floats32:
        """The parameters of a pair, with those of a quantifier in place of its own."""
        params = pair.copy()
        pair_network = self.pairs.problem.plan.network
        for own, other in zip(pair_network.quantifier, self.network.matrices, strict=True):
            own.of(params)[:] = other.of(quantifier)
            own.bias_of(params)[:] = other.bias_of(quantifier)
        return params


def quantifier_refit(settings: JointSettings, pairs: PairProblem) -> QuantifierRefit:
    """Quantifiers of the shape that an estimator's settings describe."""
    refit = RefitSettings(
        hidden=settings.hidden,
        activation=settings.activation,
        coupling=settings.coupling,
        n_jobs=settings.n_jobs,
        verbose=settings.verbose,
    )
    pair = pairs.problem.plan.network
    return QuantifierRefit(pairs, refit, loss_network.quantifier_network(pair.n_inputs, pair.n_quantifiers, refit))
