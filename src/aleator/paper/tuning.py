"""The paper's grid search (appendix A), by AUC, with nothing of a test row in it.

Folds 5 k to 5 k + 4 share a choice. It is made on the rows that are in the training part of all five (about 77 %),
from which validation parts are held out; the AUC there, a mean over the parts, decides. So no target of a test row of
these folds has any influence on their settings, and 50 folds cost 10 searches. Every training is looked at after
several numbers of epochs, so these cost nothing more. Ensembles are searched for with three members in place of five:
what is best for a single model is not best for them, for their members may fit the noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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


DROPOUT = (0.0, 0.1, 0.2, 0.4)
_LARGE = Grid((8e-4, 1.6e-3), (0.2, 0.5, 1.0), DROPOUT, (20, 40, 80, 150, 300), 1, 0.15)
# Names what a search computes, as `records.NUMBERS` does for trials.
NUMBERS = "e37df789af99102a2d79c254f7e0ee2f12ba48ad04b3e56059a68acf66ab2aeb"

# For a single pair: rates around the published ones and above, where these proved too low. The fewer rows, the more
# parts are needed to tell one setting from another; the more rows, the dearer is each.
GRIDS = {
    "boston": Grid((8e-4, 1.6e-3, 3.2e-3), (0.1, 0.2, 0.5, 1.0), DROPOUT, (50, 100, 200, 400, 700, 1000), 5, 0.2),
    "concrete": Grid((8e-4, 1.6e-3, 3.2e-3), (0.1, 0.2, 0.5), DROPOUT, (100, 200, 400, 700, 1000), 2, 0.25),
    "yacht": Grid((8e-4, 1.6e-3, 3.2e-3), (0.1, 0.2, 0.5), DROPOUT, (200, 500, 1000, 2000), 3, 0.25),
    "power": _LARGE,
    "kin8nm": _LARGE,
}


def grid(dataset: str, method: str) -> Grid:
    """The grid of a data set for a method: ensembles have no dropout, ML has no lam and other rates."""
    if dataset.startswith("msd"):
        raise ValueError(f"there is no grid for {dataset}: its batches want rates of their own.")
    tried = GRIDS.get(dataset, GRIDS["boston"])
    if METHODS[method].family == "ml":
        tried = replace(tried, learning_rate=(5e-5, 1e-4, 2e-4, 4e-4), lam=())
    return replace(tried, dropout=(0.0,)) if METHODS[method].ensemble else tried


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
        base = published_settings(self.dataset, self.objective, self.method)
        return {
            "kind": "search",
            **vars(self),
            "grid": vars(self.grid),
            "base": base,
            "code": NUMBERS,
        }

    def perform(self, dataset: Dataset) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The chosen settings, and all that was tried with its AUC, best first."""
        base = published_settings(self.dataset, self.objective, self.method)
        lams: Sequence[dict[str, float]] = [{"lam": lam} for lam in self.grid.lam] or [{}]
        candidates = [
            {**base, "learning_rate": rate, "dropout": dropout, **lam}
            for rate, dropout, lam in product(self.grid.learning_rate, self.grid.dropout, lams)
        ]
        tried = self._scored(candidates, dataset, list(self._parts(dataset)))
        return {**tried[0], "tried": tried}, {}

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
                prediction = stage.predict_uncertainty(dataset.X[held])
                if not np.isfinite([prediction.prediction, prediction.expected_loss]).all():
                    break
                aucs.append(
                    metrics.rejection_auc(
                        dataset.y[held], prediction.prediction, prediction.expected_loss, self.objective
                    )
                )
        except DivergenceError:
            pass
        return aucs + [np.nan] * (len(self.grid.epochs) - len(aucs))
