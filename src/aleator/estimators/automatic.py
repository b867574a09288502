"""Fit a pair, or an ensemble of pairs, without anything to tune: lam="auto" with epochs=None.

1. **Length.** Ensembles are trained without a fold of the rows, for rising numbers of epochs; the longest is taken
   whose loss on the rows left out is within a standard error of the best: members of an ensemble may follow the noise,
   each its own way. Each is a training of its own: lam and rate fall over its length. All lengths are tried, for a
   loss that rises may fall again.
2. **Giving up.** The longest is tried with lam small from the start: what is noisy is then given up for the sake of
   what is clean. It is taken if clearly less is then expected typically, as a geometric mean over the rows left out.
3. **Quantifiers anew.** On its own rows a regressor's losses are too small, most where it could follow the noise, and a
   quantifier trained beside it says so. The regressors stay; the quantifiers learn again, from the losses on rows left
   out (sec. 9 of the paper), and take the place of the others if they are better on rows left out once more.
4. **Gain.** Rows left out tell the scale of ensembles that lack a fold, and the one that answers lacks none. What a
   fold more is worth is seen a fold further in: with ensembles that lack two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import engine, heads
from aleator.estimators import fitting, quantifiers, recipe
from aleator.estimators.fitting import Fit, HeldOut, LeftOut, MakeMember, Rows, Training
from aleator.estimators.prediction import Readout
from aleator.estimators.settings import NetworkSettings, Schedule
from aleator.estimators.table import ROWS_AT_A_TIME

Floats = NDArray[np.float64]

LEAST = 1e-12  # loss, in units of the networks, that is told from none
WITHIN = 100.0  # a quantifier whose scale is wrong by more than this factor went astray
_CURVE = ["epoch", "cv_loss"]


@dataclass(frozen=True)
class Task:
    """What is to be learned: `rows` of `data`, each in a `fold` and a `group`, by members made from seeds.

    `read` says how the members' outputs are read.
    """

    training: Training
    read: Readout
    data: engine.Data
    rows: Rows
    fold: NDArray[np.int64]
    group: NDArray[np.int64]
    seeds: list[int]
    make_member: MakeMember

    def ensembles(self, kept: Sequence[Rows], epochs: int, seeds: Sequence[int]) -> list[list[engine.Member]]:
        """Members for each of these sets of rows."""
        return [[self.make_member(own, seed, epochs) for seed in seeds] for own in kept]

    def judged(self, left_out: Sequence[LeftOut]) -> HeldOut:
        """What was said of rows left out, and what was true, in the units of the networks."""
        held_out = fitting.held_out(left_out, self.read.compare)
        assert held_out is not None
        unit = np.where(self.read.units.unit > 0, self.read.units.unit, 1.0)  # 1 for a target that never varies
        return replace(held_out, realised=held_out.realised / unit, predicted=held_out.predicted / unit)


def learn(settings: Any, task: Task, watched: engine.Data | None) -> Fit:
    """All four steps, for the network and number of threads that an estimator's settings ask for."""
    held, kept = fitting.parts(task.rows, task.fold)
    if len(held) == 1:  # nothing would be left to learn from
        members = [task.make_member(task.rows, seed, recipe.FEWEST) for seed in task.seeds]
        return fitting.fixed(task.training, members, watched)
    done, epochs, left_out, curve = _searched(task, _clean_first(settings, task), held, kept)
    members = [done.make_member(task.rows, seed, epochs) for seed in task.seeds]
    fit = fitting.fixed(done.training, members, watched)
    history = [fitting.joined(table, curve, _CURVE) for table in fit.history]
    fit = replace(fit, history=history, left_out=left_out, gave_up=done is not task)
    return _quantified(settings, done, fit, held)


# ---------------------------------------------------------------- length, and giving up


def _clean_first(settings: Any, task: Task) -> Task:
    """The same by members that give noisy regions up.

    They have no penalty, for what is left has sharp edges, and calm steps, for noise that shakes them is learned from.
    """
    plan = task.training.plan
    if settings.l2 is None:
        plan = replace(plan, l2=0.0)
    if settings.batch_size is None:
        plan = replace(plan, batch_size=recipe.CALMER * plan.batch_size)
    make_member = fitting.member_maker(settings, task.data, recipe.CLEAN_FIRST)
    return replace(task, training=replace(task.training, plan=plan), make_member=make_member)


def _searched(
    task: Task, clean_first: Task, held: list[Rows], kept: list[Rows]
) -> tuple[Task, int, tuple[LeftOut, ...], list[tuple[float, ...]]]:
    """The task as it is to be done, the number of epochs, and ensembles trained so without each fold.

    Last, the numbers of epochs that were tried, with their losses.
    """
    enough = np.cumsum([len(rows) for rows in held]) >= recipe.JUDGES
    some = slice(int(np.argmax(enough)) + 1 if enough.any() else len(held))  # folds that are enough to search with
    lengths = recipe.lengths(len(task.rows))
    group = np.zeros(len(task.data.Y), np.int64)
    group[task.rows] = task.group
    bar, tick = fitting.progress(task.training.verbose, "choosing the number of epochs", len(lengths) + 1)

    def attempt(way: Task, epochs: int, searchers: int) -> _Tried | None:
        tick(1)
        ensembles = way.ensembles(kept[some], epochs, way.seeds[:searchers])
        try:
            left_out = fitting.trained_without(way.training, way.data, held[some], ensembles)
        except engine.DivergenceError:  # what diverges is not chosen
            return None
        said = way.judged(left_out)
        losses, expected = said.realised.mean(axis=1), said.predicted.mean(axis=1)
        return _Tried(epochs, left_out, losses, expected, said.weight, group[said.rows])

    with bar:
        tried = [each for epochs in lengths if (each := attempt(task, epochs, recipe.SEARCHERS))]
        giving_up = attempt(clean_first, recipe.PATIENCE * lengths[-1], 1)
    if not tried:
        raise engine.DivergenceError(
            f"training diverged at every length, even in {lengths[0]} epochs. Lower learning_rate, or set clip."
        )
    best = min(tried, key=lambda each: each.mean)
    chosen = [each for each in tried if each is best or not each.worse_than(best)][-1]
    if giving_up and giving_up.surer_than(chosen):
        task, chosen = clean_first, giving_up
    epochs, rest, others = chosen.epochs, slice(some.stop, None), task.seeds[len(chosen.left_out[0].params) :]
    ensembles = task.ensembles(kept[some], epochs, others) + task.ensembles(kept[rest], epochs, task.seeds)
    trained = fitting.trained_without(task.training, task.data, held, ensembles)
    left_out = *map(_together, chosen.left_out, trained), *trained[rest]
    return task, epochs, left_out, [(each.epochs, each.mean) for each in tried]


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
    params = [*some.params, *others.params]
    return replace(some, params=params, lams=np.concatenate([some.lams, others.lams]))


# ---------------------------------------------------------------- quantifiers


@dataclass(kw_only=True)
class Given(NetworkSettings):
    """The training of quantifiers that learn given losses."""

    coupling: Any
    lam: float = recipe.GIVEN_LAM
    learning_rate: Schedule = recipe.GIVEN_RATE
    l2: float = recipe.GIVEN_L2


@dataclass(frozen=True)
class _Alone:
    """Quantifiers of a task, without their regressors, that learn given losses."""

    task: Task
    settings: Given
    network: engine.Network
    training: Training

    def data(self, losses: Floats) -> tuple[engine.Data, float]:
        """Rows with their losses (n, Q), in units of the mean of those that are known, and that mean."""
        rows = self.task.rows  # in this order, sums do not depend on that of the table
        known = rows[~np.isnan(losses[rows, 0])]
        mean = float(np.average(losses[known].mean(axis=1), weights=self.task.data.weight[known]))
        Y = np.zeros(losses.shape, np.float32)
        Y[known] = losses[known] / (mean or 1.0)
        return replace(self.task.data, Y=Y, frame=quantifiers.as_they_are(losses.shape[1])), mean

    def expected(self, left_out: LeftOut, mean: float, known: Rows) -> Floats:
        """What they expect of rows left out, in all (Q,), in units of `mean`; never more than of any `known` row."""
        data, rows = left_out.data, left_out.rows
        expected_loss, total = self.training.plan.head.expected_loss, np.zeros(self.network.n_quantifiers)
        assert expected_loss is not None
        for params, lam in zip(left_out.params, left_out.lams, strict=True):
            low, high = quantifiers.reach(self.network, params, data, known)
            for lo in range(0, len(rows), ROWS_AT_A_TIME):
                block = rows[lo : lo + ROWS_AT_A_TIME]
                xi = engine.forward(self.network, params, data.X[block], data.shift, data.scale)[1]
                total += mean * (data.weight[block] @ expected_loss(np.clip(xi, low, high), lam))
        return total


def _quantified(settings: Any, task: Task, fit: Fit, held: list[Rows]) -> Fit:
    """The same regressors, with the better ones of two kinds of quantifiers, and the gain that goes with these."""
    own = task.judged(fit.left_out)
    twice = _left_out_twice(task, held, int(fit.epochs[0])) if settings.rescale else {}
    judges = tuple(_first(part, recipe.SEARCHERS) for part in fit.left_out)
    kept = replace(fit, gain=_gain_beside(task, judges, twice))
    mean = float(np.average(own.realised.mean(axis=1), weights=own.weight))
    if settings.shared_layers or not 0 < mean < np.inf:  # what is shared is the regressor's, and stays
        return kept
    given = Given(
        hidden=settings.hidden,
        activation=settings.activation,
        coupling=settings.coupling,
        n_jobs=settings.n_jobs,
        verbose=settings.verbose,
    )
    network = quantifiers.alone(task.training.plan.network.n_inputs, own.realised.shape[1], given)
    training = fitting.training(given, network, heads.given, task.read.head, len(task.rows))
    alone = _Alone(task, given, network, training)
    data, unit = alone.data(_by_row(task, own))
    make_member = fitting.member_maker(given, data)
    learned = fitting.cross_validated(training, data, task.rows, task.fold, task.seeds, make_member)

    def paired(pairs: Any, others: Any) -> list[NDArray[np.float32]]:
        return [_paired(task.training.plan.network, network, *both) for both in zip(pairs, others, strict=True)]

    left_out = tuple(
        replace(pairs, params=paired(pairs.params, others.params), lams=unit * others.lams)
        for pairs, others in zip(fit.left_out, learned.left_out, strict=True)
    )
    anew = task.judged(left_out)
    astray = anew.is_near(WITHIN) and not own.is_near(WITHIN)
    if not (anew.score < own.score or astray):
        return kept
    gain = _gain_anew(alone, held, judges, twice, int(learned.epochs[0]), left_out)
    params = np.stack(paired(fit.params, learned.params))
    return replace(fit, params=params, lams=unit * learned.lams, left_out=left_out, gain=gain)


def _paired(
    network: engine.Network, alone: engine.Network, pair: NDArray[np.float32], quantifier: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The parameters of a pair, with those of a quantifier in place of its own."""
    params = pair.copy()
    for own, other in zip(network.quantifier, alone.matrices, strict=True):
        own.of(params)[:] = other.of(quantifier)
        own.bias_of(params)[:] = other.bias_of(quantifier)
    return params


def _by_row(task: Task, said: HeldOut) -> Floats:
    """The realised losses (n, Q) in the order of the data, NaN for rows that were not left out."""
    losses = np.full((len(task.data.Y), said.realised.shape[1]), np.nan)
    losses[said.rows] = said.realised
    return losses


# ---------------------------------------------------------------- gain

Twice = dict[tuple[int, int], LeftOut]  # ensembles that are trained without pairs of folds
NO_GAIN = np.ones(1)


def _left_out_twice(task: Task, held: list[Rows], epochs: int) -> Twice:
    """A few members without each fold and one of its partners; none if there are two folds, or if one diverges."""
    folds = len(held)
    if folds == 2:
        return {}
    steps = range(1, max(1, round(recipe.PARTNERS * folds)) + 1)
    pairs = sorted({tuple(sorted((a, (a + step) % folds))) for a in range(folds) for step in steps})
    both = [np.concatenate([held[a], held[b]]) for a, b in pairs]
    kept = [task.rows[~np.isin(task.rows, rows)] for rows in both]
    try:
        ensembles = task.ensembles(kept, epochs, task.seeds[: recipe.SEARCHERS])
        trained = fitting.trained_without(task.training, task.data, both, ensembles)
    except engine.DivergenceError:
        return {}
    return {(a, b): part for (a, b), part in zip(pairs, trained, strict=True)}


def _gain_beside(task: Task, once: Sequence[LeftOut], twice: Twice) -> Floats:
    """Of quantifiers beside their regressors (Q,): their scale without a fold, over that without two."""
    if not twice:
        return NO_GAIN
    return _gain(task.judged(once).ratio, task.judged(tuple(twice.values())).ratio, len(once))


def _gain_anew(
    alone: _Alone,
    held: list[Rows],
    once: Sequence[LeftOut],
    twice: Twice,
    epochs: int,
    left_out: Sequence[LeftOut],
) -> Floats:
    """Of quantifiers that learned from rows left out (Q,): what they expect of rows that those losses knew of, or not.

    They are asked about a fold they have not seen. But the losses of other folds, which they learned, are those of
    regressors that had seen it, and had learned from it how to predict its neighbours. A new row is no such help: that
    is what losses by ensembles without both folds tell. It is what `left_out` says that is judged anew: the members'
    spread, the other part of it, is that of members that have not seen the row, and stays.
    """
    if not twice:
        return NO_GAIN
    task, folds = alone.task, len(held)
    untold = [_by_row(task, task.judged(_partners(held, twice, a))) for a in range(folds)]
    learned = [alone.data(_by_row(task, task.judged(once)))] * folds + [alone.data(losses) for losses in untold]
    known = [task.rows[~np.isnan(losses[task.rows, 0])] for losses in untold] * 2
    if not all(0 < mean < np.inf for _, mean in learned):
        return NO_GAIN
    ensembles = []
    for (data, _), rows in zip(learned, known, strict=True):
        make_member = fitting.member_maker(alone.settings, data)
        ensembles.append([fitting.cooled(make_member, rows, seed, epochs) for seed in task.seeds])
    try:
        asked = fitting.trained_without(alone.training, task.data, held * 2, ensembles)
    except engine.DivergenceError:
        return NO_GAIN
    expected = [alone.expected(part, mean, rows) for part, (_, mean), rows in zip(asked, learned, known, strict=True)]
    share = _gain(np.sum(expected[:folds], axis=0), np.sum(expected[folds:], axis=0), folds)  # (Q,)
    corrected = [replace(part, lams=part.lams[:, None] / share) for part in left_out]  # (K, Q): e is in units of lam
    gain: Floats = task.judged(corrected).ratio / task.judged(left_out).ratio
    return gain


def _partners(held: list[Rows], twice: Twice, a: int) -> list[LeftOut]:
    """The folds that are left out together with number `a`, with members that have seen neither."""
    return [replace(part, rows=held[j if i == a else i]) for (i, j), part in twice.items() if a in (i, j)]


def _gain(once: Floats, twice: Floats, folds: int) -> Floats:
    """From K - 2 folds to K - 1 it is once / twice; from K - 1 to K, if it falls like n^-alpha; and never above 1."""
    power = math.log(1 - 1 / folds) / math.log(1 - 1 / (folds - 1))
    usable = (once > 0) & (twice > 0) & np.isfinite(once) & np.isfinite(twice)
    ratio = np.divide(once, twice, out=np.ones_like(once), where=usable)
    gain: Floats = np.clip(ratio**power, recipe.LEAST_GAIN, 1.0)
    return gain


def _first(part: LeftOut, members: int) -> LeftOut:
    return replace(part, params=part.params[:members], lams=part.lams[:members])
