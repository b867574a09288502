"""What is to be trained: an objective, rows with their folds, and members made from random seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from aleator import couplings, objectives
from aleator.array_types import Floats, Integers, Rows
from aleator.engine import Data, Member, Network, Plan
from aleator.losses import Loss
from aleator.objectives import Objective
from aleator.preprocessing.parameter_checks import schedule
from aleator.training import defaults
from aleator.training.settings import TrainingSettings, lam_is_auto, lam_setting

# Makes a member from its rows, its random seed and the number of epochs its schedules cover.
MakeMember = Callable[[Rows, int, int], Member]


@dataclass(frozen=True)
class Problem:
    """Members to train on `rows` of `data`, one for each of `seeds`.

    Attributes
    ----------
    plan : what all members have in common.
    judge : the plan with an objective whose values can be compared between epochs.
    fold, group : for each of `rows`, the fold it is held out with and the group it belongs to.
    make_member : makes a member from rows, a seed and a number of epochs.
    """

    plan: Plan
    judge: Plan
    data: Data
    rows: Rows
    fold: Integers
    group: Integers
    seeds: list[int]
    make_member: MakeMember
    threads: int = 1
    verbose: bool = False

    def folds(self) -> tuple[list[Rows], list[Rows]]:
        """For each fold, the rows it holds out and the rows it trains on."""
        names = np.unique(self.fold)
        return [self.rows[self.fold == k] for k in names], [self.rows[self.fold != k] for k in names]

    def members(self, epochs: int) -> list[Member]:
        """Members that learn from all rows."""
        return [self.make_member(self.rows, seed, epochs) for seed in self.seeds]

    def ensembles(self, training_rows: Sequence[Rows], epochs: int, seeds: Sequence[int]) -> list[list[Member]]:
        """Members for each of these sets of rows."""
        return [[self.make_member(rows, seed, epochs) for seed in seeds] for rows in training_rows]


def problem(
    settings: TrainingSettings,
    network: Network,
    loss: Loss,
    objective: Objective,
    data: Data,
    rows: Rows,
    fold: Integers,
    seeds: list[int],
    group: Integers | None = None,
) -> Problem:
    """The problem that an estimator's settings describe."""
    plan = Plan(
        network=network,
        loss=loss,
        objective=objective,
        batch_size=defaults.batch_size(settings, len(rows)),
        optimizer=settings.optimizer,
        momentum=settings.momentum,
        l2=defaults.l2(settings) / len(rows),
        clip=settings.clip or 0.0,
    )
    # Joint losses can be compared between epochs only if lam stays the same.
    lam_changes = callable(lam_setting(settings)) or lam_is_auto(settings)
    judge = objectives.log_score(objective) if lam_changes else objective.judge or objective
    return Problem(
        plan=plan,
        judge=replace(plan, objective=judge),
        data=data,
        rows=rows,
        fold=fold,
        group=np.arange(len(rows)) if group is None else group,
        seeds=seeds,
        make_member=member_maker(settings, data),
        threads=threads(settings.n_jobs),
        verbose=settings.verbose,
    )


def member_maker(settings: TrainingSettings, data: Data, kappa: tuple[float, float] = defaults.KAPPA) -> MakeMember:
    """Members that learn from `data` with an estimator's rates, lams and dropout; lam="auto" follows `kappa`."""
    lam: Any = lam_setting(settings)

    def make_member(rows: Rows, seed: int, epochs: int) -> Member:
        rates: Floats = schedule("learning_rate", defaults.learning_rate(settings), epochs)
        if lam_is_auto(settings):
            coupling = couplings.get(settings.coupling)  # type: ignore[attr-defined]
            return defaults.auto_member(data, rows, seed, kappa, rates, settings.dropout, coupling)
        return Member(data, rows, seed, schedule("lam", lam, epochs), rates, settings.dropout)

    return make_member


def threads(n_jobs: int | None) -> int:
    """The number of threads that `n_jobs` means."""
    return int(joblib.effective_n_jobs(n_jobs))


def member_seeds(random_state: Any, n: int) -> list[int]:
    """One seed for each member; the first does not depend on how many there are."""
    try:
        base = int(check_random_state(random_state).randint(2**32, dtype=np.uint64))
    except ValueError as error:
        raise ValueError(f"random_state: {error}") from None
    return [int(np.random.SeedSequence([base, k]).generate_state(1, np.uint64)[0]) for k in range(n)]
