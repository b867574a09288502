"""The joint loss for any torch module: a criterion, pairs, ensembles, and quantifiers for modules that are fitted.

Needs the extra `aleator[torch]`; nothing else of aleator imports torch. Names are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("aleator.torch needs the extra: pip install 'aleator[torch]'.") from error

if TYPE_CHECKING:
    from aleator.onnx import export_onnx
    from aleator.torch.criterion import JointLoss
    from aleator.torch.ensemble import Ensemble
    from aleator.torch.from_engine import to_torch
    from aleator.torch.pair import Pair
    from aleator.torch.parquet import ParquetRegression
    from aleator.torch.process_group import distributed
    from aleator.torch.quantifier import Quantifier
    from aleator.torch.scaling import Scaling
    from aleator.torch.training import fit_ensemble, fit_pair

__all__ = [
    "Ensemble",
    "JointLoss",
    "Pair",
    "ParquetRegression",
    "Quantifier",
    "Scaling",
    "distributed",
    "export_onnx",
    "fit_ensemble",
    "fit_pair",
    "to_torch",
]

_PLACES = {
    "Ensemble": "torch.ensemble",
    "JointLoss": "torch.criterion",
    "Pair": "torch.pair",
    "ParquetRegression": "torch.parquet",
    "Quantifier": "torch.quantifier",
    "Scaling": "torch.scaling",
    "distributed": "torch.process_group",
    "export_onnx": "onnx",
    "fit_ensemble": "torch.training",
    "fit_pair": "torch.training",
    "to_torch": "torch.from_engine",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"aleator.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'aleator.torch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
