"""A network without a quantifier: the standard regressor of the paper's figures."""

from dataclasses import dataclass
from typing import Any, Never

from aleator.estimators.documented import documented
from aleator.estimators.network_regressor import NetworkRegressor
from aleator.losses import Loss
from aleator.objectives import OBJECTIVES, Objective
from aleator.training.settings import RegressorSettings


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PlainRegressor(RegressorSettings, NetworkRegressor):
    """A neural network trained on the loss alone; it does not predict how wrong it will be.

    Parameters
    ----------
    loss : str or Loss
        Loss of a prediction: "squared", "absolute", "huber(delta)", "pinball(q)", "logcosh", or a `Loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator.baselines import PlainRegressor
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=300)
    >>> model = PlainRegressor(epochs=20).fit(X, y)
    >>> model.predict([[0.1], [0.9]]).shape
    (2,)
    """

    loss: str | Loss = "squared"

    judging_members = 0  # without a quantifier, held-out rows have no use

    def _objective(self) -> Objective:
        return OBJECTIVES["plain"]

    def _predict_parts(self, X: Any) -> Never:
        raise ValueError(
            "PlainRegressor has no quantifier, so it cannot predict how wrong it will be; use PairRegressor, or "
            "LossQuantifier(PlainRegressor()) to keep this regressor."
        )
