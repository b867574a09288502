"""Settings that make each estimator quick to fit; what holds for them holds for any."""

from sklearn.linear_model import Ridge

from aleator.registry import MODELS

QUICK = {
    "PairRegressor": {"epochs": 10, "rescale": False},
    "PairEnsemble": {"epochs": 10, "rescale": False, "n_members": 2},
    "LossQuantifier": {"estimator": Ridge(), "n_members": 2},
    "PlainRegressor": {"epochs": 10},
    "MeanVarianceRegressor": {"epochs": 10, "rescale": False},
    "MeanVarianceEnsemble": {"epochs": 10, "rescale": False, "n_members": 2},
    "BetaNLLRegressor": {"epochs": 10, "rescale": False},
    "DropoutRegressor": {"epochs": 10, "n_passes": 6},
    "SVGDRegressor": {"iterations": 60, "n_particles": 4},
    "PBPRegressor": {"epochs": 3},
}
QUANTIFY = [name for name in MODELS if name != "PlainRegressor"]
SEVERAL = {"PairEnsemble", "MeanVarianceEnsemble", "DropoutRegressor", "SVGDRegressor", "PBPRegressor"}
