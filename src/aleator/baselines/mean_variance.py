"""Maximum likelihood with a network for the mean and one for the variance: ML and EnsML of the paper.

Nix, Weigend 1994; as ensembles Lakshminarayanan et al. 2017. What is minimised is

    squared loss:   (y - mu)^2 / (2 V) + ln(V) / 2,    V = softplus(xi) + 1e-6       (Gaussian)
    absolute loss:  |y - mu| / b + ln b,               b = softplus(xi) + 1e-6       (Laplace)

and the expected loss is V or b. Written in the precision 1 / V or 1 / b = softplus(xi) these are 1/2 and 1 times the
paper's joint loss with the softplus coupling and lam = 1 (sec. 4); in the variance they learn at other speeds.
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
class MeanVarianceRegressor(PairSettings, NetworkRegressor):
    """Mean and variance by maximum likelihood (ML in the paper) [1]_.

    Parameters
    ----------
    loss : {"squared", "absolute"} or Loss
        ``"squared"`` is the Gaussian likelihood, ``"absolute"`` the Laplace likelihood.

    References
    ----------
    .. [1] D. A. Nix, A. S. Weigend, "Estimating the mean and variance of the target probability distribution",
       ICNN 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator.baselines import MeanVarianceRegressor
    >>> X = np.linspace(0, 1, 400)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=400)
    >>> low, high = MeanVarianceRegressor().fit(X, y).predict_uncertainty([[0.1], [0.9]]).std
    >>> bool(low < 0.3 < high)
    True
    """

    loss: str | Loss = "squared"

    def _objective(self) -> Objective:
        return objectives.likelihood(losses.get(self.loss))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class MeanVarianceEnsemble(PairSettings, NetworkRegressor):
    """Several `MeanVarianceRegressor` with different random seeds: EnsML in the paper, deep ensembles [1]_.

    The disagreement of the members is the epistemic part. An ensemble of one member is a `MeanVarianceRegressor`.

    Parameters
    ----------
    n_members : int
        Number of networks. They are trained in parallel.
    loss : {"squared", "absolute"} or Loss
        ``"squared"`` is the Gaussian likelihood, ``"absolute"`` the Laplace likelihood.

    References
    ----------
    .. [1] B. Lakshminarayanan, A. Pritzel, C. Blundell, "Simple and scalable predictive uncertainty estimation using
       deep ensembles", NeurIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator.baselines import MeanVarianceEnsemble
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=300)
    >>> model = MeanVarianceEnsemble(n_members=2, epochs=20, rescale=False).fit(X, y)
    >>> model.predict([[0.1], [0.9]]).shape
    (2,)
    """

    n_members: int = 5
    loss: str | Loss = "squared"

    def _objective(self) -> Objective:
        return objectives.likelihood(losses.get(self.loss))
