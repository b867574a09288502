"""The parameters that estimators made of networks share: each stands here once, with its default.

Estimators are dataclasses, so that `__init__` stores its arguments and does nothing else, and scikit-learn finds every
name in its signature. What the parameters mean is told where users look, in the docstring of `PairRegressor`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Schedule = float | Callable[[int], float]
Lam = Schedule | str  # "auto"


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
    """... of a regressor, which may be stopped by rows held back. What concerns a quantifier is fixed."""

    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 20

    shared_layers = 0
    per_output = True
    rescale = False


@dataclass(kw_only=True, eq=False, repr=False)
class PairSettings(RegressorSettings):
    """... with a quantifier beside it. None: what goes with lam, see `recipe.py`."""

    learning_rate: Schedule | None = None  # type: ignore[assignment]
    l2: float | None = None  # type: ignore[assignment]
    batch_size: int | None = None  # type: ignore[assignment]

    shared_layers: int = 0
    per_output: bool = False
    rescale: bool = True
    encoder: Any = None
