"""How long to train, and whether noisy regions are given up: steps 1 and 2 of lam="auto" (`procedure.py`)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from aleator import couplings, engine
from aleator.array_types import Floats, Integers
from aleator.training import defaults, progress, strategies
from aleator.training.auto.pair_problem import PairProblem
from aleator.training.problem import member_maker
from aleator.training.results import HeldOutPart
from aleator.training.settings import JointSettings

LEAST_LOSS = 1e-12  # in units of the networks; smaller losses count as this


@dataclass(frozen=True)
class SearchResult:
    """The problem that was chosen, the number of epochs, and ensembles trained so long without each fold.

    `curve` has the numbers of epochs that were tried, with their losses.
    """

    pairs: PairProblem
    epochs: int
    held_out: tuple[HeldOutPart, ...]
    curve: list[tuple[float, ...]]


def search_length(pairs: PairProblem, giving_up: PairProblem | None, epochs: int | None = None) -> SearchResult:
    """The best number of epochs, for `giving_up` if that is clearly better on held-out rows; or the one given."""
    problem = pairs.problem
    folds, training_rows = problem.folds()
    searched = _first_folds(folds, defaults.SEARCH_ROWS)
    lengths = defaults.lengths(len(problem.rows)) if epochs is None else [epochs]
    longest = defaults.CLEAN_FIRST_EPOCHS * lengths[-1] if epochs is None else epochs
    group = np.zeros(len(problem.data.Y), np.int64)
    group[problem.rows] = problem.group
    bar, tick = progress.progress_bar(problem.verbose, "choosing the number of epochs", len(lengths) + 2)

    def attempt(tried: PairProblem, epochs: int, members: int, chosen: slice = searched) -> "_Candidate | None":
        tick(1)
        ensembles = tried.problem.ensembles(training_rows[chosen], epochs, tried.problem.seeds[:members])
        try:
            held_out = strategies.trained_without(tried.problem, folds[chosen], ensembles)
        except engine.DivergenceError:  # a length at which training diverges is not chosen
            return None
        found = tried.held_out_losses(held_out)
        losses, expected = found.plausible.mean(axis=1), found.predicted.mean(axis=1)
        return _Candidate(epochs, held_out, losses, expected, found.weight, group[found.rows])

    with bar:
        tried = [each for epochs in lengths if (each := attempt(pairs, epochs, defaults.SEARCH_MEMBERS))]
        if not tried:
            raise engine.DivergenceError(
                f"training diverged at every length, even in {lengths[0]} epochs. Lower learning_rate, or set clip."
            )
        best = min(tried, key=lambda each: each.mean)
        # The longest that is not worse than the best: members of an ensemble may follow the noise, each its own way.
        chosen = [each for each in tried if each is best or not each.worse_than(best)][-1]
        curve: list[tuple[float, ...]] = [(each.epochs, each.mean) for each in tried]
        if giving_up and chosen.mean > defaults.UNEXPLAINED * pairs.constant_loss():
            clean = _clean_first_candidate(attempt, giving_up, chosen, folds, searched, longest)
            if clean is not None:
                return _all_members(giving_up, clean, searched, curve)
    return _all_members(pairs, chosen, searched, curve)


def clean_first(settings: JointSettings, pairs: PairProblem) -> PairProblem | None:
    """The same problem with a lam that is small from the start: noisy regions are given up for the clean ones.

    There is no penalty, because what is left has sharp edges, and steps are calmer, because noise that shakes them is
    learned from. None for couplings with which lam does not matter (`defaults._pace`).
    """
    if not couplings.get(settings.coupling).is_exponential:
        return None
    problem = pairs.problem
    plan = problem.plan
    if settings.l2 is None:
        plan = replace(plan, l2=0.0)
    if settings.batch_size is None:
        plan = replace(plan, batch_size=defaults.CLEAN_FIRST_BATCH * plan.batch_size)
    make_member = member_maker(settings, problem.data, defaults.CLEAN_FIRST)
    return replace(pairs, problem=replace(problem, plan=plan, make_member=make_member))


def _clean_first_candidate(
    attempt: Callable[..., "_Candidate | None"],
    giving_up: PairProblem,
    chosen: "_Candidate",
    folds: list[Integers],
    searched: slice,
    epochs: int,
) -> "_Candidate | None":
    """The candidate that gives noisy regions up; None unless clearly less is then expected of a typical row."""
    first = _first_folds(folds, defaults.FIRST_SEARCH_ROWS)
    candidate = attempt(giving_up, epochs, 1, first)
    # A few rows often show that it cannot be better; then it ends here.
    if candidate is None or not candidate.may_expect_less_than(chosen.first_rows(len(candidate.losses))):
        return None
    if first.stop < searched.stop:
        rest = attempt(giving_up, epochs, 1, slice(first.stop, searched.stop))
        if rest is None:
            return None
        candidate = candidate.with_rows_of(rest)
    return candidate if candidate.expects_less_than(chosen) else None


def _all_members(
    pairs: PairProblem, chosen: "_Candidate", searched: slice, curve: list[tuple[float, ...]]
) -> SearchResult:
    """The chosen candidate with all members, without each of all folds."""
    problem = pairs.problem
    folds, training_rows = problem.folds()
    rest, missing = slice(searched.stop, None), problem.seeds[len(chosen.held_out[0].params) :]
    ensembles = problem.ensembles(training_rows[searched], chosen.epochs, missing)
    ensembles += problem.ensembles(training_rows[rest], chosen.epochs, problem.seeds)
    trained = strategies.trained_without(problem, folds, ensembles)
    held_out = *map(_all_members_of, chosen.held_out, trained), *trained[rest]
    return SearchResult(pairs, chosen.epochs, held_out, curve)


def _all_members_of(part: HeldOutPart, others: HeldOutPart) -> HeldOutPart:
    """The members of two parts that hold out the same rows."""
    params, ranges = [*part.params, *others.params], [*(part.xi_ranges or []), *(others.xi_ranges or [])]
    return replace(part, params=params, lams=np.concatenate([part.lams, others.lams]), xi_ranges=ranges)


def _first_folds(folds: list[Integers], n_rows: int) -> slice:
    """The first folds that have so many rows together, or all folds."""
    sizes = np.cumsum([len(fold) for fold in folds])
    return slice(int(np.argmax(sizes >= min(n_rows, sizes[-1]))) + 1)


@dataclass(frozen=True)
class _Candidate:
    """Ensembles trained for so many epochs, with realised and expected losses (n,) of the rows held out of them.

    Rows have weights, and belong to groups.
    """

    epochs: int
    held_out: tuple[HeldOutPart, ...]
    losses: Floats
    expected: Floats
    weight: Floats
    group: Integers

    @property
    def mean(self) -> float:
        """The weighted mean loss."""
        return float(np.average(self.losses, weights=self.weight))

    def worse_than(self, other: "_Candidate") -> bool:
        """Whether the mean loss is larger by more than the standard error of the difference, row by row."""
        mean, error = self._mean_and_error(self.losses - other.losses)
        return not mean <= error

    def expects_less_than(self, other: "_Candidate") -> bool:
        """Whether clearly less is expected of a typical row, by some standard errors."""
        mean, error = self._mean_and_error(self._scores() - other._scores())
        return mean + defaults.STANDARD_ERRORS * error < math.log(defaults.TYPICAL_LOSS)

    def may_expect_less_than(self, other: "_Candidate") -> bool:
        """Whether more rows might show that clearly less is expected of a typical row."""
        mean, error = self._mean_and_error(self._scores() - other._scores())
        return not mean - defaults.STANDARD_ERRORS * error > math.log(defaults.TYPICAL_LOSS)

    def with_rows_of(self, other: "_Candidate") -> "_Candidate":
        """The same for the rows of both."""
        arrays = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _ROW_ARRAYS}
        return _Candidate(self.epochs, (*self.held_out, *other.held_out), **arrays)

    def first_rows(self, n: int) -> "_Candidate":
        """The same for the first `n` of the rows."""
        return _Candidate(self.epochs, self.held_out, **{name: getattr(self, name)[:n] for name in _ROW_ARRAYS})

    def _scores(self) -> Floats:
        """L / e + ln e (n,), e the mean loss of the tenth of rows with about the same expected loss.

        On average it is 1 + the mean of ln e. Only what can be known in advance counts: a constant prediction of 0
        where y is mostly 0 is mostly right, and does not know when.
        """
        e = np.empty(len(self.losses))
        n_groups = min(10, math.ceil(len(e) / 10))
        for tenth in np.array_split(np.argsort(self.expected, kind="stable"), n_groups):
            e[tenth] = max(np.average(self.losses[tenth], weights=self.weight[tenth]), LEAST_LOSS)
        return self.losses / e + np.log(e)

    def _mean_and_error(self, values: Floats) -> tuple[float, float]:
        """The weighted mean of a value for each row, and its standard error; only groups are independent."""
        mean = float(np.average(values, weights=self.weight))
        groups, member = np.unique(self.group, return_inverse=True)
        if len(groups) == 1:  # nothing is known about other groups
            return mean, math.inf
        by_group = np.bincount(member, self.weight * (values - mean))
        variance = np.sum(by_group**2) * len(groups) / (len(groups) - 1)
        return mean, float(np.sqrt(variance) / self.weight.sum())


_ROW_ARRAYS = ("losses", "expected", "weight", "group")
