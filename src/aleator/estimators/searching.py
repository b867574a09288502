"""How long to train, and whether noisy regions are given up: steps 1 and 2 of lam="auto" (`automatic.py`)."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import couplings, engine
from aleator.estimators import fitting, recipe
from aleator.estimators.fitting import LeftOut, Rows
from aleator.estimators.task import Task

Floats = NDArray[np.float64]

_OF_ROWS = ("losses", "expected", "weight", "group")
LEAST = 1e-12  # loss, in units of the networks, that is told from none


@dataclass(frozen=True)
class Found:
    """The task as it is to be done, the number of epochs, and ensembles trained so without each fold.

    `curve`: the numbers of epochs that were tried, with their losses.
    """

    task: Task
    epochs: int
    left_out: tuple[LeftOut, ...]
    curve: list[tuple[float, ...]]


def clean_first(settings: Any, task: Task) -> Task | None:
    """The same by members that give noisy regions up; None if with this coupling lam does not matter (`recipe._pace`).

    They have no penalty, for what is left has sharp edges, and calm steps, for noise that shakes them is learned from.
    """
    if not couplings.get(settings.coupling).is_exponential:
        return None
    plan = task.training.plan
    if settings.l2 is None:
        plan = replace(plan, l2=0.0)
    if settings.batch_size is None:
        plan = replace(plan, batch_size=recipe.CALMER * plan.batch_size)
    make_member = fitting.member_maker(settings, task.data, recipe.CLEAN_FIRST)
    return replace(task, training=replace(task.training, plan=plan), make_member=make_member)


def searched(task: Task, giving_up: Task | None, held: list[Rows], kept: list[Rows]) -> Found:
    """The better way of two, if the second proves itself, with the best length."""
    some = _folds_with(held, recipe.JUDGES)  # folds that are enough to search with
    lengths = recipe.lengths(len(task.rows))
    group = np.zeros(len(task.data.Y), np.int64)
    group[task.rows] = task.group
    bar, tick = fitting.progress(task.training.verbose, "choosing the number of epochs", len(lengths) + 2)

    def attempt(way: Task, epochs: int, searchers: int, folds: slice = some) -> _Tried | None:
        tick(1)
        ensembles = way.ensembles(kept[folds], epochs, way.seeds[:searchers])
        try:
            left_out = fitting.trained_without(way.training, way.data, held[folds], ensembles)
        except engine.DivergenceError:  # what diverges is not chosen
            return None
        said = way.judged(left_out)
        losses, expected = said.credible.mean(axis=1), said.predicted.mean(axis=1)
        return _Tried(epochs, left_out, losses, expected, said.weight, group[said.rows])

    def complete(way: Task, chosen: _Tried) -> Found:
        """With all members, without all folds."""
        rest, others = slice(some.stop, None), way.seeds[len(chosen.left_out[0].params) :]
        ensembles = way.ensembles(kept[some], chosen.epochs, others)
        ensembles += way.ensembles(kept[rest], chosen.epochs, way.seeds)
        trained = fitting.trained_without(way.training, way.data, held, ensembles)
        left_out = *map(_together, chosen.left_out, trained), *trained[rest]
        return Found(way, chosen.epochs, left_out, [(each.epochs, each.mean) for each in tried])

    with bar:
        tried = [each for epochs in lengths if (each := attempt(task, epochs, recipe.SEARCHERS))]
        if not tried:
            raise engine.DivergenceError(
                f"training diverged at every length, even in {lengths[0]} epochs. Lower learning_rate, or set clip."
            )
        best = min(tried, key=lambda each: each.mean)
        chosen = [each for each in tried if each is best or not each.worse_than(best)][-1]
        if giving_up and chosen.mean > recipe.HOPELESS * task.of_constant():
            first, epochs = _folds_with(held, recipe.FIRST_JUDGES), recipe.PATIENCE * lengths[-1]
            candidate = attempt(giving_up, epochs, 1, first)
            # Where the first rows leave no hope, it ends here.
            if candidate and candidate.may_be_surer_than(chosen.of_first(len(candidate.losses))):
                if first.stop < some.stop:
                    rest = attempt(giving_up, epochs, 1, slice(first.stop, some.stop))
                    candidate = candidate.and_also(rest) if rest else None
                if candidate and candidate.surer_than(chosen):
                    return complete(giving_up, candidate)
    return complete(task, chosen)


def _folds_with(held: list[Rows], rows: int) -> slice:
    """The first folds that have so many rows, or all."""
    sizes = np.cumsum([len(fold) for fold in held])
    return slice(int(np.argmax(sizes >= min(rows, sizes[-1]))) + 1)


@dataclass(frozen=True)
class _Tried:
    """A length, the ensembles that were trained so long, and what they lost and expected to lose on rows left out (n,).

    These have weights, and some belong to one group.
    """

    epochs: int
    left_out: tuple[LeftOut, ...]
    losses: Floats
    expected: Floats
    weight: Floats
    group: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """The loss, weighted."""
        return float(np.average(self.losses, weights=self.weight))

    def worse_than(self, other: "_Tried") -> bool:
        """Whether the loss is larger by more than the standard error of the difference, row by row."""
        mean, error = self._mean_and_error(self.losses - other.losses)
        return not mean <= error

    def surer_than(self, other: "_Tried") -> bool:
        """Whether clearly less is expected typically, and that beyond doubt."""
        mean, error = self._mean_and_error(self._scores() - other._scores())
        return mean + recipe.BEYOND_DOUBT * error < math.log(recipe.TYPICAL_LOSS)

    def may_be_surer_than(self, other: "_Tried") -> bool:
        """Whether more rows might show that clearly less is expected typically."""
        mean, error = self._mean_and_error(self._scores() - other._scores())
        return not mean - recipe.BEYOND_DOUBT * error > math.log(recipe.TYPICAL_LOSS)

    def and_also(self, other: "_Tried") -> "_Tried":
        """The same for more rows."""
        both = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _OF_ROWS}
        return _Tried(self.epochs, (*self.left_out, *other.left_out), **both)

    def of_first(self, n: int) -> "_Tried":
        """The same for the first `n` of the rows."""
        return _Tried(self.epochs, self.left_out, **{name: getattr(self, name)[:n] for name in _OF_ROWS})

    def _scores(self) -> Floats:
        """L / e + ln e (n,), e the mean loss of rows expected alike, a tenth of all; on average 1 + the mean of ln e.

        Only what can be told in advance counts. Who always says 0 where y is mostly 0 is mostly right, and does not
        know when.
        """
        e = np.empty(len(self.losses))
        for alike in np.array_split(np.argsort(self.expected, kind="stable"), min(10, math.ceil(len(e) / 10))):
            e[alike] = max(np.average(self.losses[alike], weights=self.weight[alike]), LEAST)
        return self.losses / e + np.log(e)

    def _mean_and_error(self, values: Floats) -> tuple[float, float]:
        """The weighted mean of a value a row, and its standard error: groups are independent, their rows are not."""
        mean = float(np.average(values, weights=self.weight))
        groups, member = np.unique(self.group, return_inverse=True)
        if len(groups) == 1:  # nothing is known about others
            return mean, math.inf
        by_group = np.bincount(member, self.weight * (values - mean))
        variance = np.sum(by_group**2) * len(groups) / (len(groups) - 1)
        return mean, float(np.sqrt(variance) / self.weight.sum())


def _together(some: LeftOut, others: LeftOut) -> LeftOut:
    """All members that were trained without the same rows."""
    params, reach = [*some.params, *others.params], [*(some.reach or []), *(others.reach or [])]
    return replace(some, params=params, lams=np.concatenate([some.lams, others.lams]), reach=reach)
