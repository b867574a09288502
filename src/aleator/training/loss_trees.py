"""Quantifiers made of trees, which learn given losses as the networks of `loss_network.py` do (sec. 9 of the paper).

Any learner may be the quantifier; the coupling decides what it learns. Trees use f(z) = z, g(z) = -ln z with z > 0,
which meet Condition 3.1. The expected loss is e = -lam g'(z) / f'(z) = lam / z, and with lam = 1 the joint loss is

    L z - ln z = L / e + ln e,

half the deviance of a gamma distribution, which scikit-learn's gradient boosting minimises over ln e = -ln z. It does
not change with the unit of the loss, and its least mean is at e = E[L | x], whatever the distribution.

Newton's step for the value of a leaf is (L / e - 1) / (L / e). It is far too long where losses are much smaller than
expected, so losses count at least as `TREE_LEAST_LOSS`, and leaves have a penalty.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import ThreadpoolController

from aleator.array_types import AnyFloats, Floats, Rows
from aleator.training import defaults, progress
from aleator.training.given_losses import GivenLosses
from aleator.training.held_out import HeldOutLosses
from aleator.training.problem import member_seeds, threads
from aleator.training.settings import QuantifierSettings

Boosting: TypeAlias = Any  # HistGradientBoostingRegressor, which has no types


@dataclass(frozen=True)
class LossTrees:
    """K trained members, each with a boosting for each of Q losses, and the unit (Q,) of their losses."""

    members: tuple[tuple[Boosting, ...], ...]
    unit: Floats

    def expected_loss(self, Z: AnyFloats) -> Floats:
        """The expected loss (n, Q) of rows as the quantifier sees them, in the units of the loss."""
        total = sum(_predicted(boostings, Z) for boostings in self.members)
        expected: Floats = self.unit * total / len(self.members)
        return expected


@dataclass(frozen=True)
class LossTreesResult:
    """Trained members, their losses on held-out rows, the number of trees of each boosting, and how it was found."""

    trees: LossTrees
    held_out: HeldOutLosses | None
    n_trees: int
    history: pd.DataFrame


def fit_loss_trees(settings: QuantifierSettings, given: GivenLosses) -> LossTreesResult:
    """Train on given losses; the number of trees is that with the least joint loss on folds held out in turn."""
    seeds = [seed % 2**32 for seed in member_seeds(settings.random_state, settings.n_members)]
    folds = np.unique(given.fold[given.rows])
    control = ThreadpoolController()
    losses, n_threads = np.maximum(given.in_units(), defaults.TREE_LEAST_LOSS), threads(settings.n_jobs)
    bar, tick = progress.progress_bar(settings.verbose, "choosing the number of trees", len(folds) + len(seeds))

    of_a_leaf = int(np.clip(defaults.TREE_SHARE_OF_A_LEAF * len(given.rows), *defaults.TREE_ROWS_OF_A_LEAF))

    def fitted(rows: Rows, seed: int, n_trees: int) -> tuple[Boosting, ...]:
        chosen, weight = _repeated(rows, given.weight[rows])
        with control.limit(limits=1, user_api="openmp"):  # more threads would add up numbers in another order
            found = tuple(_boosting(seed, n_trees, of_a_leaf).fit(given.Z[chosen], L, weight) for L in losses[chosen].T)
        tick(1)
        return found

    def without_fold(fold: int, n_trees: int) -> tuple[Rows, Floats]:
        """The rows of a fold, and what boostings that have not seen it expect of them after each tree (T, n, Q)."""
        out = given.fold[given.rows] == fold
        boostings, rows = fitted(given.rows[~out], seeds[0], n_trees), given.rows[out]
        return rows, np.stack([np.stack(list(each.staged_predict(given.Z[rows]))) for each in boostings], axis=-1)

    with bar, ThreadPoolExecutor(n_threads) as pool:
        held_out, n_trees, joint = None, defaults.TREES[0], np.empty(0)
        for most in defaults.TREES if len(folds) > 1 else ():
            parts = list(pool.map(without_fold, folds, [most] * len(folds)))
            n_trees, held_out, joint = _best_length(given, parts)
            if n_trees < defaults.TREES_LEFT * most:
                break
        members = tuple(pool.map(lambda seed: fitted(given.rows, seed, n_trees), seeds))
    history = pd.DataFrame({"member": 0, "epoch": np.arange(len(joint)) + 1, "cv_joint_loss": joint})
    return LossTreesResult(LossTrees(members, given.unit), held_out, n_trees, history)


def _boosting(seed: int, n_trees: int, of_a_leaf: int) -> Boosting:
    return HistGradientBoostingRegressor(
        loss="gamma",
        learning_rate=defaults.TREE_RATE,
        max_iter=n_trees,
        max_leaf_nodes=defaults.TREE_LEAVES,
        min_samples_leaf=of_a_leaf,
        l2_regularization=defaults.TREE_PENALTY,
        max_features=defaults.TREE_FEATURES,
        early_stopping=False,
        random_state=seed,
    )


def _predicted(boostings: tuple[Boosting, ...], Z: AnyFloats) -> Floats:
    return np.column_stack([each.predict(Z) for each in boostings])


def _repeated(rows: Rows, weight: Floats) -> tuple[Rows, Floats | None]:
    """Rows as often as their weights say, if these are multiples of the least; trees count the rows of a leaf.

    Otherwise the rows with their weights.
    """
    times = weight / weight.min()
    whole = np.rint(times)
    if np.abs(times - whole).max() > 1e-9 * whole.max() or whole.sum() > defaults.TREE_COPIES * len(rows):
        return rows, weight
    return np.repeat(rows, whole.astype(np.int64)), None


def _best_length(given: GivenLosses, parts: list[tuple[Rows, Floats]]) -> tuple[int, HeldOutLosses, Floats]:
    """The number of trees with the least joint loss on held-out rows, what so many expect there, and the losses."""
    rows = np.concatenate([rows for rows, _ in parts])
    expected = np.concatenate([staged for _, staged in parts], axis=1)  # (T, n, Q)
    weight, L = given.weight[rows] / given.weight[rows].sum(), given.in_units()[rows]
    joint = np.array([float(weight @ (L / each + np.log(each)).mean(axis=1)) for each in expected])
    best = int(np.argmin(joint))
    return best + 1, HeldOutLosses(rows, given.L[rows], given.unit * expected[best], given.weight[rows]), joint
