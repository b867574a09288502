"""Estimators as model files, and back."""

import numbers
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from aleator import bundle, losses
from aleator.couplings import COUPLINGS, Coupling
from aleator.estimators.reading import check_parameters
from aleator.estimators.table import Scaling, Units
from aleator.losses import Loss

_SCALING = ("x_mean", "x_spread", "y_mean", "y_spread")
_LEARNED = ("params_", "n_epochs_", "lam_", "loss_scale_")


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted estimator; refuses what a file cannot hold, before anything is written."""
    facts = {
        "kind": type(model).__name__,
        "params": {name: _plain(name, value) for name, value in model.settings_.items()},
        "y_is_1d": bool(model.y_is_1d_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "history": list(model.history_.columns),
    }
    arrays = {name: getattr(model, name) for name in _LEARNED}
    arrays |= {name: getattr(model.scaling_, name) for name in _SCALING}
    arrays |= {"frame": model.units_.frame, "unit": model.units_.unit}
    arrays |= {"history": model.history_.to_numpy(np.float64)}
    if hasattr(model, "scores_"):
        arrays["scores_"] = model.scores_
    bundle.write(path, facts, arrays)


def load(path: str | PathLike[str], kinds: dict[str, type[Any]]) -> Any:
    """Read an estimator of one of `kinds`. Nothing in the file is executed, and every shape in it is checked."""
    facts, arrays = bundle.read(path)
    if not isinstance(facts.get("kind"), str) or facts["kind"] not in kinds:
        raise ValueError(f"{path} holds a {facts.get('kind')!r}, which this aleator does not know.")
    try:
        return _restored(kinds[facts["kind"]], facts, arrays)
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path} is incomplete, or of another version: {error!r}.") from error


def _restored(kind: type[Any], facts: dict[str, Any], arrays: bundle.Arrays) -> Any:
    model = kind(**facts["params"] | {"hidden": tuple(facts["params"]["hidden"])})
    check_parameters(model)
    model.settings_ = model.get_params(deep=False)
    for name in _LEARNED:
        setattr(model, name, arrays[name])
    model.scaling_ = Scaling(*(arrays[name] for name in _SCALING))
    model.units_ = Units(arrays["frame"], arrays["unit"])
    model.history_ = pd.DataFrame(arrays["history"], columns=facts["history"]).astype({"member": int, "epoch": int})
    model.y_is_1d_ = facts["y_is_1d"]
    model.n_features_in_ = len(model.scaling_.x_mean)
    if facts["feature_names"]:
        model.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    if "scores_" in arrays:
        model.scores_ = arrays["scores_"]
    model.network_ = model._network(model.n_features_in_, len(model.scaling_.y_mean), len(model.units_.unit))
    _check_shapes(model)
    return model


def _check_shapes(model: Any) -> None:
    """The compiled loops trust their arrays: nothing in a file may say otherwise than the network it describes."""
    K, D, M = len(model.params_), model.n_features_in_, len(model.scaling_.y_mean)
    shapes = {
        "params_": (model.params_, np.float32, (K, model.network_.n_params)),
        "n_epochs_": (model.n_epochs_, np.int64, (K,)),
        "lam_": (model.lam_, np.float64, (K,)),
        "loss_scale_": (model.loss_scale_, np.float64, (model.network_.n_quantifiers,)),
        "x_mean": (model.scaling_.x_mean, np.float64, (D,)),
        "x_spread": (model.scaling_.x_spread, np.float64, (D,)),
        "y_mean": (model.scaling_.y_mean, np.float64, (M,)),
        "y_spread": (model.scaling_.y_spread, np.float64, (M,)),
        "unit": (model.units_.unit, np.float64, (M if model.per_output else 1,)),
        "frame": (model.units_.frame, np.float64, (M, 4)),
    }
    if hasattr(model, "scores_"):
        shapes["scores_"] = (model.scores_, np.float64, (len(model.scores_), M))
    if len(model.params_) != model._n_members() or not np.isfinite(model.params_).all():
        raise ValueError("the model file does not fit together: its weights are missing or not finite.")
    for name, (values, dtype, shape) in shapes.items():
        if values.dtype != dtype or values.shape != shape:
            raise ValueError(
                f"the model file does not fit together: {name} is {values.dtype} {values.shape}, and the network it "
                f"describes needs {np.dtype(dtype)} {shape}."
            )


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON knows it."""
    if isinstance(value, Loss) and losses.is_shipped(value):
        return value.name
    if isinstance(value, Coupling) and COUPLINGS.get(value.name) is value:
        return value.name
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, str, numbers.Real)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(name, item) for item in value]
    raise ValueError(
        f"a model file holds names and numbers only, and the parameter {name} is a {type(value).__name__}; "
        "give it a number or the name of something aleator ships. (pickle takes functions made by def in a module.)"
    )
