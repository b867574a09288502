"""The paper's estimators: a regressor and a quantifier trained together on the joint loss, alone or as an ensemble."""

from dataclasses import dataclass
from typing import Any, Self

from aleator import couplings, heads
from aleator.couplings import Coupling
from aleator.estimators.network import NetworkRegressor
from aleator.estimators.settings import PairSettings, Schedule
from aleator.heads import Head
from aleator.losses import Loss


@dataclass(eq=False, repr=False)
class PairRegressor(PairSettings, NetworkRegressor):
    """A regressor paired with a network that predicts its loss, trained together on L f(z) + lam g(z).

    Parameters
    ----------
    loss : what a wrong prediction costs: "squared", "absolute", "huber(delta)", "pinball(q)", "logcosh", or a `Loss`.
    coupling : "sigmoid", "softplus", or a `Coupling`.
    lam : positive number, or function of the epoch (from 0). Small: the regressor concentrates on what is clean; large:
        it learns everywhere alike. In units of the loss of missing by one standard deviation of y.
    hidden : units of each hidden layer, for the regressor and for the quantifier; () for linear models.
    activation : "relu" or "tanh".
    shared_layers : how many of the first hidden layers both have in common.
    per_output : for targets with several outputs, one quantifier for each instead of one for the sum of the losses.
    dropout : chance of a hidden unit to be left out of a training step.
    optimizer, learning_rate, momentum : "adam", or "nesterov" as in the paper; the rate may be a function of the epoch.
    l2 : penalty l2 / (2 n) on the squared weights of n rows. clip : longest gradient, or None.
    epochs : passes over the data; None finds the number by cross-validation on the training rows, up to 1,000 epochs or
        60,000 steps (at least 10 epochs), and trains 1.4 times as long.
    batch_size : rows a step.
    early_stopping : hold back `validation_fraction` of the rows (or use `fit(validation=...)`), stop when they have not
        improved for `patience` epochs, and keep the best.
    rescale : where rows were held out (epochs=None, or early_stopping), multiply the expected loss by mean realised
        over mean predicted loss on them; it is as good as they are many. With `epochs` given nothing is held out, and
        on small tables the expected loss is then much too small.
    n_jobs : threads; -1 for all. The result does not depend on it.
    random_state : seed, or numpy's RandomState; same seed, same bits.
    verbose : show a progress bar.

    Attributes
    ----------
    history_ : DataFrame of losses by member and epoch, in the units of the loss: joint_loss and loss on the training
        rows, validation_* on the rows that were watched, cv_* on the rows left out in turn to find the number of epochs
        (which goes on a while after the best, and the final training 1.4 times as far). Empty where not measured.
    n_epochs_, lam_ : at the end, one a member. loss_scale_ : see `rescale`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 400)[:, None]
    >>> y = 3 * X[:, 0] + X[:, 0] * np.random.default_rng(0).normal(size=400)
    >>> pair = PairRegressor().fit(X, y)
    >>> low, high = pair.predict_uncertainty([[0.1], [0.9]]).std
    >>> bool(low < 0.3 < high)
    True
    """

    loss: str | Loss = "squared"
    coupling: str | Coupling = "sigmoid"
    lam: Schedule = 0.2

    @classmethod
    def from_torch(cls, pair: Any) -> Self:
        """A fitted estimator with the weights of an `aleator.torch.Pair` of linear layers; `to_torch` is the inverse.

        Like one trained with `epochs` given it has no held-out rows: `calibrate` gives it intervals.
        """
        if not hasattr(pair, "to_estimator"):
            raise TypeError(f"from_torch takes an aleator.torch.Pair, got {type(pair).__name__}.")
        model: Self = pair.to_estimator(cls)  # torch is imported there and nowhere here
        return model

    def _head(self) -> Head:
        return heads.joint(couplings.get(self.coupling))


@dataclass(eq=False, repr=False)
class PairEnsemble(PairSettings, NetworkRegressor):
    """Several pairs that differ by chance, as a mixture: what they disagree on is the epistemic part.

    `n_members` pairs are trained in parallel; all other parameters are those of `PairRegressor`, and an ensemble of one
    is that pair. Squared loss: eq. (4.11) of the paper; absolute loss: eq. (4.12); any other: see `aleator.mixtures`.
    """

    n_members: int = 5
    loss: str | Loss = "squared"
    coupling: str | Coupling = "sigmoid"
    lam: Schedule = 0.2

    def _head(self) -> Head:
        return heads.joint(couplings.get(self.coupling))
