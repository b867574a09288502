"""A network without a quantifier: the standard regressor of the paper's figures."""

from dataclasses import dataclass
from typing import Any, Never

from aleator.estimators.network import NetworkRegressor
from aleator.estimators.settings import RegressorSettings
from aleator.heads import HEADS, Head
from aleator.losses import Loss


@dataclass(eq=False, repr=False)
class PlainRegressor(RegressorSettings, NetworkRegressor):
    """A neural network trained on the loss alone; it cannot tell how wrong it will be.

    loss : "squared", "absolute", "huber(delta)", "pinball(q)", "logcosh", or a `Loss`. All other parameters, and
    `history_` and `n_epochs_`, are those of `PairRegressor`.
    """

    loss: str | Loss = "squared"

    judges = 0  # nobody asks for rows left out

    def _head(self) -> Head:
        return HEADS["plain"]

    def _answers(self, X: Any) -> Never:
        raise ValueError(
            "PlainRegressor has no quantifier, so it cannot tell how wrong it will be; use PairRegressor, or "
            "LossQuantifier(PlainRegressor()) to keep this regressor."
        )
