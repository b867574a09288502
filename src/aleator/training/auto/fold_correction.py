"""What one more fold of training rows is worth: step 4 of lam="auto" (`procedure.py`).

Held-out rows give the scale of ensembles trained without one fold; the final ensemble is trained on all folds. So
ensembles are also trained without two folds, and the change from two missing folds to one is extrapolated to none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aleator import engine
from aleator.array_types import Floats, Rows
from aleator.training import defaults, strategies
from aleator.training.auto.pair_problem import PairProblem
from aleator.training.auto.quantifier_refit import QuantifierRefit
from aleator.training.fold_share import extrapolated_share
from aleator.training.results import HeldOutPart

NO_CORRECTION = np.ones(1)


@dataclass(frozen=True)
class NestedFolds:
    """Ensembles of a few members: `single` lack one of the `folds`, `double` lack two, by the folds' numbers.

    `double` is empty if there are only two folds or training diverged; then nothing is corrected.
    """

    pairs: PairProblem
    folds: list[Rows]
    single: Sequence[HeldOutPart]
    double: dict[tuple[int, int], HeldOutPart]

    def loss_share(self) -> Floats:
        """For quantifiers trained with their regressors: what is left (Q,) of the losses with one more fold."""
        if not self.double:
            return NO_CORRECTION
        single = self.pairs.held_out_losses(self.single)
        double = self.pairs.held_out_losses(tuple(self.double.values()))
        return extrapolated_share(single.ratio, double.ratio, len(self.folds))

    def quantifier_share(self, refit: QuantifierRefit, epochs: int) -> Floats:
        """For refitted quantifiers: what they predict for a fold (Q,), as a share of what they should predict.

        The quantifiers have not seen the fold they predict. But the losses of other folds, from which they learned, are
        those of regressors that had seen it, and predict its neighbours better for that. A new row gives no such help;
        losses of ensembles that lack both folds show the difference.
        """
        if not self.double:
            return NO_CORRECTION
        pairs, n_folds = self.pairs, len(self.folds)
        rows = pairs.problem.rows
        without_fold = [pairs.by_row(pairs.held_out_losses(self.partners(a))) for a in range(n_folds)]
        known = [rows[~np.isnan(losses[rows, 0])] for losses in without_fold] * 2
        with_fold = refit.problem(pairs.by_row(pairs.held_out_losses(self.single)))
        found = [with_fold] * n_folds + [refit.problem(losses) for losses in without_fold]
        problems = [each for each in found if each is not None]
        if len(problems) < len(found):
            return NO_CORRECTION
        seeds = pairs.problem.seeds[: defaults.SEARCH_MEMBERS]
        ensembles = [
            [strategies.with_cooldown(problem.make_member, own, seed, epochs) for seed in seeds]
            for (problem, _), own in zip(problems, known, strict=True)
        ]
        shared = replace(problems[0][0], data=pairs.problem.data)
        try:
            parts = strategies.trained_without(shared, self.folds * 2, ensembles)
        except engine.DivergenceError:
            return NO_CORRECTION
        expected = [
            refit.expected_sum(part, mean, own) for part, (_, mean), own in zip(parts, problems, known, strict=True)
        ]
        return extrapolated_share(np.sum(expected[:n_folds], axis=0), np.sum(expected[n_folds:], axis=0), n_folds)

    def partners(self, a: int) -> list[HeldOutPart]:
        """The folds that are held out together with fold `a`, with members that have seen neither."""
        pairs = [(pair, part) for pair, part in self.double.items() if a in pair]
        return [replace(part, rows=self.folds[j if i == a else i]) for (i, j), part in pairs]


def nested_folds(pairs: PairProblem, folds: list[Rows], held_out: Sequence[HeldOutPart], epochs: int) -> NestedFolds:
    """A few of the members without each fold, and as many trained without each fold and one of its partners."""
    n_folds, few = len(folds), defaults.SEARCH_MEMBERS
    single = [_first_members(part, few) for part in held_out]
    unknown = NestedFolds(pairs, folds, single, {})
    if n_folds == 2:
        return unknown
    steps = range(1, defaults.PARTNER_FOLDS + 1)
    numbers = sorted({(min(a, b), max(a, b)) for a in range(n_folds) for b in ((a + step) % n_folds for step in steps)})
    both = [np.concatenate([folds[a], folds[b]]) for a, b in numbers]
    problem = pairs.problem
    training_rows = [problem.rows[~np.isin(problem.rows, rows)] for rows in both]
    ensembles = problem.ensembles(training_rows, epochs, problem.seeds[:few])
    try:
        trained = strategies.trained_without(problem, both, ensembles)
    except engine.DivergenceError:
        return unknown
    return replace(unknown, double=dict(zip(numbers, trained, strict=True)))


def _first_members(part: HeldOutPart, members: int) -> HeldOutPart:
    ranges = part.xi_ranges[:members] if part.xi_ranges else None
    return replace(part, params=part.params[:members], lams=part.lams[:members], xi_ranges=ranges)
