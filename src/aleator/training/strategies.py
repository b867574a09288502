"""How long to train: five ways from a `Problem` to a `TrainingResult`.

| strategy | number of epochs |
| --- | --- |
| `fixed` | given by the user, as in the paper; no rows are held out |
| `given_length` | given by the user; members are also trained without each fold |
| `staged` | several given numbers, one training passing through all of them |
| `early_stopping` | until a validation table no longer improves |
| `cross_validated` | the number with the least joint loss on held-out folds; final members learn from all rows |

lam="auto" has its own way, see `auto/procedure.py`.

Losses on the rows a network was trained on are too small, and so are the expected losses of a quantifier trained on
them. Where rows are held out, `TrainingResult.held_out` has them with members that have not seen them; `held_out.py`
turns them into the scale of the expected loss.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd

from aleator.array_types import Floats32, Rows
from aleator.engine import Data, Member, Plan, Run, advance, begin, evaluate, final_pair, lam_of, train
from aleator.training import progress
from aleator.training.history import curve_columns, training_losses, with_curve
from aleator.training.problem import MakeMember, Problem
from aleator.training.results import HeldOutPart, TrainingResult
from aleator.training.xi_range import extended_xi_ranges

MAX_STEPS = 60_000  # of a network, when the number of epochs is found by cross-validation,
MIN_EPOCHS, MAX_EPOCHS = 10, 1_000  # within these numbers of epochs
GROWTH = 1.2  # the number of epochs is evaluated at 1, 2, 3, ... and then at each this many times the one before
PATIENCE = 1.7  # stop the search when this many times the best number of epochs (and 10 more) is not better
COOLDOWN = 0.4  # train so much longer than the best number of epochs, at a rate that falls to zero


# ---------------------------------------------------------------- a given number of epochs


def fixed(problem: Problem, members: list[Member], validation: Data | None = None) -> TrainingResult:
    """Train every member to the end of its schedule; losses on `validation` are only recorded."""
    rows = None if validation is None else np.arange(len(validation.Y))
    watchers = [_Watcher(problem.judge, member, validation, rows) for member in members]
    _train_watched(problem, members, watchers)
    return _result(watchers)


def given_length(
    problem: Problem, epochs: int, validation: Data | None = None, judging_members: int | None = None
) -> TrainingResult:
    """`fixed`, and as many members trained without each fold, whose losses on it give the scale."""
    result = fixed(problem, problem.members(epochs), validation)
    held_out = trained_without_folds(problem, epochs, problem.seeds[:judging_members])
    if not held_out:
        return result
    known = [(problem.data, problem.rows)] * len(problem.seeds)
    ranges = extended_xi_ranges(problem.plan, list(result.params), known)
    return replace(result, held_out=held_out, xi_ranges=ranges)


def staged(problem: Problem, members: list[Member], stages: Sequence[int]) -> Iterator[TrainingResult]:
    """The result of `fixed` for each of these increasing numbers of epochs, from one training."""
    runs: list[Run] | None = None
    bar, tick = progress.progress_bar(problem.verbose, "training", len(members) * stages[-1])

    def watch(number: int, run: Run) -> bool:
        tick(len(run.trace[-1]))
        return False

    with bar:
        for epochs in stages:
            cut = [replace(member, rates=member.rates[:epochs], lams=member.lams[:epochs]) for member in members]
            runs = train(problem.plan, cut, threads=problem.threads, watch=watch, runs=runs)
            pairs = [final_pair(problem.plan, member, run) for member, run in zip(cut, runs, strict=True)]
            params, lams = np.stack([own for own, _ in pairs]), np.array([lam for _, lam in pairs])
            yield TrainingResult(params, lams, np.full(len(runs), epochs), [training_losses(run) for run in runs])


# ---------------------------------------------------------------- early stopping


def early_stopping(
    problem: Problem, members: list[Member], validation: Data, rows: Rows, patience: int
) -> TrainingResult:
    """Train each member until `rows` of `validation` have not improved for `patience` epochs, and keep the best."""
    watchers = [_Watcher(problem.judge, member, validation, rows, patience) for member in members]
    _train_watched(problem, members, watchers)
    params, lams = [w.params for w in watchers], np.array([w.lam for w in watchers])
    ranges = extended_xi_ranges(problem.plan, params, [(member.data, member.rows) for member in members])
    held_out = (HeldOutPart(validation, rows, params, lams, ranges),)
    return replace(_result(watchers), held_out=held_out, xi_ranges=ranges)


class _Watcher:
    """Follows one member: records its losses on the validation rows, and keeps the best parameters if it may stop."""

    def __init__(
        self, judge: Plan, member: Member, data: Data | None, rows: Rows | None, patience: int | None = None
    ) -> None:
        self.judge, self.member, self.data, self.rows, self.patience = judge, member, data, rows, patience
        self.best, self.epoch, self.lam = np.inf, 0, 1.0
        self.params: Floats32 = np.empty(0, np.float32)
        self.curve: list[tuple[float, ...]] = []
        self.run: Run | None = None

    def __call__(self, run: Run) -> bool:
        """Whether the member's training ends here."""
        self.run = run
        joint = -np.inf  # without validation rows, the latest is the best
        if self.data is not None and self.rows is not None:
            joint, loss = evaluate(self.judge, self.data, self.rows, run.params, lam_of(self.member, run))
            if not np.isfinite(joint):
                raise ValueError(f"the loss on the validation rows is not finite after epoch {run.epoch}.")
            self.curve.append((run.epoch, joint, loss))
        if self.patience is None or joint < self.best:
            self.best, self.epoch = joint, run.epoch
            self.params, self.lam = final_pair(self.judge, self.member, run)
        return self.patience is not None and run.epoch - self.epoch >= self.patience

    def history(self) -> pd.DataFrame:
        """Losses by epoch."""
        table = training_losses(self.run)
        return with_curve(table, self.curve, curve_columns("validation", self.judge)) if self.curve else table


def _train_watched(problem: Problem, members: list[Member], watchers: list[_Watcher]) -> None:
    bar, tick = progress.progress_bar(problem.verbose, "training", sum(member.rates.size for member in members))
    chunk = None if watchers[0].data is None else 1

    def watch(number: int, run: Run) -> bool:
        tick(len(run.trace[-1]))
        return watchers[number](run)

    with bar:
        train(problem.plan, members, threads=problem.threads, chunk=chunk, watch=watch)


def _result(watchers: list[_Watcher]) -> TrainingResult:
    params, lams = np.stack([w.params for w in watchers]), np.array([w.lam for w in watchers])
    return TrainingResult(params, lams, np.array([w.epoch for w in watchers]), [w.history() for w in watchers])


# ---------------------------------------------------------------- cross-validation


def cross_validated(
    problem: Problem, validation: Data | None = None, judging_members: int | None = None
) -> TrainingResult:
    """Choose the number of epochs by holding out each fold in turn, then train one member for each seed on all rows.

    One member for each fold searches for the number. Members are then trained without each fold exactly as they will be
    on all rows, and their losses on that fold give the scale. A mixture expects more than its members do, so there
    must be as many members as in the final model; `judging_members` are enough where the expected loss is their mean.
    """
    if len(np.unique(problem.fold)) == 1:  # no rows would be left to learn from
        return fixed(problem, problem.members(MIN_EPOCHS), validation)
    best, curve = _best_epochs(problem)
    epochs = best + round(COOLDOWN * best)

    def make_member(rows: Rows, seed: int, epochs: int) -> Member:
        return with_cooldown(problem.make_member, rows, seed, epochs)

    cooled = replace(problem, make_member=make_member)
    held_out = trained_without_folds(cooled, epochs, problem.seeds[:judging_members])
    result = fixed(cooled, cooled.members(epochs), validation)
    columns = curve_columns("cv", problem.judge)
    history = [with_curve(table, curve, columns) for table in result.history]
    known = [(problem.data, problem.rows)] * len(problem.seeds)
    ranges = extended_xi_ranges(problem.plan, list(result.params), known)
    return replace(result, history=history, held_out=held_out, xi_ranges=ranges)


def trained_without_folds(problem: Problem, epochs: int, seeds: list[int]) -> tuple[HeldOutPart, ...]:
    """Hold out each fold in turn, and train one member for each seed on the others; empty if there is one fold."""
    held_out, training_rows = problem.folds()
    if len(held_out) == 1 or not seeds:
        return ()
    return trained_without(problem, held_out, problem.ensembles(training_rows, epochs, seeds))


def trained_without(
    problem: Problem, held_out: Sequence[Rows], ensembles: Sequence[Sequence[Member]]
) -> tuple[HeldOutPart, ...]:
    """Train ensembles of members, each with the rows that are held out of it."""
    members = [member for ensemble in ensembles for member in ensemble]
    runs = train(problem.plan, members, threads=problem.threads)
    pairs = iter([final_pair(problem.plan, member, run) for member, run in zip(members, runs, strict=True)])
    parts = []
    for rows, ensemble in zip(held_out, ensembles, strict=True):
        own = [next(pairs) for _ in ensemble]
        params, lams = [params for params, _ in own], np.array([lam for _, lam in own])
        ranges = extended_xi_ranges(problem.plan, params, [(member.data, member.rows) for member in ensemble])
        parts.append(HeldOutPart(problem.data, rows, params, lams, ranges))
    return tuple(parts)


def with_cooldown(make_member: MakeMember, rows: Rows, seed: int, epochs: int) -> Member:
    """A member whose rate falls to zero over the last of its `epochs`, which averages out the noise of the steps."""
    member = make_member(rows, seed, epochs)
    steady = round(epochs / (1 + COOLDOWN))
    fall = np.concatenate([np.ones(steady), np.linspace(1, 0, epochs - steady + 1, endpoint=False)[1:]])
    return replace(member, rates=member.rates * fall)


def _best_epochs(problem: Problem) -> tuple[int, list[tuple[float, ...]]]:
    """The number of epochs with the least joint loss on held-out rows, and the curve of losses."""
    held_out, training_rows = problem.folds()
    largest = max(len(rows) for rows in training_rows)
    steps = -(-largest // min(problem.plan.batch_size, largest))
    most = int(np.clip(MAX_STEPS // steps, MIN_EPOCHS, MAX_EPOCHS))
    members = [problem.make_member(rows, problem.seeds[0], most) for rows in training_rows]
    runs = [begin(problem.plan, member) for member in members]
    sizes = [problem.data.weight[rows].sum() for rows in held_out]
    best, best_epochs = np.inf, 1
    curve: list[tuple[float, ...]] = []

    def train_until(k: int, epoch: int) -> tuple[float, float]:
        advance(problem.plan, members[k], runs[k], epoch - runs[k].epoch, k)
        return evaluate(problem.judge, problem.data, held_out[k], runs[k].params, lam_of(members[k], runs[k]))

    bar, tick = progress.progress_bar(problem.verbose, "choosing the number of epochs", most)
    with bar, ThreadPoolExecutor(problem.threads) as pool:
        for epoch in _evaluated_epochs(most):
            tick(epoch - runs[0].epoch)
            losses = list(pool.map(train_until, range(len(held_out)), [epoch] * len(held_out)))
            joint, loss = np.average(losses, axis=0, weights=sizes)
            curve.append((epoch, joint, loss))
            if joint < best:
                best, best_epochs = joint, epoch
            if epoch > PATIENCE * best_epochs + 10:
                break
    return best_epochs, curve


def _evaluated_epochs(most: int) -> list[int]:
    epochs = [1]
    while epochs[-1] < most:
        epochs.append(min(most, max(epochs[-1] + 1, round(GROWTH * epochs[-1]))))
    return epochs
