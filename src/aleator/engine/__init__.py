"""The engine: what to train (`Plan`, `Member`, `Data`), the table a network is (`network`), and the compiled loops."""

from aleator.engine.network import ACTIVATIONS, Network, network
from aleator.engine.train import (
    OPTIMIZERS,
    Data,
    DivergenceError,
    Member,
    Plan,
    Relative,
    Run,
    Watch,
    advance,
    begin,
    evaluate,
    forward,
    gradients,
    lam_of,
    settled,
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
    "Relative",
    "Run",
    "Watch",
    "advance",
    "begin",
    "evaluate",
    "forward",
    "gradients",
    "lam_of",
    "network",
    "settled",
    "train",
]
