"""The joint loss for any torch module: a criterion, pairs, ensembles, and quantifiers for modules that are fitted.

Needs the extra `aleator[torch]`; nothing else of aleator imports torch.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("aleator.torch needs the extra: pip install 'aleator[torch]'.") from error

from aleator.torch.criterion import JointLoss
from aleator.torch.distributed import distributed
from aleator.torch.ensemble import Ensemble
from aleator.torch.exchange import to_torch
from aleator.torch.pair import Pair
from aleator.torch.posthoc import Quantifier
from aleator.torch.scaling import Scaling
from aleator.torch.training import fit_ensemble, fit_pair

__all__ = [
    "Ensemble",
    "JointLoss",
    "Pair",
    "Quantifier",
    "Scaling",
    "distributed",
    "fit_ensemble",
    "fit_pair",
    "to_torch",
]
