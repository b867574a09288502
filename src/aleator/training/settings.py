"""The parameters that estimators made of networks share: each stands here once, with its default.

Estimators are dataclasses, so that `__init__` stores its arguments and does nothing else, and scikit-learn finds every
name in its signature. The docstring of `PairRegressor` describes the parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from aleator.couplings import Coupling

Schedule = float | Callable[[int], float]
Lam = Schedule | str  # "auto"


class TrainingSettings(Protocol):
    """What training reads from an estimator: the shape of the network and how it is trained."""

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of each hidden layer."""
        ...

    @property
    def activation(self) -> str:
        """Of the hidden layers."""
        ...

    @property
    def dropout(self) -> float:
        """Probability that a hidden unit is dropped in a training step."""
        ...

    @property
    def optimizer(self) -> str:
        """The name of the optimiser."""
        ...

    @property
    def learning_rate(self) -> Schedule | None:
        """A number, a function of the epoch, or None for the default."""
        ...

    @property
    def momentum(self) -> float:
        """Of Nesterov; the first decay rate of Adam."""
        ...

    @property
    def l2(self) -> float | None:
        """The penalty on the weights; None for the default."""
        ...

    @property
    def clip(self) -> float | None:
        """The largest norm of a gradient; None for no limit."""
        ...

    @property
    def batch_size(self) -> int | None:
        """Rows of a training step; None for the default."""
        ...

    @property
    def n_jobs(self) -> int | None:
        """Threads, as in scikit-learn."""
        ...

    @property
    def verbose(self) -> bool:
        """Whether to show a progress bar."""
        ...


class JointSettings(TrainingSettings, Protocol):
    """... of a pair, which is trained with the joint loss."""

    @property
    def coupling(self) -> str | Coupling:
        """The functions f and g of the joint loss."""
        ...

    @property
    def lam(self) -> Lam:
        """Of the joint loss L f + lam g."""
        ...

    @property
    def shared_layers(self) -> int:
        """Hidden layers that regressor and quantifier share."""
        ...

    @property
    def rescale(self) -> bool:
        """Whether held-out rows set the scale of the expected loss."""
        ...


class QuantifierSettings(TrainingSettings, Protocol):
    """... of quantifiers that learn given losses."""

    @property
    def quantifier(self) -> str:
        """The kind: networks, trees, a mixture, or the best of these."""
        ...

    @property
    def coupling(self) -> str | Coupling:
        """The functions f and g of the joint loss."""
        ...

    @property
    def lam(self) -> Lam:
        """Of the joint loss, in units of the mean loss."""
        ...

    @property
    def scaling(self) -> str:
        """How inputs are standardised."""
        ...

    @property
    def epochs(self) -> int | None:
        """Passes over the rows; None to choose the number by cross-validation."""
        ...

    @property
    def rescale(self) -> bool:
        """Whether held-out rows set the scale of the expected loss."""
        ...

    @property
    def n_members(self) -> int:
        """Quantifiers whose expected losses are averaged."""
        ...

    @property
    def random_state(self) -> Any:
        """The random seed."""
        ...


def lam_setting(settings: TrainingSettings) -> Lam:
    """The parameter lam; 1 for estimators without one."""
    lam: Lam = getattr(settings, "lam", 1.0)
    return lam


def lam_is_auto(settings: TrainingSettings) -> bool:
    """Whether lam is chosen during training."""
    return isinstance(lam_setting(settings), str)


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkSettings:
    """A network and how it is trained.

    Parameters
    ----------
    hidden : tuple of int
        Units of each hidden layer, of the regressor and of the quantifier. ``()`` gives linear models.
    activation : {"relu", "tanh"}
        Activation of the hidden layers.
    scaling : {"robust", "standard"}
        How inputs are standardised. ``"standard"`` uses mean and standard deviation, as in the paper. ``"robust"``
        first clips each column to the end of its tail, so that a sentinel, a wrong unit or a flag that is set once has
        no effect on the other rows. It also clips targets that are implausibly far from all others.
    dropout : float
        Probability that a hidden unit is dropped in a training step.
    optimizer : {"adam", "nesterov"}
        The optimizer; ``"nesterov"`` is the paper's.
    learning_rate : float or callable
        Learning rate, or a function of the epoch, from 0.
    momentum : float
        Momentum of Nesterov's method, or the first decay rate of Adam.
    l2 : float
        Penalty ``l2 / (2 n)`` on the squared weights, where n is the number of rows.
    clip : float or None
        Largest norm of a gradient. None sets no limit.
    epochs : int or None
        Passes over the rows. None finds the number by cross-validation on the training rows.
    batch_size : int
        Rows of a training step.
    n_jobs : int or None
        Number of threads, -1 for all. The result does not depend on it.
    random_state : int, RandomState instance or None
        Random seed. Equal seeds give equal results, to the last bit.
    verbose : bool
        Whether to show a progress bar.
    """

    hidden: tuple[int, ...] = (50,)
    activation: str = "relu"
    scaling: str = "robust"
    dropout: float = 0.0
    optimizer: str = "adam"
    learning_rate: Schedule = 2e-3
    momentum: float = 0.9
    l2: float = 0.1
    clip: float | None = None
    epochs: int | None = None
    batch_size: int = 64
    n_jobs: int | None = -1
    random_state: Any = 0
    verbose: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class RegressorSettings(NetworkSettings):
    """A network that may be stopped early.

    Parameters
    ----------
    early_stopping : bool
        Hold out `validation_fraction` of the rows (or use ``fit(validation=...)``), stop when their loss has not
        improved for `patience` epochs, and keep the best weights.
    validation_fraction : float
        Share of the rows that `early_stopping` holds out.
    patience : int
        Epochs without improvement after which `early_stopping` ends the training.
    """

    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 20

    shared_layers = 0
    per_output = True
    rescale = False


@dataclass(kw_only=True, eq=False, repr=False)
class PairSettings(RegressorSettings):
    """A network with a quantifier beside it.

    Parameters
    ----------
    learning_rate : float, callable or None
        Learning rate, or a function of the epoch, from 0. None is 0.002, and with ``lam="auto"`` 0.01. With
        ``lam="auto"`` the rate falls to zero.
    l2 : float or None
        Penalty ``l2 / (2 n)`` on the squared weights, where n is the number of rows. None is 0.1, and with
        ``lam="auto"`` 1, where the penalty of the regressor is in units of the mean loss.
    batch_size : int or None
        Rows of a training step. None is 64, and with ``lam="auto"`` 0.7 times the root of the number of rows, at least
        32.
    shared_layers : int
        Number of hidden layers that regressor and quantifier have in common.
    per_output : bool
        For several outputs: one quantifier for each output, instead of one for the sum of their losses.
    rescale : bool
        Multiply the expected loss by mean realised over mean expected loss on held-out rows: five folds in turn, or the
        rows of `early_stopping`. With ``lam="auto"`` the factor is also corrected for the final model learning from all
        rows. False together with `epochs` holds no rows out, which saves five trainings. On
        small tables the expected loss is then much too small, and intervals need `conformalize`.
    encoder : {"auto"}, None, transformer or callable
        What turns X into numbers. ``"auto"`` takes numbers without gaps as they are, and any other table through
        `TableEncoder`: text, categories, dates, missing values, nullable and polars frames. None accepts numbers only.
    """

    learning_rate: Schedule | None = None  # type: ignore[assignment]
    l2: float | None = None  # type: ignore[assignment]
    batch_size: int | None = None  # type: ignore[assignment]

    shared_layers: int = 0
    per_output: bool = False
    rescale: bool = True
    encoder: Any = "auto"
