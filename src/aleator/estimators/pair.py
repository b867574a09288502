"""The paper's estimators: a regressor and a quantifier trained together on the joint loss, alone or as an ensemble."""

from dataclasses import dataclass
from typing import Any, Self

from aleator import couplings, objectives
from aleator.couplings import Coupling
from aleator.estimators.network_regressor import NetworkRegressor
from aleator.losses import Loss
from aleator.objectives import Objective
from aleator.training.settings import Lam, PairSettings


@dataclass(kw_only=True, eq=False, repr=False)
class PairRegressor(PairSettings, NetworkRegressor):
    """A regressor paired with a network that predicts its loss, trained together on L f(z) + lam g(z).

    Parameters
    ----------
    loss : what a wrong prediction costs: "squared", "absolute", "huber(delta)", "pinball(q)", "logcosh", or a `Loss`.
    coupling : "sigmoid", "softplus", or a `Coupling`.
    lam : "auto", a positive number, or a function of the epoch (from 0). Small: the regressor concentrates on what is
        clean; large: it learns everywhere alike. In units of the loss of missing by one standard deviation of y. "auto"
        follows the mean loss, from 100 times to a hundredth of it, and needs no tuning: see docs/automatic-lambda.md.
    hidden : units of each hidden layer, for the regressor and for the quantifier; () for linear models.
    activation : "relu" or "tanh".
    scaling : how inputs are standardised. "standard": by mean and standard deviation, as in the paper. "robust": each
        column is first clipped to the end of its tail, so that a sentinel, a wrong unit or a flag that is set once
        moves nothing; targets that are implausibly far from all others are clipped, too.
    shared_layers : how many of the first hidden layers both have in common.
    per_output : for targets with several outputs, one quantifier for each instead of one for the sum of the losses.
    dropout : probability that a hidden unit is dropped in a training step.
    optimizer, learning_rate, momentum : "adam", or "nesterov" as in the paper; the rate may be a function of the epoch.
        None: 0.002, and 0.01 with lam="auto", where any rate falls to zero.
    l2 : penalty l2 / (2 n) on the squared weights of n rows; with lam="auto" the regressor's is in units of the mean
        loss. None: 0.1, and 1 with lam="auto". clip : longest gradient, or None.
    epochs : passes over the data; only the length of training depends on it. None finds the number by cross-validation
        on the training rows. With lam="auto" it is up to 800 (or 2,400,000 rows, at least 10 epochs), and three times
        as many where noisy regions are given up, which must prove itself. The quantifier is then refitted to losses of
        held-out rows, with settings of its own. With another lam it is up to 1,000 (or 60,000 steps, at least 10
        epochs), and the final training is 1.4 times as long, with a rate that falls to zero at the end.
    batch_size : rows a step. None: 64, and with lam="auto" 0.7 times the root of the number of rows, at least 32.
    early_stopping : hold back `validation_fraction` of the rows (or use `fit(validation=...)`), stop when they have not
        improved for `patience` epochs, and keep the best. With lam="auto" lam may then not have fallen all the way.
    rescale : multiply the expected loss by mean realised over mean predicted loss on held-out rows: five folds in turn,
        or the rows of `early_stopping`. With lam="auto" it is also corrected for the final model learning from all
        rows. False with `epochs` given is the paper's way: no rows are held out, which saves five trainings, but on
        small tables the expected loss is then much too small, and intervals need `conformalize`.
    encoder : what turns X into numbers. "auto" takes numbers without gaps as they are, and any other table through
        `TableEncoder`: text, categories, dates, missing values, nullable and polars frames. None takes numbers only. A
        transformer of scikit-learn's or a function is used as it is.
    n_jobs : threads; -1 for all. The result does not depend on it.
    random_state : seed, or numpy's RandomState; same seed, same bits.
    verbose : show a progress bar.

    Attributes
    ----------
    history_ : DataFrame of losses by member and epoch, in the units of the loss: joint_loss and loss on the training
        rows, validation_* on the rows that were watched, cv_* on the rows held out in turn to find the number of
        epochs. Empty where not measured. Where lam changes, *_score in place of *_joint_loss: mean of L / e + ln e, e
        the expected loss.
    loss_limits_ : least and largest expected loss (2, quantifiers) that the rows held out support; none beyond is
        predicted. check_ : what a check on these rows found, see `aleator.training.held_out.Check`: whether it
        `passed`, a `message`, the `groups` of rows; which `quantifier` took the place of one that failed.
    n_epochs_, lam_ : at the end, one a member. loss_scale_ : see `rescale`. gave_up_ : whether noisy regions were given
        up for the sake of clean ones (lam="auto"): predictions there are not means of y. xi_range_ : where rows were
        held out, the range that each member's xi is clipped to, (n_members, 2, quantifiers).
    out_of_fold_ : where rows were held out, DataFrame of these: row, loss, and the expected loss by members that had
        not seen it. Rows equal in X and y count once.

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
    lam: Lam = "auto"

    @classmethod
    def from_torch(cls, pair: Any) -> Self:
        """A fitted estimator with the weights of an `aleator.torch.Pair` of linear layers; `to_torch` is the inverse.

        Like one trained with `epochs` given and `rescale=False` it has no held-out rows: `conformalize` gives it
        intervals.
        """
        if not hasattr(pair, "to_estimator"):
            raise TypeError(f"from_torch takes an aleator.torch.Pair, got {type(pair).__name__}.")
        model: Self = pair.to_estimator(cls)  # torch is imported there and nowhere here
        return model

    def _objective(self) -> Objective:
        return objectives.joint(couplings.get(self.coupling))


@dataclass(kw_only=True, eq=False, repr=False)
class PairEnsemble(PairSettings, NetworkRegressor):
    """Several pairs with different random seeds, as a mixture: what they disagree on is the epistemic part.

    `n_members` pairs are trained in parallel; all other parameters are those of `PairRegressor`, and an ensemble of one
    is that pair. Squared loss: eq. (4.11) of the paper; absolute loss: eq. (4.12); any other: see `aleator.mixtures`.
    """

    n_members: int = 5
    loss: str | Loss = "squared"
    coupling: str | Coupling = "sigmoid"
    lam: Lam = "auto"

    def _objective(self) -> Objective:
        return objectives.joint(couplings.get(self.coupling))
