"""Maximum likelihood with each sample weighted by its variance to the power beta (Seitzer et al., ICLR 2022).

The likelihood's derivative for the mean is (mu - y) / V: where V is large the mean hardly learns, and a region that is
not fitted yet looks noisy and is given up. The remedy is the factor V^beta, not differentiated: beta = 0 is the
likelihood, beta = 1 weighs every sample alike. The paper of Gurevich and Stuke, with a small lam, wants the opposite:
that clean regions count *more*. Which is right depends on whether what looks noisy is noise; `docs/baselines.md` has a
picture of both.
"""

from dataclasses import dataclass

from aleator import losses, objectives
from aleator.estimators.network_regressor import NetworkRegressor
from aleator.losses import Loss
from aleator.objectives import Objective
from aleator.training.settings import PairSettings


@dataclass(kw_only=True, eq=False, repr=False)
class BetaNLLRegressor(PairSettings, NetworkRegressor):
    """Mean and variance by the beta-NLL.

    loss : "squared" (Gaussian) or "absolute" (Laplace; the weight is then b^beta, with b the expected absolute loss).
    beta : from 0, maximum likelihood, to 1, where the mean is learned as by the loss alone; its authors advise 0.5.
    All other parameters and attributes are those of `PairRegressor`. In `history_` joint_loss is weighted; what ends in
    _joint_loss is not: models are judged by the likelihood.
    """

    loss: str | Loss = "squared"
    beta: float = 0.5

    def _objective(self) -> Objective:
        return objectives.beta_nll(losses.get(self.loss), float(self.beta))
