"""How long to train, and what held-out rows say about the scale of the expected loss.

Three ways, one result. `fixed`: as many epochs as the user says, as in the paper. `stopped_early`: until a validation
table, or rows held back, no longer improve. `cross_validated`: the engine is fast enough to train a few networks more,
so the number of epochs is the one with the least joint loss on rows left out in turn, and the final members then learn
from all rows.

A network's losses on its own training rows are too small, and a quantifier trained on them says so. Wherever rows were
held out, `Fit.scale` is the mean realised over the mean predicted loss there; the paper's way has scale 1.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aleator.engine import Data, DivergenceError, Member, Plan, Run, advance, begin, evaluate, train
from aleator.estimators.prediction import Readout
from aleator.estimators.table import ROWS_AT_A_TIME

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

FOLDS = 5
STEPS = 60_000  # at most so many steps when the number of epochs is found by cross-validation,
FEWEST, MOST = 10, 1_000  # within these numbers of epochs
GROWTH = 1.2  # epochs looked at: 1, 2, 3, ... and then each this many times the one before
ENOUGH = 1.7  # give up once this many times the best number of epochs (and 10 more) brought nothing better
COOLDOWN = 0.4  # so much longer, at a rate falling to zero, than the best number of epochs
_WATCHED = ["epoch", "validation_joint_loss", "validation_loss"]
_FOLDS = ["epoch", "cv_joint_loss", "cv_loss"]

# Makes a member from its rows, its seed and the number of epochs its schedules cover.
MakeMember = Callable[[Rows, int, int], Member]


@dataclass(frozen=True)
class Training:
    """What all three ways need: what to train, how to judge and read it, on how many threads, whether to show it."""

    plan: Plan
    judge: Plan  # the plan, with a head whose values compare from epoch to epoch
    readout: Readout
    threads: int
    verbose: bool


@dataclass(frozen=True)
class Fit:
    """Trained parameters (K, P), epochs (K,), scale of the expected loss (Q,), and one table of losses a member."""

    params: NDArray[np.float32]
    epochs: NDArray[np.int64]
    scale: Floats
    history: list[pd.DataFrame]


# ---------------------------------------------------------------- as many epochs as the user says


def fixed(training: Training, members: list[Member], watched: Data | None = None) -> Fit:
    """Every member to the end of its schedule; the losses on `watched` are recorded, no more."""
    rows = None if watched is None else np.arange(len(watched.Y))
    watchers = [_Watcher(training.judge, member, watched, rows) for member in members]
    _watch(training, members, watchers)
    return _fit(watchers, np.ones(training.plan.network.n_quantifiers))


# ---------------------------------------------------------------- early stopping


def stopped_early(training: Training, members: list[Member], held: Data, rows: Rows, patience: int) -> Fit:
    """Each member until `rows` of `held` have not improved for `patience` epochs; its best parameters are kept."""
    watchers = [_Watcher(training.judge, member, held, rows, patience) for member in members]
    _watch(training, members, watchers)
    lams = [member.lams[watcher.epoch - 1] for member, watcher in zip(members, watchers, strict=True)]
    return _fit(watchers, ratio(held_out_sums(training, held, rows, [w.params for w in watchers], lams)))


class _Watcher:
    """Follows one member: records the losses on the watched rows, and keeps the best parameters if it is to stop."""

    def __init__(
        self, plan: Plan, member: Member, data: Data | None, rows: Rows | None, patience: int | None = None
    ) -> None:
        self.plan, self.member, self.data, self.rows, self.patience = plan, member, data, rows, patience
        self.best, self.epoch, self.params = np.inf, 0, np.empty(0, np.float32)
        self.curve: list[tuple[float, ...]] = []
        self.run: Run | None = None

    def __call__(self, run: Run) -> bool:
        self.run = run
        joint = -np.inf  # without anything to watch, the latest is the best
        if self.data is not None and self.rows is not None:
            joint, loss = evaluate(self.plan, self.data, self.rows, run.params, self.member.lams[run.epoch - 1])
            if not np.isfinite(joint):
                raise ValueError(f"the loss on the validation rows is not finite after epoch {run.epoch}.")
            self.curve.append((run.epoch, joint, loss))
        if self.patience is None or joint < self.best:
            self.best, self.epoch, self.params = joint, run.epoch, run.params.copy()
        return self.patience is not None and run.epoch - self.epoch >= self.patience

    def history(self) -> pd.DataFrame:
        trace = np.empty((0, 2)) if self.run is None else self.run.history
        table = pd.DataFrame(trace, columns=["joint_loss", "loss"])
        table.insert(0, "epoch", np.arange(1, len(table) + 1))
        return _joined(table, self.curve, _WATCHED) if self.curve else table


def _watch(training: Training, members: list[Member], watchers: list[_Watcher]) -> None:
    bar, tick = progress(training.verbose, "training", sum(member.rates.size for member in members))
    chunk = None if watchers[0].data is None else 1

    def watch(number: int, run: Run) -> bool:
        tick(len(run.trace[-1]))
        return watchers[number](run)

    with bar:
        train(training.plan, members, threads=training.threads, chunk=chunk, watch=watch)


def _fit(watchers: list[_Watcher], scale: Floats) -> Fit:
    params, epochs = np.stack([w.params for w in watchers]), np.array([w.epoch for w in watchers])
    return Fit(params, epochs, scale, [w.history() for w in watchers])


def _joined(table: pd.DataFrame, curve: list[tuple[float, ...]], columns: list[str]) -> pd.DataFrame:
    return table.merge(pd.DataFrame(curve, columns=columns), how="outer", on="epoch")


def progress(show: bool, title: str, total: int) -> tuple[Progress, Callable[[int], None]]:
    """A bar over epochs that may be advanced from any thread; shows nothing unless asked."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(*columns, transient=True, disable=not show)
    task = bar.add_task(title, total=total)
    return bar, lambda epochs: bar.advance(task, epochs)


# ---------------------------------------------------------------- cross-validation


def cross_validated(
    training: Training, data: Data, rows: Rows, seeds: list[int], make_member: MakeMember, watched: Data | None
) -> Fit:
    """Find the number of epochs on folds of `rows`, then train one member for each seed on all of them.

    One member a fold looks for the number. Then as many members as wanted are trained on each fold exactly as they
    will be on all rows, and their held-out losses give the scale.
    """
    if len(rows) == 1:  # one distinct row leaves nothing to hold out
        return fixed(training, [make_member(rows, seed, FEWEST) for seed in seeds], watched)
    folds = min(FOLDS, len(rows))
    place = np.empty(len(rows), np.int64)
    place[np.random.default_rng([seeds[0], 1]).permutation(len(rows))] = np.arange(len(rows)) % folds
    held = [rows[place == k] for k in range(folds)]
    kept = [rows[place != k] for k in range(folds)]
    epochs, curve = _search(training, data, held, kept, seeds[0], make_member)
    ensembles = [[_cooled(make_member, own, seed, epochs) for seed in seeds] for own in kept]
    runs = iter(train(training.plan, [m for members in ensembles for m in members], threads=training.threads))
    sums = np.zeros((2, training.plan.network.n_quantifiers))
    for members, rest in zip(ensembles, held, strict=True):
        params = [next(runs).params for _ in members]
        sums += held_out_sums(training, data, rest, params, [member.lams[-1] for member in members])
    fit = fixed(training, [_cooled(make_member, rows, seed, epochs) for seed in seeds], watched)
    return Fit(fit.params, fit.epochs, ratio(sums), [_joined(table, curve, _FOLDS) for table in fit.history])


def _cooled(make_member: MakeMember, rows: Rows, seed: int, epochs: int) -> Member:
    """A member for `epochs` and then some more with a falling rate, which averages out the noise of the last steps."""
    more = round(COOLDOWN * epochs)
    member = make_member(rows, seed, epochs + more)
    fall = np.concatenate([np.ones(epochs), np.linspace(1, 0, more + 1, endpoint=False)[1:]])
    return replace(member, rates=member.rates * fall)


def _search(
    training: Training, data: Data, held: list[Rows], kept: list[Rows], seed: int, make_member: MakeMember
) -> tuple[int, list[tuple[float, ...]]]:
    """The number of epochs with the least held-out joint loss, and the curve of losses."""
    steps = -(-len(kept[0]) // min(training.plan.batch_size, len(kept[0])))
    most = int(np.clip(STEPS // steps, FEWEST, MOST))
    members = [make_member(own, seed, most) for own in kept]
    runs = [begin(training.plan, member) for member in members]
    sizes = [data.weight[h].sum() for h in held]
    best, best_epochs = np.inf, 1
    curve: list[tuple[float, ...]] = []

    def go_on(k: int, epoch: int) -> tuple[float, float]:
        advance(training.plan, members[k], runs[k], epoch - runs[k].epoch, k)
        return evaluate(training.judge, data, held[k], runs[k].params, members[k].lams[epoch - 1])

    bar, tick = progress(training.verbose, "choosing the number of epochs", most)
    with bar, ThreadPoolExecutor(training.threads) as pool:
        for epoch in _looks(most):
            tick(epoch - runs[0].epoch)
            losses = list(pool.map(go_on, range(len(held)), [epoch] * len(held)))
            joint, loss = np.average(losses, axis=0, weights=sizes)
            curve.append((epoch, joint, loss))
            if joint < best:
                best, best_epochs = joint, epoch
            if epoch > ENOUGH * best_epochs + 10:
                break
    return best_epochs, curve


def _looks(most: int) -> list[int]:
    looks = [1]
    while looks[-1] < most:
        looks.append(min(most, max(looks[-1] + 1, round(GROWTH * looks[-1]))))
    return looks


# ---------------------------------------------------------------- scale


def held_out_sums(
    training: Training, data: Data, rows: Rows, params: Sequence[NDArray[np.float32]], lams: Sequence[float]
) -> Floats:
    """Weighted sums over `rows` of the realised and of the predicted loss of the mixture of members, (2, Q)."""
    read = training.readout
    sums = np.zeros((2, training.plan.network.n_quantifiers))
    if not read.head.quantifies:
        return sums
    for lo in range(0, len(rows), ROWS_AT_A_TIME):
        block = rows[lo : lo + ROWS_AT_A_TIME]
        outputs = [read.outputs(member, data.X[block]) for member in params]
        mean, aleatoric, epistemic = read.mixed(outputs, np.array(lams))
        realised = read.losses(read.scaling.restored(data.Y[block]), mean)
        sums += data.weight[block] @ np.stack([realised, aleatoric + epistemic])
    return sums


def ratio(sums: Floats) -> Floats:
    """Mean realised over mean predicted loss; an error if they have nothing to do with each other."""
    realised, predicted = sums
    usable = (realised > 0) & (predicted > 0) & np.isfinite(predicted)
    scale: Floats = np.divide(realised, predicted, out=np.ones_like(realised), where=usable)
    if ((scale < 1e-10) | (scale > 1e10)).any():
        raise DivergenceError(
            f"training went astray: on held-out rows the loss is {scale.max():.1g} times what the quantifier says. "
            "Lower learning_rate, choose lam nearer to 1, or look for extreme sample weights."
        )
    return scale
