"""The engine: what to train (`Plan`, `Member`, `Data`), the table a network is (`network`), and the compiled loops."""

from aleator.engine.network import ACTIVATIONS, Network, network
from aleator.engine.train import (
    OPTIMIZERS,
    Data,
    DivergenceError,
    Member,
    Plan,
    Run,
    Watch,
    advance,
    begin,
    evaluate,
    forward,
    gradients,
    train,
)

__all__ = [
    "ACTIVATIONS",
    "OPTIMIZERS",
    "Data",
    "DivergenceError",
    "Member",
    "Network",
    "Plan",
    "Run",
    "Watch",
    "advance",
    "begin",
    "evaluate",
    "forward",
    "gradients",
    "network",
    "train",
]
