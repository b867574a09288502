"""Every estimator of the library by its name, and the file that any of them was saved to."""

from os import PathLike
from typing import Any

from aleator.baselines import (
    BetaNLLRegressor,
    DropoutRegressor,
    MeanVarianceEnsemble,
    MeanVarianceRegressor,
    PBPRegressor,
    PlainRegressor,
    SVGDRegressor,
)
from aleator.estimators import LossQuantifier, PairEnsemble, PairRegressor
from aleator.model_files import serialization
from aleator.model_files.file_format import Limits

_PAIRS = (PairRegressor, PairEnsemble, LossQuantifier)
_NETWORKS = (PlainRegressor, MeanVarianceRegressor, MeanVarianceEnsemble, BetaNLLRegressor, DropoutRegressor)
MODELS: dict[str, type[Any]] = {
    model.__name__: model for model in (*_PAIRS, *_NETWORKS, SVGDRegressor, PBPRegressor)
}  # fmt: skip


def load(
    path: str | PathLike[str], estimator: Any = None, *, key: bytes | None = None, max_bytes: int = Limits.bytes
) -> Any:
    """Read a model that `save` wrote. Nothing in the file is executed; a damaged file is refused with a ValueError.

    `estimator` is the regressor of a `LossQuantifier` whose file could not hold it, fitted as it was then. With a
    secret `key` the file must have been signed with it (`save(path, key=...)`). Files of more than `max_bytes` are
    refused before they are read.
    """
    return serialization.load(path, MODELS, estimator, key, Limits(bytes=max_bytes))
