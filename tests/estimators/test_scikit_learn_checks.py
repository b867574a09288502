"""scikit-learn's checks of every estimator: as they come, but for fewer members or particles, and a shorter training."""

import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from aleator import LossQuantifier, PairEnsemble, PairRegressor, registry
from aleator.baselines import (
    BetaNLLRegressor,
    DropoutRegressor,
    MeanVarianceEnsemble,
    MeanVarianceRegressor,
    PBPRegressor,
    PlainRegressor,
    SVGDRegressor,
)

pytestmark = pytest.mark.usefixtures("short_training")

ESTIMATORS = [
    PairRegressor(n_jobs=1),
    PairEnsemble(n_members=2, n_jobs=1),
    LossQuantifier(Ridge(), n_members=1),
    LossQuantifier(HistGradientBoostingRegressor(max_iter=20), n_members=2, epochs=5, rescale=False),
    PlainRegressor(),
    MeanVarianceRegressor(),
    MeanVarianceEnsemble(n_members=2),
    BetaNLLRegressor(),
    DropoutRegressor(),
    SVGDRegressor(iterations=300, n_particles=4, learning_rate=0.02),  # far enough for the check of the score
    PBPRegressor(),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_every_estimator_is_checked():
    assert {type(estimator).__name__ for estimator in ESTIMATORS} == set(registry.MODELS)
