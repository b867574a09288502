"""What a fold more is worth: step 4 of lam="auto" (`automatic.py`).

Rows left out tell the scale of an ensemble that lacks their fold; the one that answers lacks none. So all is done once
more a fold further in, where the truth is known: with ensembles that lack two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aleator import engine
from aleator.estimators import fitting, recipe
from aleator.estimators.alone import Alone
from aleator.estimators.fitting import LeftOut, Rows
from aleator.estimators.task import Task

Floats = NDArray[np.float64]

NO_GAIN = np.ones(1)


@dataclass(frozen=True)
class Further:
    """A few members of ensembles that lack one fold of those `held` out, and that lack two, by the folds' numbers.

    If there are only two folds, or training diverged, `twice` is empty, and nothing is known of a gain.
    """

    task: Task
    held: list[Rows]
    once: Sequence[LeftOut]
    twice: dict[tuple[int, int], LeftOut]

    def beside(self) -> Floats:
        """Of quantifiers beside their regressors (Q,): their scale without a fold, over that without two."""
        if not self.twice:
            return NO_GAIN
        once, twice = self.task.judged(self.once), self.task.judged(tuple(self.twice.values()))
        return share(once.ratio, twice.ratio, len(self.held))

    def anew(self, alone: Alone, epochs: int) -> Floats:
        """Of quantifiers that learned from rows left out (Q,): what they expect of rows the losses knew of, or not.

        They are asked about a fold they have not seen. But the losses of other folds, which they learned, are those of
        regressors that had seen it, and had learned from it how to predict its neighbours. A new row is no such help:
        that is what losses by ensembles without both folds tell.
        """
        if not self.twice:
            return NO_GAIN
        task, folds = self.task, len(self.held)
        untold = [task.by_row(task.judged(self.partners(a))) for a in range(folds)]
        known = [task.rows[~np.isnan(losses[task.rows, 0])] for losses in untold] * 2
        lessons = [alone.data(task.by_row(task.judged(self.once)))] * folds + [alone.data(each) for each in untold]
        learned = [lesson for lesson in lessons if lesson]
        if len(learned) < len(lessons):
            return NO_GAIN
        ensembles = []
        for (data, _), rows in zip(learned, known, strict=True):
            make_member = fitting.member_maker(alone.settings, data)
            seeds = task.seeds[: recipe.SEARCHERS]
            ensembles.append([fitting.cooled(make_member, rows, seed, epochs) for seed in seeds])
        try:
            asked = fitting.trained_without(alone.training, task.data, self.held * 2, ensembles)
        except engine.DivergenceError:
            return NO_GAIN
        said = [alone.expected(part, mean, rows) for part, (_, mean), rows in zip(asked, learned, known, strict=True)]
        return share(np.sum(said[:folds], axis=0), np.sum(said[folds:], axis=0), folds)

    def partners(self, a: int) -> list[LeftOut]:
        """The folds that are left out together with number `a`, with members that have seen neither."""
        pairs = [(pair, part) for pair, part in self.twice.items() if a in pair]
        return [replace(part, rows=self.held[j if i == a else i]) for (i, j), part in pairs]


def further_in(task: Task, held: list[Rows], left_out: Sequence[LeftOut], epochs: int) -> Further:
    """A few of the members without each fold, and as many trained without each fold and one of its partners."""
    folds, few = len(held), recipe.SEARCHERS
    once = [_first(part, few) for part in left_out]
    unknown = Further(task, held, once, {})
    if folds == 2:
        return unknown
    steps = range(1, recipe.PARTNERS + 1)
    pairs = sorted({(min(a, b), max(a, b)) for a in range(folds) for b in ((a + step) % folds for step in steps)})
    both = [np.concatenate([held[a], held[b]]) for a, b in pairs]
    kept = [task.rows[~np.isin(task.rows, rows)] for rows in both]
    ensembles = task.ensembles(kept, epochs, task.seeds[:few])
    try:
        trained = fitting.trained_without(task.training, task.data, both, ensembles)
    except engine.DivergenceError:
        return unknown
    return replace(unknown, twice=dict(zip(pairs, trained, strict=True)))


def _first(part: LeftOut, members: int) -> LeftOut:
    reach = part.reach[:members] if part.reach else None
    return replace(part, params=part.params[:members], lams=part.lams[:members], reach=reach)


def share(once: Floats, twice: Floats, folds: int) -> Floats:
    """What is left of a value with a fold more, K in place of K - 1, if it falls like n^-alpha; never above 1.

    From K - 2 folds to K - 1 it is once / twice.
    """
    power = math.log(1 - 1 / folds) / math.log(1 - 1 / (folds - 1))
    usable = (once > 0) & (twice > 0) & np.isfinite(once) & np.isfinite(twice)
    ratio = np.divide(once, twice, out=np.ones_like(once), where=usable)
    left: Floats = np.clip(ratio**power, recipe.LEAST_GAIN, 1.0)
    return left
