"""How long to train, and what held-out rows say about the scale of the expected loss.

Three ways, one result (`automatic.py` has a fourth). `fixed`: as many epochs as the user says, as in the paper.
`stopped_early`: until a validation table, or rows held back, no longer improve. `cross_validated`: the engine is fast
enough to train a few networks more, so the number of epochs is the one with the least joint loss on rows left out in
turn, and the final members then learn from all rows.

A network's losses on its own training rows are too small, and a quantifier trained on them says so. Wherever rows were
left out, `Fit.left_out` has them with members that have not seen them; the mean of their realised losses over the mean
of the predicted ones (`HeldOut`) is the scale of the expected loss. The paper's way leaves nothing out and has scale 1.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich import get_console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.utils import check_random_state

from aleator import couplings, heads
from aleator.engine import (
    Data,
    Member,
    Network,
    Plan,
    Run,
    advance,
    begin,
    evaluate,
    forward,
    lam_of,
    settled,
    train,
)
from aleator.estimators import recipe
from aleator.estimators.held_out import HeldOut
from aleator.estimators.reading import schedule
from aleator.estimators.table import ROWS_AT_A_TIME
from aleator.heads import Head
from aleator.losses import Loss

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

STEPS = 60_000  # at most so many steps when the number of epochs is found by cross-validation,
FEWEST, MOST = 10, 1_000  # within these numbers of epochs
GROWTH = 1.2  # epochs looked at: 1, 2, 3, ... and then each this many times the one before
ENOUGH = 1.7  # give up once this many times the best number of epochs (and 10 more) brought nothing better
COOLDOWN = 0.4  # so much longer, at a rate falling to zero, than the best number of epochs

# Makes a member from its rows, its seed and the number of epochs its schedules cover.
MakeMember = Callable[[Rows, int, int], Member]


@dataclass(frozen=True)
class Training:
    """What all ways need: what to train, how to judge it, on how many threads, whether to show it."""

    plan: Plan
    judge: Plan  # the plan, with a head whose values compare from epoch to epoch
    threads: int
    verbose: bool


def training(settings: Any, network: Network, loss: Loss, head: Head, n_rows: int) -> Training:
    """The training that an estimator's parameters ask for."""
    plan = Plan(
        network=network,
        loss=loss,
        head=head,
        batch_size=recipe.batch_size(settings, n_rows),
        optimizer=settings.optimizer,
        momentum=settings.momentum,
        l2=recipe.l2(settings) / n_rows,
        clip=settings.clip or 0.0,
    )
    # Joint losses compare from epoch to epoch only if lam stays the same.
    lam = getattr(settings, "lam", None)
    judge = heads.log_score(head) if callable(lam) or recipe.is_auto(settings) else head.judge or head
    return Training(plan, replace(plan, head=judge), threads(settings.n_jobs), settings.verbose)


def member_maker(settings: Any, data: Data, kappa: tuple[float, float] = recipe.KAPPA) -> MakeMember:
    """Members that learn from `data` with an estimator's rates, lams and dropout; lam="auto" follows `kappa`."""

    def make_member(rows: Rows, seed: int, epochs: int) -> Member:
        rates = schedule("learning_rate", recipe.learning_rate(settings), epochs)
        lam = getattr(settings, "lam", 1.0)
        if recipe.is_auto(settings):
            coupling = couplings.get(settings.coupling)
            return recipe.member(data, rows, seed, kappa, rates, settings.dropout, coupling)
        return Member(data, rows, seed, schedule("lam", lam, epochs), rates, settings.dropout)

    return make_member


def threads(n_jobs: int | None) -> int:
    return int(joblib.effective_n_jobs(n_jobs))


def member_seeds(random_state: Any, n: int) -> list[int]:
    """One seed a member; the first does not depend on how many there are."""
    try:
        base = int(check_random_state(random_state).randint(2**32, dtype=np.uint64))
    except ValueError as error:
        raise ValueError(f"random_state: {error}") from None
    return [int(np.random.SeedSequence([base, k]).generate_state(1, np.uint64)[0]) for k in range(n)]


@dataclass(frozen=True)
class LeftOut:
    """Rows of `data`, and the parameters and lams, (K,) or (K, Q), of members that have not seen them.

    `reach`: the ends (2, Q) that each member's xi is held within, if any.
    """

    data: Data
    rows: Rows
    params: Sequence[NDArray[np.float32]]
    lams: Floats
    reach: Sequence[NDArray[np.float32]] | None = None


def held_out(left_out: Sequence[LeftOut], compare: Callable[[LeftOut], Floats]) -> HeldOut | None:
    """All rows left out, with their realised and predicted losses and sides (3, n, Q) by `compare`; None if none."""
    if not left_out:
        return None
    realised, predicted, *side = np.concatenate([compare(part) for part in left_out], axis=1)
    rows, weight = [part.rows for part in left_out], [part.data.weight[part.rows] for part in left_out]
    return HeldOut(np.concatenate(rows), realised, predicted, np.concatenate(weight), *side)


@dataclass(frozen=True)
class Fit:
    """Trained parameters (K, P), lams and epochs (K,), one table of losses a member, and the rows left out, if any.

    `gain`: what the scale that these rows tell is to be multiplied with, because members that know all rows answer.
    `gave_up`: whether these are members that give noisy regions up (lam="auto").
    `reach`: the ends (2, Q) that each member's xi is held within; None where nothing is left out, as in the paper.
    """

    params: NDArray[np.float32]
    lams: Floats
    epochs: NDArray[np.int64]
    history: list[pd.DataFrame]
    left_out: tuple[LeftOut, ...] = ()
    gain: Floats = field(default_factory=lambda: np.ones(1))  # (Q,), or one for all
    gave_up: bool = False
    reach: Sequence[NDArray[np.float32]] | None = None


# ---------------------------------------------------------------- as many epochs as the user says


def fixed(training: Training, members: list[Member], watched: Data | None = None) -> Fit:
    """Every member to the end of its schedule; the losses on `watched` are recorded, no more."""
    rows = None if watched is None else np.arange(len(watched.Y))
    watchers = [_Watcher(training.judge, member, watched, rows) for member in members]
    _watch(training, members, watchers)
    return _fit(watchers)


def staged(training: Training, members: list[Member], stages: Sequence[int]) -> Iterator[Fit]:
    """What `fixed` gives for each of these increasing numbers of epochs, one training going through them all."""
    runs: list[Run] | None = None
    bar, tick = progress(training.verbose, "training", len(members) * stages[-1])

    def watch(number: int, run: Run) -> bool:
        tick(len(run.trace[-1]))
        return False

    with bar:
        for epochs in stages:
            cut = [replace(member, rates=member.rates[:epochs], lams=member.lams[:epochs]) for member in members]
            runs = train(training.plan, cut, threads=training.threads, watch=watch, runs=runs)
            pairs = [settled(training.plan, member, run) for member, run in zip(cut, runs, strict=True)]
            params, lams = np.stack([own for own, _ in pairs]), np.array([lam for _, lam in pairs])
            yield Fit(params, lams, np.full(len(runs), epochs), [_traced(run) for run in runs])


# ---------------------------------------------------------------- early stopping


def stopped_early(training: Training, members: list[Member], held: Data, rows: Rows, patience: int) -> Fit:
    """Each member until `rows` of `held` have not improved for `patience` epochs; its best parameters are kept."""
    watchers = [_Watcher(training.judge, member, held, rows, patience) for member in members]
    _watch(training, members, watchers)
    params, lams = [w.params for w in watchers], np.array([w.lam for w in watchers])
    reach = reach_of(training.plan, params, [(member.data, member.rows) for member in members])
    return replace(_fit(watchers, LeftOut(held, rows, params, lams, reach)), reach=reach)


class _Watcher:
    """Follows one member: records the losses on the watched rows, and keeps the best parameters if it is to stop."""

    def __init__(
        self, plan: Plan, member: Member, data: Data | None, rows: Rows | None, patience: int | None = None
    ) -> None:
        self.plan, self.member, self.data, self.rows, self.patience = plan, member, data, rows, patience
        self.best, self.epoch, self.params, self.lam = np.inf, 0, np.empty(0, np.float32), 1.0
        self.curve: list[tuple[float, ...]] = []
        self.run: Run | None = None

    def __call__(self, run: Run) -> bool:
        self.run = run
        joint = -np.inf  # without anything to watch, the latest is the best
        if self.data is not None and self.rows is not None:
            joint, loss = evaluate(self.plan, self.data, self.rows, run.params, lam_of(self.member, run))
            if not np.isfinite(joint):
                raise ValueError(f"the loss on the validation rows is not finite after epoch {run.epoch}.")
            self.curve.append((run.epoch, joint, loss))
        if self.patience is None or joint < self.best:
            self.best, self.epoch = joint, run.epoch
            self.params, self.lam = settled(self.plan, self.member, run)
        return self.patience is not None and run.epoch - self.epoch >= self.patience

    def history(self) -> pd.DataFrame:
        table = _traced(self.run)
        return joined(table, self.curve, _columns("validation", self.plan)) if self.curve else table


def _traced(run: Run | None) -> pd.DataFrame:
    """Losses on the training rows by epoch."""
    table = pd.DataFrame(np.empty((0, 2)) if run is None else run.history, columns=["joint_loss", "loss"])
    table.insert(0, "epoch", np.arange(1, len(table) + 1))
    return table


def _watch(training: Training, members: list[Member], watchers: list[_Watcher]) -> None:
    bar, tick = progress(training.verbose, "training", sum(member.rates.size for member in members))
    chunk = None if watchers[0].data is None else 1

    def watch(number: int, run: Run) -> bool:
        tick(len(run.trace[-1]))
        return watchers[number](run)

    with bar:
        train(training.plan, members, threads=training.threads, chunk=chunk, watch=watch)


def _fit(watchers: list[_Watcher], *left_out: LeftOut) -> Fit:
    params, lams = np.stack([w.params for w in watchers]), np.array([w.lam for w in watchers])
    return Fit(params, lams, np.array([w.epoch for w in watchers]), [w.history() for w in watchers], left_out)


def history(tables: list[pd.DataFrame], unit: Floats) -> pd.DataFrame:
    """Losses by member and epoch, in the units of the loss (several units: in those of each output's own).

    A score, L / e + ln e, has no unit, but depends on that of e.
    """
    table = pd.concat(tables, keys=range(len(tables)), names=["member", None]).reset_index(level=0)
    if len(unit) == 1:
        scores = table.columns[table.columns.str.endswith("score")]
        table[scores] += np.log(unit[0]) if unit[0] > 0 else 0.0
        table[table.columns.difference(["member", "epoch"]).difference(scores)] *= unit[0]
    return table.reset_index(drop=True)


def _columns(rows: str, judge: Plan) -> list[str]:
    """Of what was measured on rows that were not learned from."""
    return ["epoch", f"{rows}_{judge.head.measures}", f"{rows}_loss"]


def joined(table: pd.DataFrame, curve: list[tuple[float, ...]], columns: list[str]) -> pd.DataFrame:
    return table.merge(pd.DataFrame(curve, columns=columns), how="outer", on="epoch")


def progress(show: bool, title: str, total: int) -> tuple[Progress, Callable[[int], None]]:
    """A bar over epochs that may be advanced from any thread; shows nothing unless asked, and where nobody looks."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    seen = get_console().is_terminal or get_console().is_jupyter
    bar = Progress(*columns, transient=True, disable=not (show and seen))
    task = bar.add_task(title, total=total)
    return bar, lambda epochs: bar.advance(task, epochs)


# ---------------------------------------------------------------- cross-validation


def cross_validated(
    training: Training,
    data: Data,
    rows: Rows,
    fold: NDArray[np.int64],
    seeds: list[int],
    make_member: MakeMember,
    watched: Data | None = None,
    judges: int | None = None,
) -> Fit:
    """Find the number of epochs by leaving out each `fold` of `rows` in turn, then train one member a seed on all rows.

    One member a fold looks for the number. Then members are trained on each fold exactly as they will be on all rows,
    and their held-out losses give the scale: as many as there will be, because a mixture expects more than its members
    do, or `judges` of them where the expected loss is their mean.
    """
    if len(np.unique(fold)) == 1:  # nothing would be left to learn from
        return fixed(training, [make_member(rows, seed, FEWEST) for seed in seeds], watched)
    best, curve = _search(training, data, rows, fold, seeds[0], make_member)
    epochs = best + round(COOLDOWN * best)

    def trained(own: Rows, seed: int) -> Member:
        return cooled(make_member, own, seed, epochs)

    left_out = in_turn(training, data, rows, fold, seeds[:judges], trained)
    fit = fixed(training, [trained(rows, seed) for seed in seeds], watched)
    columns = _columns("cv", training.judge)
    history = [joined(table, curve, columns) for table in fit.history]
    reach = reach_of(training.plan, list(fit.params), [(data, rows)] * len(seeds))
    return replace(fit, history=history, left_out=left_out, reach=reach)


def in_turn(
    training: Training,
    data: Data,
    rows: Rows,
    fold: NDArray[np.int64],
    seeds: list[int],
    make_member: Callable[[Rows, int], Member],
) -> tuple[LeftOut, ...]:
    """Leave out each `fold` of `rows` in turn, and train one member a seed on the others, if there are others."""
    held, kept = parts(rows, fold)
    if len(held) == 1 or not seeds:
        return ()
    return trained_without(training, data, held, [[make_member(own, seed) for seed in seeds] for own in kept])


def trained_without(
    training: Training, data: Data, held: Sequence[Rows], ensembles: Sequence[Sequence[Member]]
) -> tuple[LeftOut, ...]:
    """Train ensembles of members, each to be asked about the rows `held` out of it."""
    members = [member for ensemble in ensembles for member in ensemble]
    runs = train(training.plan, members, threads=training.threads)
    pairs = iter([settled(training.plan, member, run) for member, run in zip(members, runs, strict=True)])
    left_out = []
    for rows, ensemble in zip(held, ensembles, strict=True):
        own = [next(pairs) for _ in ensemble]
        params, lams = [params for params, _ in own], np.array([lam for _, lam in own])
        reach = reach_of(training.plan, params, [(member.data, member.rows) for member in ensemble])
        left_out.append(LeftOut(data, rows, params, lams, reach))
    return tuple(left_out)


def reach_of(
    plan: Plan, params: Sequence[NDArray[np.float32]], known: Sequence[tuple[Data, Rows]]
) -> list[NDArray[np.float32]] | None:
    """The ends (2, Q) that xi of each member is to be held within; None for heads other than the joint loss.

    Beyond the rows it knows a network goes on in straight lines, and the expected loss, an exponential, with it to 0 or
    to infinity. It may go on a little: see `recipe.BEYOND` (exact for the sigmoid, and at most that for softplus).
    """
    if plan.head.level is None:
        return None
    margin = np.array([[-1], [1]], np.float32) * np.float32(np.log(recipe.BEYOND))
    return [ends(plan.network, own, *rows) + margin for own, rows in zip(params, known, strict=True)]


def ends(network: Network, params: NDArray[np.float32], data: Data, rows: Rows) -> NDArray[np.float32]:
    """Least and largest xi (2, Q) of one member on `rows`."""
    found = []
    for lo in range(0, len(rows), ROWS_AT_A_TIME):
        xi = forward(network, params, data.X[rows[lo : lo + ROWS_AT_A_TIME]], data.shift, data.scale, data.clip)[1]
        found.append((xi.min(axis=0), xi.max(axis=0)))
    return np.stack([np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0)])


def parts(rows: Rows, fold: NDArray[np.int64]) -> tuple[list[Rows], list[Rows]]:
    """The rows of each fold, and all others."""
    folds = np.unique(fold)
    return [rows[fold == k] for k in folds], [rows[fold != k] for k in folds]


def cooled(make_member: MakeMember, rows: Rows, seed: int, epochs: int) -> Member:
    """A member whose rate falls to zero over the last of its `epochs`, which averages out the noise of the steps."""
    member = make_member(rows, seed, epochs)
    steady = round(epochs / (1 + COOLDOWN))
    fall = np.concatenate([np.ones(steady), np.linspace(1, 0, epochs - steady + 1, endpoint=False)[1:]])
    return replace(member, rates=member.rates * fall)


def _search(
    training: Training, data: Data, rows: Rows, fold: NDArray[np.int64], seed: int, make_member: MakeMember
) -> tuple[int, list[tuple[float, ...]]]:
    """The number of epochs with the least held-out joint loss, and the curve of losses."""
    held, kept = parts(rows, fold)
    largest = max(len(own) for own in kept)
    steps = -(-largest // min(training.plan.batch_size, largest))
    most = int(np.clip(STEPS // steps, FEWEST, MOST))
    members = [make_member(own, seed, most) for own in kept]
    runs = [begin(training.plan, member) for member in members]
    sizes = [data.weight[h].sum() for h in held]
    best, best_epochs = np.inf, 1
    curve: list[tuple[float, ...]] = []

    def go_on(k: int, epoch: int) -> tuple[float, float]:
        advance(training.plan, members[k], runs[k], epoch - runs[k].epoch, k)
        return evaluate(training.judge, data, held[k], runs[k].params, lam_of(members[k], runs[k]))

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
