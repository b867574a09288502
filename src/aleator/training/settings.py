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
    """A network and how it is trained."""

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
    """... of a regressor, which may be stopped early. Parameters of a quantifier are fixed."""

    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 20

    shared_layers = 0
    per_output = True
    rescale = False


@dataclass(kw_only=True, eq=False, repr=False)
class PairSettings(RegressorSettings):
    """... with a quantifier beside it. None: the default depends on lam, see `defaults.py`."""

    learning_rate: Schedule | None = None  # type: ignore[assignment]
    l2: float | None = None  # type: ignore[assignment]
    batch_size: int | None = None  # type: ignore[assignment]

    shared_layers: int = 0
    per_output: bool = False
    rescale: bool = True
    encoder: Any = "auto"
