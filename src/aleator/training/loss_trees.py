"""Quantifiers made of trees, which learn given losses as the networks of `loss_network.py` do (sec. 9 of the paper).

Any learner may be the quantifier; the coupling decides what it learns. Trees use f(z) = z, g(z) = -ln z with z > 0,
which meet Condition 3.1. The expected loss is e = -lam g'(z) / f'(z) = lam / z, and with lam = 1 the joint loss is

    L z - ln z = L / e + ln e,

up to terms without e half the deviance of a gamma distribution, which scikit-learn's gradient boosting minimises over
ln e = -ln z. Its least mean is at e = E[L | x], whatever the distribution and the unit of the loss.

Newton's step for the value of a leaf is (L / e - 1) / (L / e). It is far too long where losses are much smaller than
expected, so losses count at least as `TREE_LEAST_LOSS`, and leaves have a penalty.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import ThreadpoolController

from aleator.array_types import AnyFloats, Floats, Rows
from aleator.preprocessing.standardisation import repetitions
from aleator.training import defaults, progress
from aleator.training.given_losses import GivenLosses
from aleator.training.held_out import HeldOutLosses
from aleator.training.problem import member_seeds, threads
from aleator.training.settings import QuantifierSettings

Model: TypeAlias = Any  # HistGradientBoostingRegressor, which has no types


@dataclass(frozen=True)
class LossTrees:
    """K trained members, each with a gradient boosting model for each of Q losses, and the losses' unit (Q,)."""

    members: tuple[tuple[Model, ...], ...]
    unit: Floats

    def expected_loss(self, Z: AnyFloats) -> Floats:
        """The expected loss (n, Q) of rows as the quantifier sees them, in the units of the loss."""
        with _one_thread():
            total = sum(np.column_stack([model.predict(Z) for model in models]) for models in self.members)
        expected: Floats = self.unit * total / len(self.members)
        return expected


@dataclass(frozen=True)
class LossTreesResult:
    """Trained members, their losses on held-out rows, the number of trees of each model, and how it was found."""

    trees: LossTrees
    held_out: HeldOutLosses | None
    n_trees: int
    history: pd.DataFrame


def fit_loss_trees(settings: QuantifierSettings, given: GivenLosses) -> LossTreesResult:
    """Train on given losses; the number of trees is that with the least joint loss on folds held out in turn."""
    seeds = [seed % 2**32 for seed in member_seeds(settings.random_state, settings.n_members)]
    folds = np.unique(given.fold[given.rows])
    judged = len(folds) > 1  # else no rows would be left to learn from
    training = _Training(given, threads(settings.n_jobs), float(given.weight[given.rows].min()))
    searches = defaults.TREES if judged else ()
    bar, tick = progress.progress_bar(settings.verbose, "training trees", len(searches) + len(seeds))
    held_out, n_trees, joint = None, defaults.TREES[0], np.empty(0)
    searched: list[_HeldOutFold] = []

    def member(k: int) -> tuple[Model, ...]:
        models = training.fitted(_thinned(given.rows, defaults.TREE_MEMBER_ROWS, k), seeds[k], n_trees)
        tick(1)
        return models

    with bar:
        for most in searches:
            searched = training.each(partial(_without_fold, training, seeds[0], most), folds)
            joint = _joint_losses(given, searched)
            n_trees = int(np.argmin(joint)) + 1
            tick(1)
            if n_trees < defaults.TREES_LEFT * most:
                break
        if judged:
            parts = training.each(lambda part: part.expected_losses(given.Z, n_trees), searched)
            rows = np.concatenate([part.rows for part in searched])
            held_out = HeldOutLosses(rows, given.L[rows], given.unit * np.concatenate(parts), given.weight[rows])
        members = tuple(training.each(member, range(len(seeds))))
    history = pd.DataFrame({"member": 0, "epoch": np.arange(len(joint)) + 1, "cv_joint_loss": joint})
    return LossTreesResult(LossTrees(members, given.unit), held_out, n_trees, history)


@dataclass(frozen=True)
class _Training:
    """Fits gradient boosting models to given losses, several at a time; `one` is the weight of one observation."""

    given: GivenLosses
    threads: int
    one: float

    def each(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """The results of some work, each on one thread."""

        def on_one_thread(item: Any) -> Any:
            with _one_thread():
                return work(item)

        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(on_one_thread, items))

    def fitted(self, rows: Rows, seed: int, n_trees: int) -> tuple[Model, ...]:
        """A model for each loss."""
        least = int(np.clip(defaults.TREE_SHARE_OF_A_LEAF * len(self.given.rows), *defaults.TREE_ROWS_OF_A_LEAF))
        weight: Floats | None = self.given.weight[rows]
        times = repetitions(self.given.weight[rows], self.one, defaults.TREE_COPIES * len(self.given.Z))
        if times is not None:  # trees count the rows of a leaf, and to them a weight of two is not quite two rows
            rows, weight = np.repeat(rows, times), None
        losses = np.maximum(self.given.in_units()[rows], defaults.TREE_LEAST_LOSS)
        return tuple(_model(seed, n_trees, least).fit(self.given.Z[rows], L, weight) for L in losses.T)


@dataclass(frozen=True)
class _HeldOutFold:
    """The rows of a fold, and models that have not seen it.

    `expected` (T, j, Q) is what they expect after each tree, in units, of the rows `judged` (j,).
    """

    rows: Rows
    models: tuple[Model, ...]
    judged: Rows
    expected: Floats

    def expected_losses(self, Z: AnyFloats, n_trees: int) -> Floats:
        """What so many trees expect of all rows (n, Q), in units."""
        after = [next(islice(model.staged_predict(Z[self.rows]), n_trees - 1, None)) for model in self.models]
        return np.column_stack(after)


def _without_fold(training: _Training, seed: int, n_trees: int, fold: int) -> _HeldOutFold:
    given = training.given
    out = given.fold[given.rows] == fold
    models = training.fitted(_thinned(given.rows[~out], defaults.TREE_SEARCH_ROWS), seed, n_trees)
    rows, judged = given.rows[out], _thinned(given.rows[out], defaults.TREE_JUDGED_ROWS)
    expected = np.stack([np.stack(list(model.staged_predict(given.Z[judged]))) for model in models], axis=-1)
    return _HeldOutFold(rows, models, judged, expected)


def _thinned(rows: Rows, enough: int, first: int = 0) -> Rows:
    """Rows at equal distances in their order, at least `enough` of them; all if there are not twice as many."""
    step = max(1, len(rows) // enough)
    return rows[first % step :: step]


def _joint_losses(given: GivenLosses, searched: list[_HeldOutFold]) -> Floats:
    """The mean joint loss of held-out rows after each tree."""
    rows = np.concatenate([part.judged for part in searched])
    expected = np.concatenate([part.expected for part in searched], axis=1)  # (T, n, Q)
    weight, L = given.weight[rows] / given.weight[rows].sum(), given.in_units()[rows]
    return np.array([float(weight @ (L / each + np.log(each)).mean(axis=1)) for each in expected])


def _model(seed: int, n_trees: int, rows_of_a_leaf: int) -> Model:
    return HistGradientBoostingRegressor(
        loss="gamma",
        learning_rate=defaults.TREE_RATE,
        max_iter=n_trees,
        max_leaf_nodes=defaults.TREE_LEAVES,
        min_samples_leaf=rows_of_a_leaf,
        l2_regularization=defaults.TREE_PENALTY,
        max_features=defaults.TREE_FEATURES,
        early_stopping=False,
        random_state=seed,
    )


def _one_thread() -> Any:
    """A context in which OpenMP has one thread, in this thread: more would add up numbers in another order."""
    return _libraries().limit(limits=1, user_api="openmp")


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
