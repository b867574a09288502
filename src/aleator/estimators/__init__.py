"""The scikit-learn skin: estimators that read tables, train through the engine, and answer in the user's units."""

from os import PathLike
from typing import Any

from aleator.estimators import saving
from aleator.estimators.loss_quantifier import LossQuantifier
from aleator.estimators.pair import PairEnsemble, PairRegressor
from aleator.estimators.prediction import Prediction

__all__ = ["LossQuantifier", "PairEnsemble", "PairRegressor", "Prediction", "load"]

KINDS = {kind.__name__: kind for kind in (PairRegressor, PairEnsemble, LossQuantifier)}


def load(path: str | PathLike[str], estimator: Any = None) -> Any:
    """Read a model that `save` wrote. Nothing in the file is executed; a damaged file is refused with a ValueError.

    `estimator` is the regressor of a `LossQuantifier` whose file could not hold it, fitted as it was then.
    """
    return saving.load(path, KINDS, estimator)
