"""Section 8 as data: the folds, the methods with their published settings, the measures. `run` carries it out.

A `Trial` is one cell of one fold: a data set, an objective, a method with its settings, and the number of the fold.
What it gives depends on nothing else: the same trial is the same bits on a machine of the kind, alone or beside others.
"""

import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor

from aleator import LossQuantifier, PairEnsemble, PairRegressor, metrics
from aleator.baselines import (
    BetaNLLRegressor,
    DropoutRegressor,
    MeanVarianceEnsemble,
    MeanVarianceRegressor,
    PBPRegressor,
    SVGDRegressor,
)
from aleator.datasets import Dataset
from aleator.suggestions import suggestion

Floats = NDArray[np.floating[Any]]
Rows = NDArray[np.int64]
Settings = Mapping[str, Any]

PUBLISHED: dict[str, Any] = tomllib.loads((Path(__file__).parent / "published.toml").read_text(encoding="utf-8"))

SETS = ("boston", "concrete", "power", "yacht", "kin8nm")
BORROWED = {"msd_sample": "msd", "msd_shaped": "msd", "diabetes": "boston"}  # sets without settings of their own
OBJECTIVES = {"rmse": "squared", "mae": "absolute"}  # the loss that each is about
FOLDS = 50
TRAIN = 0.95
LAMS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COVERAGE = 0.9
MEASURES = ("error", "auc", "expected", "realised", "nll", "crps", "coverage")


# ---------------------------------------------------------------- folds


def fold(dataset: Dataset, number: int) -> tuple[Rows, Rows]:
    """Rows to train on and to test on: 95 % at random, the same for every method; or the official split, fold 0."""
    n = len(dataset.y)
    if dataset.split is not None:
        return np.arange(dataset.split), np.arange(dataset.split, n)
    order = np.random.default_rng(number).permutation(n)
    train, test = np.split(order, [round(TRAIN * n)])
    return train, test


# ---------------------------------------------------------------- methods


@dataclass(frozen=True)
class Method:
    """A row of the tables: how to make its model for a loss from settings, and whose hyperparameters it takes.

    `family` names the row of the paper's appendix, "ml" or "pair"; None for methods that have their authors' settings.
    `numbers` gets a new text when this method alone computes other numbers: its records have another name then.
    """

    label: str
    model: Callable[[str, Settings], Any]
    family: str | None = None
    ours: bool = False  # not in the paper's tables
    ensemble: bool = False
    numbers: str = ""


def _trained(settings: Settings, *names: str) -> dict[str, Any]:
    """How the paper trains networks: Nesterov's momentum of 0.9 at a fixed rate, no penalty. Threads are for folds."""
    wanted = ("hidden", "batch_size", "learning_rate", "epochs", *names)
    return {
        "optimizer": "nesterov",
        "momentum": 0.9,
        "l2": 0.0,
        **STANDARD,
        "n_jobs": 1,
        **{name: settings[name] for name in wanted},
    }


def _as_published(settings: Settings, *names: str) -> dict[str, Any]:
    """... and quantifiers: no rows are held out, so the expected loss is not rescaled."""
    return _trained(settings, *names) | {"rescale": False}


def _boosting(loss: str) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(
        loss="squared_error" if loss == "squared" else "absolute_error", random_state=0
    )


MEMBERS = 5
STANDARD: Any = {"scaling": "standard"}  # inputs by mean and standard deviation, as in the paper
METHODS = {
    "ml": Method("ML", lambda loss, s: MeanVarianceRegressor(loss=loss, **_as_published(s, "dropout")), "ml"),
    # 1,000 iterations, the default of the authors' class, is what the paper's cells fit (benchmarks/baselines.txt)
    "svgd": Method(
        "SVGD", lambda loss, s: SVGDRegressor(loss=loss, hidden=s["hidden"], iterations=1000, shuffle=False, **STANDARD)
    ),
    "pbp": Method("PBP", lambda loss, s: PBPRegressor(loss=loss, hidden=s["hidden"], **STANDARD)),
    "pair": Method("pair", lambda loss, s: PairRegressor(loss=loss, **_as_published(s, "dropout", "lam")), "pair"),
    "ens_ml": Method(
        "EnsML",
        lambda loss, s: MeanVarianceEnsemble(n_members=MEMBERS, loss=loss, **_as_published(s)),
        "ml",
        ensemble=True,
    ),
    "ens_pair": Method(
        "ensemble of pairs",
        lambda loss, s: PairEnsemble(n_members=MEMBERS, loss=loss, **_as_published(s, "lam")),
        "pair",
        ensemble=True,
    ),
    "auto": Method("PairEnsemble()", lambda loss, s: PairEnsemble(loss=loss, n_jobs=1), ours=True, ensemble=True),
    "quantifier": Method(
        "boosting + quantifier",
        lambda loss, s: LossQuantifier(_boosting(loss), loss=loss, n_jobs=1),
        ours=True,
        numbers="mixed quantifiers, fold correction",
    ),
    "dropout": Method(
        "MC dropout",
        lambda loss, s: DropoutRegressor(loss=loss, **_trained({**s, "dropout": 0.1}, "dropout")),
        "pair",
        ours=True,
    ),
    "beta_nll": Method(
        "beta-NLL", lambda loss, s: BetaNLLRegressor(loss=loss, **_as_published(s, "dropout")), "ml", ours=True
    ),
}


def published_settings(dataset: str, objective: str, method: str) -> dict[str, Any]:
    """The paper's settings of a method. Ensembles have no dropout, and the rate and epochs of the single model."""
    known = BORROWED.get(dataset, dataset)
    family = METHODS[method].family
    chosen = PUBLISHED["hyperparameters"][objective][known][family] if family else {}
    settings = {"hidden": (PUBLISHED["hidden"][known],), "batch_size": PUBLISHED["batch_size"][known], **chosen}
    return settings | ({"dropout": 0.0} if METHODS[method].ensemble else {})


def published(dataset: str, method: str = "ens_pair", objective: str = "rmse") -> Any:
    """Make an unfitted model with the paper's settings for one of its data sets.

    Parameters
    ----------
    dataset : str
        "boston", "concrete", "power", "yacht", "kin8nm" or "msd".
    method : str, default="ens_pair"
        "pair", "ens_pair", "ml", "ens_ml", "svgd" or "pbp".
    objective : {"rmse", "mae"}, default="rmse"
        Squared loss or absolute loss.

    Returns
    -------
    estimator
        The unfitted model.

    Raises
    ------
    ValueError
        If a name is unknown.

    Examples
    --------
    >>> from aleator.paper import published
    >>> published("boston").n_members
    5
    """
    for what, given, known in (
        ("dataset", dataset, [*SETS, "msd", *BORROWED]),
        ("method", method, list(METHODS)),
        ("objective", objective, list(OBJECTIVES)),
    ):
        if given not in known:
            raise ValueError(f"no {what} {given!r}{suggestion(given, known)}")
    return METHODS[method].model(OBJECTIVES[objective], published_settings(dataset, objective, method))


# ---------------------------------------------------------------- trials


@dataclass(frozen=True)
class Trial:
    """One method on one fold."""

    dataset: str
    objective: str
    method: str
    fold: int
    settings: Settings

    def model(self) -> Any:
        """The model to fit; the number of the fold is its seed."""
        model = METHODS[self.method].model(OBJECTIVES[self.objective], dict(self.settings))
        return model.set_params(random_state=self.fold)

    def facts(self) -> dict[str, Any]:
        """What determines the outcome, but the data."""
        numbers = METHODS[self.method].numbers
        return {"kind": "trial", **vars(self), "settings": dict(self.settings)} | (
            {"numbers": numbers} if numbers else {}
        )

    def perform(self, dataset: Dataset) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Fit on the training rows, predict the test rows: the measures, and the answer for each row."""
        train, test = fold(dataset, self.fold)
        start = time.perf_counter()
        model = self.model().fit(dataset.X[train], dataset.y[train])
        seconds = time.perf_counter() - start
        prediction = model.predict_uncertainty(dataset.X[test])
        measured = measures(self.objective, dataset.y[test], prediction.prediction, prediction.expected_loss)
        for name, value in measured.items():
            if not np.isfinite(value):
                raise ArithmeticError(f"the {name} is not finite.")
        outcome = {"measures": measured, "fit_seconds": seconds, "seed": self.fold}
        return outcome, {"y_pred": prediction.prediction, "expected_loss": prediction.expected_loss}


def measures(objective: str, y: Floats, y_pred: Floats, expected_loss: Floats) -> dict[str, float]:
    """Error and AUC (sec. 8), mean expected and realised loss; and, with the Gaussian (Laplace) distribution that has
    this expected loss, negative log-likelihood, CRPS, and the share of targets in its central 90 % interval.
    """
    squared = objective == "rmse"
    distribution = "gaussian" if squared else "laplace"
    realised = float(np.mean((y - y_pred) ** 2 if squared else np.abs(y - y_pred)))
    least = np.finfo(np.float64).tiny  # an ensemble may be sure
    scale = np.sqrt(np.maximum(expected_loss, least)) if squared else np.maximum(expected_loss, least)
    half = scale * (norm.ppf((1 + COVERAGE) / 2) if squared else -np.log1p(-COVERAGE))
    return {
        "error": float(np.sqrt(realised)) if squared else realised,
        "auc": metrics.rejection_auc(y, y_pred, expected_loss, objective),
        "expected": float(np.mean(expected_loss)),
        "realised": realised,
        "nll": metrics.nll(y, y_pred, scale, distribution),
        "crps": metrics.crps(y, y_pred, scale, distribution),
        "coverage": metrics.coverage(y, y_pred - half, y_pred + half),
    }
