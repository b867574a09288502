"""The scikit-learn skin: estimators that read tables, train through the engine, and answer in the user's units."""

from aleator.estimators.encoding import TableEncoder
from aleator.estimators.loss_quantifier import LossQuantifier
from aleator.estimators.pair import PairEnsemble, PairRegressor
from aleator.estimators.prediction import Prediction

__all__ = ["LossQuantifier", "PairEnsemble", "PairRegressor", "Prediction", "TableEncoder"]
