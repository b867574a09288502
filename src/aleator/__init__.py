"""Pair any regressor with a network that predicts how wrong it will be.

Names are imported when first used, so that the command `aleator --help` does not wait for Numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aleator.estimators import LossQuantifier, PairEnsemble, PairRegressor, Prediction, TableEncoder
    from aleator.onnx import export_onnx
    from aleator.registry import load
    from aleator.training.held_out import UnreliableWarning

__version__ = "0.1.0"
__all__ = [
    "LossQuantifier",
    "PairEnsemble",
    "PairRegressor",
    "Prediction",
    "TableEncoder",
    "UnreliableWarning",
    "export_onnx",
    "load",
]
_ELSEWHERE = {
    "UnreliableWarning": "aleator.training.held_out",
    "export_onnx": "aleator.onnx",
    "load": "aleator.registry",
}

_MODULES = (
    "baselines",
    "couplings",
    "datasets",
    "losses",
    "metrics",
    "mixtures",
    "objectives",
    "onnx",
    "paper",
    "plots",
    "tabular",
    "theory",
    "torch",
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(_ELSEWHERE.get(name, "aleator.estimators")), name)
    if name in _MODULES:
        return import_module(f"aleator.{name}")
    raise AttributeError(f"module 'aleator' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
