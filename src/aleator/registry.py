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
    """Read a model file. Nothing in the file is executed.

    Parameters
    ----------
    path : str or PathLike
        A file that `save` or the command wrote.
    estimator : estimator, default=None
        The fitted regressor of a `LossQuantifier` whose file could not hold it.
    key : bytes, default=None
        The secret key that the file must have been signed with.
    max_bytes : int, default=4 GiB
        Larger files are refused before they are read.

    Returns
    -------
    estimator
        The fitted model.

    Raises
    ------
    ValueError
        If the file is damaged, unsigned or not a model file, or if `estimator` is another regressor.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from aleator import LossQuantifier, load
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LossQuantifier(Ridge()).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.aleator")
    ...     again = load(f"{folder}/model.aleator")
    >>> bool((again.predict_loss(X) == model.predict_loss(X)).all())
    True
    """
    return serialization.load(path, MODELS, estimator, key, Limits(bytes=max_bytes))
