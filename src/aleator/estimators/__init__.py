"""The scikit-learn skin: estimators that read tables, train through the engine, and answer in the user's units."""

from aleator.estimators.loss_quantifier import LossQuantifier
from aleator.estimators.pair import PairEnsemble, PairRegressor
from aleator.estimators.prediction import Prediction
from aleator.preprocessing.table_encoder import TableEncoder

__all__ = ["LossQuantifier", "PairEnsemble", "PairRegressor", "Prediction", "TableEncoder"]
