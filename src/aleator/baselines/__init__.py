"""The methods the paper compares with, and three more: one method, one file, one contract."""

from aleator.baselines.beta_nll import BetaNLLRegressor
from aleator.baselines.dropout import DropoutRegressor
from aleator.baselines.mean_variance import MeanVarianceEnsemble, MeanVarianceRegressor
from aleator.baselines.pbp import PBPRegressor
from aleator.baselines.plain import PlainRegressor
from aleator.baselines.svgd import SVGDRegressor

__all__ = [
    "BetaNLLRegressor",
    "DropoutRegressor",
    "MeanVarianceEnsemble",
    "MeanVarianceRegressor",
    "PBPRegressor",
    "PlainRegressor",
    "SVGDRegressor",
]
