"""The paper's estimators: a regressor and a quantifier trained together on the joint loss, alone or as an ensemble."""

from dataclasses import dataclass
from typing import Any, Self

from aleator import couplings, objectives
from aleator.couplings import Coupling
from aleator.estimators.documented import documented
from aleator.estimators.network_regressor import NetworkRegressor
from aleator.losses import Loss
from aleator.objectives import Objective
from aleator.training.settings import Lam, PairSettings


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PairRegressor(PairSettings, NetworkRegressor):
    """A regressor paired with a network that predicts its loss, trained together on L f(z) + lam g(z).

    The regressor predicts the target. The quantifier, a second network, predicts the expected loss of each prediction,
    ``-lam g'(z) / f'(z)``. Rows with a large expected loss get a small weight f(z), so the regressor fits the others
    better [1]_. No assumption is made about the distribution of the noise.

    Parameters
    ----------
    loss : str or Loss
        Loss of a prediction: "squared", "absolute", "huber(delta)", "pinball(q)", "logcosh", or a `Loss`. The pair
        predicts the mean for the squared loss, the median for the absolute loss, and the q-quantile for the pinball
        loss.
    coupling : str or Coupling
        The functions f and g: "sigmoid", "softplus", or a `Coupling`.
    lam : {"auto"}, float or callable
        How much a noisy row counts: a small value lets the regressor concentrate on clean rows, a large value makes all
        rows count alike. In units of the loss of missing by one standard deviation of y. ``"auto"`` follows the mean
        loss, from 100 times to a hundredth of it, and needs no tuning. A callable is a function of the epoch, from 0.

    Attributes
    ----------
    gave_up_ : bool
        Whether noisy regions were given up for the sake of clean ones (``lam="auto"``). Predictions there are not means
        of y.

    See Also
    --------
    PairEnsemble : Several pairs, with an epistemic part.
    LossQuantifier : Expected losses for a regressor you have.

    References
    ----------
    .. [1] P. Gurevich, H. Stuke, "Pairing an arbitrary regressor with an artificial neural network estimating aleatoric
       uncertainty".

    Examples
    --------
    >>> import numpy as np
    >>> from aleator import PairRegressor
    >>> X = np.linspace(0, 1, 400)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=400)
    >>> pair = PairRegressor().fit(X, y)
    >>> low, high = pair.predict_uncertainty([[0.1], [0.9]]).std
    >>> bool(low < 0.3 < high)
    True
    """

    loss: str | Loss = "squared"
    coupling: str | Coupling = "sigmoid"
    lam: Lam = "auto"

    @classmethod
    def from_torch(cls, pair: Any) -> Self:
        """Make an estimator of a torch pair of linear layers; `aleator.torch.to_torch` is the inverse.

        Parameters
        ----------
        pair : aleator.torch.Pair
            A pair whose parts are chains of linear layers.

        Returns
        -------
        PairRegressor
            A fitted estimator with the same weights. It has no held-out rows, so intervals need `conformalize`.
        """
        if not hasattr(pair, "to_estimator"):
            raise TypeError(f"from_torch takes an aleator.torch.Pair, got {type(pair).__name__}.")
        model: Self = pair.to_estimator(cls)  # torch is imported there and nowhere here
        return model

    def _objective(self) -> Objective:
        return objectives.joint(couplings.get(self.coupling))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PairEnsemble(PairSettings, NetworkRegressor):
    """Several pairs with different random seeds, as a mixture: their disagreement is the epistemic part.

    The expected loss is that of the mean of the members. For the squared loss it is eq. (4.11) of [1]_, for the
    absolute loss eq. (4.12), and for any other loss the rule of `aleator.mixtures.additive`. An ensemble of one member
    is a `PairRegressor`.

    Parameters
    ----------
    n_members : int
        Number of pairs. They are trained in parallel.
    loss : str or Loss
        Loss of a prediction: "squared", "absolute", "huber(delta)", "pinball(q)", "logcosh", or a `Loss`.
    coupling : str or Coupling
        The functions f and g: "sigmoid", "softplus", or a `Coupling`.
    lam : {"auto"}, float or callable
        How much a noisy row counts, as in `PairRegressor`.

    Attributes
    ----------
    gave_up_ : bool
        Whether noisy regions were given up for the sake of clean ones (``lam="auto"``). Predictions there are not means
        of y.

    See Also
    --------
    PairRegressor : A single pair.
    LossQuantifier : Expected losses for a regressor you have.

    References
    ----------
    .. [1] P. Gurevich, H. Stuke, "Pairing an arbitrary regressor with an artificial neural network estimating aleatoric
       uncertainty".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from aleator import PairEnsemble
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PairEnsemble(loss="absolute", n_members=2).fit(X[:200], y[:200])
    >>> result = model.predict_uncertainty(X[200:])
    >>> bool((result.expected_loss >= result.epistemic).all())
    True
    """

    n_members: int = 5
    loss: str | Loss = "squared"
    coupling: str | Coupling = "sigmoid"
    lam: Lam = "auto"

    def _objective(self) -> Objective:
        return objectives.joint(couplings.get(self.coupling))
