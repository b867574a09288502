"""Maximum likelihood with each sample weighted by its variance to the power beta (Seitzer et al., ICLR 2022).

The likelihood's derivative for the mean is (mu - y) / V: where V is large the mean hardly learns, and a region that is
not fitted yet looks noisy and is given up. The remedy is the factor V^beta, not differentiated: beta = 0 is the
likelihood, beta = 1 weighs every sample alike. The paper of Gurevich and Stuke, with a small lam, wants the opposite:
that clean regions count *more*. Which is right depends on whether what looks noisy is noise; `examples/07_beta_nll.py`
has a picture of both.
"""

from dataclasses import dataclass

from aleator import losses, objectives
from aleator.estimators.documented import documented
from aleator.estimators.network_regressor import NetworkRegressor
from aleator.losses import Loss
from aleator.objectives import Objective
from aleator.training.settings import PairSettings


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class BetaNLLRegressor(PairSettings, NetworkRegressor):
    """Mean and variance by the beta-NLL: likelihoods, each weighted by its variance to the power beta [1]_.

    Parameters
    ----------
    loss : {"squared", "absolute"} or Loss
        ``"squared"`` is the Gaussian likelihood, ``"absolute"`` the Laplace likelihood, whose weight is the expected
        absolute loss to the power beta.
    beta : float
        From 0, maximum likelihood, to 1, where the mean is learned as by the loss alone. The authors advise 0.5.

    Attributes
    ----------
    history_ : DataFrame
        Losses by member and epoch: joint_loss is weighted, and what ends in ``_joint_loss`` is the plain likelihood.

    References
    ----------
    .. [1] M. Seitzer, A. Tavakoli, D. Antic, G. Martius, "On the pitfalls of heteroscedastic uncertainty estimation
       with probabilistic neural networks", ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator.baselines import BetaNLLRegressor
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=300)
    >>> model = BetaNLLRegressor(epochs=20, rescale=False).fit(X, y)
    >>> model.predict([[0.1], [0.9]]).shape
    (2,)
    """

    loss: str | Loss = "squared"
    beta: float = 0.5

    def _objective(self) -> Objective:
        return objectives.beta_nll(losses.get(self.loss), float(self.beta))
