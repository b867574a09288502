"""The paper's grid search (appendix A), by AUC, with nothing of a test row in it.

Folds 5 k to 5 k + 4 share a choice. It is made on the rows that are in the training part of all five (about 77 %),
from which validation parts are held out; the AUC there, a mean over the parts, decides. So no target of a test row of
these folds has any influence on their settings, and 50 folds cost 10 searches. Every training is looked at after
several numbers of epochs, so these cost nothing more. Ensembles are searched for with three members in place of five:
what is best for a single model is not best for them, for their members may fit the noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import metrics
from aleator.datasets import Dataset
from aleator.engine import DivergenceError
from aleator.paper.protocol import METHODS, OBJECTIVES, Settings, fold, published_settings

GROUP = 5  # folds that share a choice
MEMBERS = 3  # of an ensemble in the search
TUNABLE = ("ml", "pair", "ens_ml", "ens_pair")


@dataclass(frozen=True)
class Grid:
    """What is tried. `parts` is the number of validation parts, each a `share` of the rows."""

    learning_rate: tuple[float, ...]
    lam: tuple[float, ...]
    dropout: tuple[float, ...]
    epochs: tuple[int, ...]
    parts: int
    share: float


def grid(dataset: str, method: str) -> Grid:
    """The grid of a data set: rates around the published ones and above, where the published ones proved too low."""
    small = dataset in ("boston", "concrete", "yacht")
    epochs: tuple[int, ...] = (50, 100, 200, 400, 700, 1000) if small else (20, 40, 80, 150, 300)
    rates, lams = ((5e-5, 1e-4, 2e-4, 4e-4), ()) if METHODS[method].family == "ml" else _pairs_grid(small)
    parts, share = {"boston": (5, 0.2), "concrete": (3, 0.25), "yacht": (3, 0.25)}.get(dataset, (1, 0.15))
    dropout = (0.0,) if METHODS[method].ensemble else (0.0, 0.1, 0.2, 0.4)
    return Grid(rates, lams, dropout, (200, 500, 1000, 2000) if dataset == "yacht" else epochs, parts, share)


def _pairs_grid(small: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return (8e-4, 1.6e-3, 3.2e-3) if small else (4e-4, 8e-4, 1.6e-3), (0.1, 0.2, 0.5, 1.0)


def group(number: int) -> range:
    """The folds that share a choice with this one."""
    first = number - number % GROUP
    return range(first, first + GROUP)


def common_rows(dataset: Dataset, folds: Sequence[int]) -> NDArray[np.int64]:
    """Rows that are in the training part of all these folds."""
    inside = np.ones(len(dataset.y), bool)
    for number in folds:
        inside[fold(dataset, number)[1]] = False
    return np.flatnonzero(inside)


@dataclass(frozen=True)
class Search:
    """The choice of settings for a method on a group of folds; `fold` is the first of them."""

    dataset: str
    objective: str
    method: str
    fold: int
    grid: Grid = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", grid(self.dataset, self.method))

    def facts(self) -> dict[str, Any]:
        """What determines the outcome, but the data."""
        return {"kind": "search", **vars(self), "grid": vars(self.grid), "group": GROUP, "members": MEMBERS}

    def perform(self, dataset: Dataset) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The chosen settings, and all that was tried with its AUC, best first."""
        base = published_settings(self.dataset, self.objective, self.method)
        lams: Sequence[dict[str, float]] = [{"lam": lam} for lam in self.grid.lam] or [{}]
        candidates = [
            {**base, "learning_rate": rate, "dropout": dropout, **lam}
            for rate, dropout, lam in product(self.grid.learning_rate, self.grid.dropout, lams)
        ]
        tried = self._scored(candidates, dataset, list(self._parts(dataset)))
        return {**tried[0], "tried": tried}, {"none": np.zeros(0)}

    def _parts(self, dataset: Dataset) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Rows to train on and to validate on."""
        rows = common_rows(dataset, group(self.fold))
        for part in range(self.grid.parts):
            order = np.random.default_rng([self.fold, part]).permutation(rows)
            held, learned = np.split(order, [round(self.grid.share * len(rows))])
            yield learned, held

    def _scored(self, candidates: list[dict[str, Any]], dataset: Dataset, parts: list[Any]) -> list[dict[str, Any]]:
        """Every candidate after every number of epochs with its mean AUC, best first; those that diverge are out."""
        scored = []
        for settings in candidates:
            aucs = np.array([self._aucs(settings, dataset, *part) for part in parts])  # (parts, epochs)
            for epochs, auc in zip(self.grid.epochs, aucs.mean(axis=0), strict=True):
                if np.isfinite(auc):
                    scored.append({"settings": {**settings, "epochs": epochs}, "auc": float(auc)})
        if not scored:
            raise DivergenceError("every combination of the grid diverges.")
        return sorted(scored, key=lambda each: each["auc"])

    def _aucs(self, settings: Settings, dataset: Dataset, learned: Any, held: Any) -> list[float]:
        """AUC on the rows held out after each number of epochs; NaN from where training diverges."""
        longest = {**settings, "epochs": self.grid.epochs[-1]}
        model = METHODS[self.method].model(OBJECTIVES[self.objective], longest).set_params(random_state=self.fold)
        if METHODS[self.method].ensemble:
            model.set_params(n_members=MEMBERS)
        aucs: list[float] = []
        try:
            for stage in model.fit_staged(dataset.X[learned], dataset.y[learned], self.grid.epochs):
                said = stage.predict_uncertainty(dataset.X[held])
                aucs.append(metrics.rejection_auc(dataset.y[held], said.mean, said.expected_loss, self.objective))
        except (DivergenceError, ValueError):  # ValueError: what was said is not finite
            aucs += [np.nan] * (len(self.grid.epochs) - len(aucs))
        return aucs
