"""Fit a pair, or an ensemble of pairs, without anything to tune: lam="auto" with epochs=None.

1. **Length.** Ensembles are trained without a fold of the rows, for rising numbers of epochs; the longest is taken
   whose loss on the rows left out is within a standard error of the best: members of an ensemble may follow the noise,
   each its own way. Each is a training of its own: lam and rate fall over its length. All lengths are tried, for a
   loss that rises may fall again.
2. **Giving up.** The longest is tried with lam small from the start: what is noisy is then given up for the sake of
   what is clean. It is taken if it makes the typical loss, the geometric mean, clearly smaller.
3. **Gain.** Members that answer know all rows, those that were judged nine tenths of them, or four fifths. How the
   loss falls with the number of rows is learned from members that know half of that, and the rest extrapolated:
   L(n) = C n^-alpha.
4. **Quantifiers anew.** On its own rows a regressor's losses are too small, most where it could follow the noise, and a
   quantifier trained beside it says so. The regressors stay; the quantifiers learn again, from the losses on rows left
   out (sec. 9 of the paper), and take the place of the others if they are better on rows left out once more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import engine, heads
from aleator.estimators import fitting, recipe
from aleator.estimators.fitting import Fit, LeftOut, MakeMember, Rows, Training
from aleator.estimators.prediction import Readout
from aleator.estimators.settings import NetworkSettings, Schedule

Floats = NDArray[np.float64]

LEAST = 1e-12  # loss, in units of the networks, that is told from none
WITHIN = 100.0  # a quantifier whose scale is wrong by more than this factor went astray
_CURVE = ["epoch", "cv_loss"]


@dataclass(frozen=True)
class Task:
    """What is to be learned: `rows` of `data`, each in a `fold`, by members made from seeds; how it is read."""

    training: Training
    read: Readout
    data: engine.Data
    rows: Rows
    fold: NDArray[np.int64]
    seeds: list[int]
    make_member: MakeMember
    make_clean_first: MakeMember  # members that give noisy regions up

    def ensembles(self, kept: Sequence[Rows], epochs: int, seeds: Sequence[int]) -> list[list[engine.Member]]:
        """Members for each of these sets of rows."""
        return [[self.make_member(own, seed, epochs) for seed in seeds] for own in kept]

    def losses(self, left_out: Sequence[LeftOut]) -> tuple[Floats, Floats]:
        """The loss of each row left out (n,), in the units of the networks, and the rows' weight."""
        held_out = fitting.held_out(left_out, self.read.compare)
        assert held_out is not None
        return (held_out.realised / self.unit).mean(axis=1), held_out.weight

    @property
    def unit(self) -> Floats:
        """What losses in the user's units are divided by; 1 for a target that never varies."""
        return np.where(self.read.units.unit > 0, self.read.units.unit, 1.0)


def learn(settings: Any, task: Task, watched: engine.Data | None) -> Fit:
    """All four steps, for the network and number of threads that an estimator's settings ask for."""
    held, kept = fitting.parts(task.rows, task.fold)
    if len(held) == 1:  # nothing would be left to learn from
        members = [task.make_member(task.rows, seed, recipe.FEWEST) for seed in task.seeds]
        return fitting.fixed(task.training, members, watched)
    done, epochs, left_out, curve = _searched(task, held, kept)
    gave_up, task = done is not task, done
    gain = _gain(task, held, left_out, epochs)
    members = [task.make_member(task.rows, seed, epochs) for seed in task.seeds]
    fit = fitting.fixed(task.training, members, watched)
    history = [fitting.joined(table, curve, _CURVE) for table in fit.history]
    return _quantified_anew(
        settings, task, replace(fit, history=history, left_out=left_out, gain=gain, gave_up=gave_up)
    )


# ---------------------------------------------------------------- length, and giving up


def _searched(
    task: Task, held: list[Rows], kept: list[Rows]
) -> tuple[Task, int, tuple[LeftOut, ...], list[tuple[float, ...]]]:
    """The task as it is to be done, the number of epochs, and ensembles trained so without each fold.

    Last, the numbers of epochs that were tried, with their losses.
    """
    enough = np.cumsum([len(rows) for rows in held]) >= recipe.JUDGES
    some = slice(int(np.argmax(enough)) + 1 if enough.any() else len(held))  # folds that are enough to search with
    searchers, others = task.seeds[: recipe.SEARCHERS], task.seeds[recipe.SEARCHERS :]
    lengths = recipe.lengths(len(task.rows))
    bar, tick = fitting.progress(task.training.verbose, "choosing the number of epochs", len(lengths) + 1)

    def attempt(way: Task, epochs: int) -> _Tried | None:
        tick(1)
        try:
            left_out = fitting.trained_without(
                way.training, way.data, held[some], way.ensembles(kept[some], epochs, searchers)
            )
        except engine.DivergenceError:  # what diverges is not chosen
            return None
        return _Tried(epochs, left_out, *way.losses(left_out))

    clean_first = replace(task, make_member=task.make_clean_first)
    with bar:
        tried = [each for epochs in lengths if (each := attempt(task, epochs))]
        giving_up = attempt(clean_first, lengths[-1])
    if not tried:
        raise engine.DivergenceError(
            f"training diverged at every length, even in {lengths[0]} epochs. Lower learning_rate, or set clip."
        )
    best = min(tried, key=lambda each: each.mean)
    chosen = [each for each in tried if each is best or not each.worse_than(best)][-1]
    if giving_up and giving_up.typically_better_than(chosen):
        task, chosen = clean_first, giving_up
    epochs, rest = chosen.epochs, slice(some.stop, None)
    ensembles = task.ensembles(kept[some], epochs, others) + task.ensembles(kept[rest], epochs, task.seeds)
    trained = fitting.trained_without(task.training, task.data, held, ensembles)
    left_out = *map(_together, chosen.left_out, trained), *trained[rest]
    return task, epochs, left_out, [(each.epochs, each.mean) for each in tried]


@dataclass(frozen=True)
class _Tried:
    """A length, the ensembles that were trained so long, and what they lost on rows left out (n,)."""

    epochs: int
    left_out: tuple[LeftOut, ...]
    losses: Floats
    weight: Floats

    @property
    def mean(self) -> float:
        """The loss, weighted."""
        return float(np.average(self.losses, weights=self.weight))

    def worse_than(self, other: "_Tried") -> bool:
        """Whether the loss is larger by more than the standard error of the difference, row by row."""
        mean, error = self._mean_and_error(self.losses - other.losses)
        return not mean <= error

    def typically_better_than(self, other: "_Tried") -> bool:
        """Whether the geometric mean of the loss is clearly smaller, and that beyond doubt."""
        mean, error = self._mean_and_error(np.log(_seen(self.losses)) - np.log(_seen(other.losses)))
        return mean + recipe.BEYOND_DOUBT * error < math.log(recipe.TYPICAL_LOSS)

    def _mean_and_error(self, values: Floats) -> tuple[float, float]:
        """The weighted mean of a value a row, and its standard error."""
        weighted = self.weight * values / self.weight.mean()
        return float(weighted.mean()), float(weighted.std() / np.sqrt(len(weighted)))


def _seen(losses: Floats) -> Floats:
    """Losses no smaller than single precision can tell from 0."""
    return np.maximum(losses, LEAST)


def _together(some: LeftOut, others: LeftOut) -> LeftOut:
    """All members that were trained without the same rows."""
    params = [*some.params, *others.params]
    return replace(some, params=params, lams=np.concatenate([some.lams, others.lams]))


# ---------------------------------------------------------------- gain


def _gain(task: Task, held: list[Rows], left_out: tuple[LeftOut, ...], epochs: int) -> float:
    """What the loss is multiplied with when members know all rows, and not only those of the other folds."""
    folds = len(held)
    if folds < 4:
        return 1.0
    some = slice(recipe.SEARCHERS)
    few = [np.concatenate([held[(k + 1 + j) % folds] for j in range(folds // 2)]) for k in range(folds)]
    by_few = fitting.trained_without(task.training, task.data, held, task.ensembles(few, epochs, task.seeds[some]))
    by_more = tuple(replace(part, params=part.params[some], lams=part.lams[some]) for part in left_out)
    loss_by_few, loss_by_more = (_Tried(epochs, part, *task.losses(part)).mean for part in (by_few, by_more))
    if not (0 < loss_by_more < loss_by_few < np.inf):
        return 1.0
    alpha = np.log(loss_by_few / loss_by_more) / np.log((folds - 1) / (folds // 2))
    return float((1 - 1 / folds) ** min(alpha, recipe.STEEPEST))


# ---------------------------------------------------------------- quantifiers


@dataclass(kw_only=True)
class Given(NetworkSettings):
    """The training of quantifiers that learn given losses."""

    coupling: Any
    lam: float = recipe.GIVEN_LAM
    learning_rate: Schedule = recipe.GIVEN_RATE
    l2: float = recipe.GIVEN_L2


def _quantified_anew(settings: Any, task: Task, fit: Fit) -> Fit:
    """The same regressors, with quantifiers that learned from the losses on rows left out if these are better."""
    network, data = task.training.plan.network, task.data
    held_out = fitting.held_out(fit.left_out, task.read.compare)
    assert held_out is not None
    losses = held_out.realised / task.unit
    mean = float(np.average(losses.mean(axis=1), weights=held_out.weight))
    if settings.shared_layers or not 0 < mean < np.inf:  # what is shared is the regressor's, and stays
        return fit
    Y = np.zeros((len(data.Y), losses.shape[1]), np.float32)
    Y[held_out.rows] = losses / mean
    frame = np.tile([0.0, 1.0, 1.0, 1.0], (losses.shape[1], 1))
    alone = engine.network(
        network.n_inputs,
        tuple(settings.hidden),
        n_outputs=0,
        n_quantifiers=losses.shape[1],
        activation=settings.activation,
    )
    given = Given(coupling=settings.coupling, n_jobs=settings.n_jobs, verbose=settings.verbose)
    of_losses = replace(data, Y=Y, frame=frame)
    learned = fitting.cross_validated(
        fitting.training(given, alone, heads.given, task.read.head, len(task.rows)),
        of_losses,
        task.rows,
        task.fold,
        task.seeds,
        fitting.member_maker(given, of_losses),
    )

    def paired(pairs: Any, quantifiers: Any) -> list[NDArray[np.float32]]:
        return [_paired(network, alone, *both) for both in zip(pairs, quantifiers, strict=True)]

    left_out = tuple(
        replace(own, params=paired(own.params, others.params), lams=mean * others.lams)
        for own, others in zip(fit.left_out, learned.left_out, strict=True)
    )
    anew = fitting.held_out(left_out, task.read.compare)
    assert anew is not None
    astray = anew.is_near(WITHIN) and not held_out.is_near(WITHIN)
    if not (anew.score < held_out.score or astray):
        return fit
    params = np.stack(paired(fit.params, learned.params))
    return replace(fit, params=params, lams=mean * learned.lams, left_out=left_out)


def _paired(
    network: engine.Network, alone: engine.Network, pair: NDArray[np.float32], quantifier: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The parameters of a pair, with those of a quantifier in place of its own."""
    params = pair.copy()
    for own, other in zip(network.quantifier, alone.matrices, strict=True):
        own.of(params)[:] = other.of(quantifier)
        own.bias_of(params)[:] = other.bias_of(quantifier)
    return params
