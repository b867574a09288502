"""Estimators as model files, and back: what all estimators share, and what those made of networks add."""

import numbers
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from aleator import couplings, losses
from aleator.couplings import COUPLINGS, Coupling
from aleator.loss_correction import LossCorrection
from aleator.losses import Loss
from aleator.model_files import file_format, third_party
from aleator.model_files.file_format import Arrays
from aleator.model_files.schema import Sizes
from aleator.preprocessing.parameter_checks import check_parameters
from aleator.preprocessing.standardisation import Scaling, Units
from aleator.preprocessing.table_encoder import TableEncoder
from aleator.recalibration import Correction
from aleator.training.held_out import QUANTIFIERS, Check

Facts = dict[str, Any]

SCALING = ("x_mean", "x_spread", "y_mean", "y_spread", "x_clip")
MOST_LAYERS = 1_000
_LEARNED = ("params_", "n_epochs_", "lam_")


def save(model: Any, path: str | PathLike[str], key: bytes | None = None) -> None:
    """Write a fitted estimator; refuses what a file cannot hold, before anything is written."""
    file_format.write(path, *packed(model), key=key)


def packed(model: Any) -> tuple[Facts, Arrays]:
    """A fitted estimator as values and arrays."""
    facts, arrays = model._packed()
    facts = {"kind": type(model).__name__, "written_by": _versions(), **facts}
    sizes: Sizes = {"outputs": model.n_outputs_, "losses": len(model.loss_scale_)}
    try:
        model._layout.check_values(facts)
        model._layout.check_arrays(arrays, sizes)
    except ValueError as error:
        raise ValueError(f"the model cannot be saved: {str(error).removeprefix('corrupt model file: ')}") from None
    return facts, arrays


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("aleator", "numpy", "scikit-learn")}


def load(
    path: str | PathLike[str],
    kinds: dict[str, type[Any]],
    estimator: Any = None,
    key: bytes | None = None,
    limits: file_format.Limits | None = None,
) -> Any:
    """Read an estimator of one of `kinds`. Nothing in the file is executed, and every shape in it is checked."""
    return restored(path, *file_format.read(path, limits, key), kinds, estimator)


def restored(
    path: str | PathLike[str], facts: Facts, arrays: Arrays, kinds: dict[str, type[Any]], estimator: Any = None
) -> Any:
    """The estimator in what was read from a file."""
    try:
        return made(facts, arrays, kinds, estimator)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path} is incomplete, or of another version: {error!r}.") from error


def made(facts: Facts, arrays: Arrays, kinds: dict[str, type[Any]], estimator: Any = None) -> Any:
    """The estimator that a file, or a part of one, describes."""
    kind = facts.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"it holds a {kind!r}, which this aleator does not know.")
    if estimator is not None and kind != "LossQuantifier":
        raise ValueError(f"it holds a {kind}, which needs no estimator.")
    inner = facts.get("estimator")
    if estimator is None and inner is not None and inner["form"] == "aleator":
        estimator = made(inner, within("estimator", arrays), kinds)
    kinds[kind]._layout.check_values(facts)
    kinds[kind]._layout.check_names(arrays)
    model = kinds[kind]._unpacked(facts, arrays, **({} if estimator is None else {"estimator": estimator}))
    _check_units(model)
    return model


def _check_units(model: Any) -> None:
    """The scale of the expected loss, and a loss of the size of the target's spread, must be numbers >= 0."""
    spread = model.scaling_.y_spread if hasattr(model, "scaling_") else np.zeros(1)
    with np.errstate(over="ignore"):
        check_positive({"loss_scale_": model.loss_scale_, "y_spread": spread ** (model._loss().degree or 1)})


def under(name: str, arrays: Arrays) -> Arrays:
    """Arrays as parts of what has this name."""
    return {f"{name}/{part}": values for part, values in arrays.items()}


def within(name: str, arrays: Arrays) -> Arrays:
    """The inverse of `under`."""
    return {part.removeprefix(f"{name}/"): values for part, values in arrays.items() if part.startswith(f"{name}/")}


# ---------------------------------------------------------------- what every estimator has


def pack(model: Any, settings: dict[str, Any]) -> tuple[Facts, Arrays]:
    """Settings, the shape of y, names of columns, history, and what was calibrated."""
    facts = {
        "params": {name: _plain(name, value) for name, value in settings.items()},
        "y_is_1d": bool(model.y_is_1d_),
        "n_outputs": int(model.n_outputs_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "history": list(model.history_.columns),
    }
    arrays = {"history": model.history_.to_numpy(np.float64)}
    arrays["loss_scale_"] = model.loss_scale_
    if hasattr(model, "scores_"):
        arrays["scores_"], facts["conformalized"] = model.scores_, bool(model.conformalized_)
    if hasattr(model, "recalibrated_after_"):
        facts["recalibrated_after"] = True
    if hasattr(model, "loss_limits_"):
        arrays["loss_limits_"] = model.loss_limits_
    if hasattr(model, "check_"):
        facts["check"], arrays["check groups"] = _pack_check(model.check_)
    for k, curve in enumerate(model.loss_correction_.curves or ()):
        arrays[f"correction {k}"] = np.stack([curve.before, curve.after])
    return facts, arrays


def unpack(kind: type[Any], facts: Facts, arrays: Arrays, **others: Any) -> Any:
    """An estimator with its settings and what `pack` packs; `others` are parameters that a file cannot hold."""
    params = {name: tuple(value) if isinstance(value, list) else value for name, value in facts["params"].items()}
    if "scaling" in kind.__dataclass_fields__:  # files from before there was a choice
        params.setdefault("scaling", "standard")
    if "quantifier" in kind.__dataclass_fields__:
        params.setdefault("quantifier", "network")
    if len(params.get("hidden", ())) > MOST_LAYERS:
        raise ValueError(
            f"corrupt model file: a network has {len(params['hidden']):,} layers; at most {MOST_LAYERS:,} are read."
        )
    model = kind(**params | others)
    check_parameters(model)
    losses.measured(model.loss)
    if hasattr(model, "coupling"):
        couplings.get(model.coupling)
    model.settings_ = model.get_params(deep=False)
    model.history_ = pd.DataFrame(arrays["history"], columns=facts["history"]).astype({"member": int, "epoch": int})
    model.y_is_1d_, model.n_outputs_ = facts["y_is_1d"], facts["n_outputs"]
    if facts["feature_names"]:
        model.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    if "scores_" in arrays:
        model.scores_ = arrays["scores_"]
        model.conformalized_ = bool(facts.get("conformalized", True))  # not in earlier files
    if facts.get("recalibrated_after", False):
        model.recalibrated_after_ = True
    limits = arrays.get("loss_limits_")
    if limits is not None and not np.isfinite(limits[0]).all():
        raise ValueError("corrupt model file: the least expected loss in loss_limits_ must be finite.")
    if "check" in facts:
        model.check_ = _unpack_check(facts["check"], arrays["check groups"], len(arrays["loss_scale_"]))
    curves = None
    if "correction 0" in arrays:
        curves = tuple(Correction(*arrays[f"correction {k}"]) for k in range(len(arrays["loss_scale_"])))
    model.loss_correction_ = LossCorrection(arrays["loss_scale_"], limits, curves)
    return model


def _pack_check(check: Check) -> tuple[Facts, Any]:
    facts = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(check).items()}
    return facts | {"groups": list(check.groups.columns)}, check.groups.to_numpy(np.float64)


def _unpack_check(facts: Facts, groups: Any, n_losses: int) -> Check:
    problems, rejected = (tuple(map(str, facts[name])) for name in ("problems", "rejected"))
    fine = (
        len(problems) == n_losses
        and facts["quantifier"] in QUANTIFIERS
        and facts["groups"] == ["output", "rows", "expected_loss", "realised_loss"]
        and all(isinstance(facts[name], float) and np.isfinite(facts[name]) for name in ("influence", "outlier_share"))
    )
    if not fine:
        raise ValueError("corrupt model file: its check is incomplete.")
    table = pd.DataFrame(groups, columns=facts["groups"]).astype({"output": int, "rows": int})
    outliers = tuple(int(row) for row in facts["outliers"])
    shares = float(facts["influence"]), outliers, float(facts["outlier_share"])
    return Check(problems, table, *shares, facts["quantifier"], rejected)


def check_positive(arrays: dict[str, Any]) -> None:
    """Expected losses are products of these: they must be finite, and not negative."""
    for name, values in arrays.items():
        if not (np.isfinite(values) & (values >= 0)).all():
            raise ValueError(f"corrupt model file: {name} must be finite numbers >= 0.")


def pack_scaling(scaling: Scaling) -> Arrays:
    return {name: getattr(scaling, name) for name in SCALING if getattr(scaling, name) is not None}


def unpack_scaling(arrays: Arrays) -> Scaling:
    """The scaling in a file; files from before inputs were clipped have no `x_clip`."""
    return Scaling(**{name: arrays[name] for name in SCALING if name in arrays or name != "x_clip"})


def check_width(encoder: Any, n_inputs: int) -> None:
    """Raise a ValueError if the encoder of a table is known to give another number of inputs; `n_inputs` of its own."""
    if isinstance(encoder, TableEncoder) and encoder.width != n_inputs:
        raise ValueError(f"corrupt model file: the encoder gives {encoder.width} inputs, x_mean has {n_inputs}.")


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
        "give it a number or the name of something aleator ships."
    )


def pack_encoder(encoder: Any) -> tuple[Facts, Arrays]:
    packed = third_party.pack(encoder)
    if packed is None:
        raise ValueError(
            f"a model file cannot hold the encoder {type(encoder).__name__} safely; use transformers of scikit-learn."
        )
    return packed


# ---------------------------------------------------------------- what those made of networks have beside it


def pack_network(model: Any) -> tuple[Facts, Arrays]:
    facts, arrays = pack(model, {name: value for name, value in model.settings_.items() if name != "encoder"})
    if hasattr(model, "encoder_"):
        encoder_facts, encoder_arrays = pack_encoder(model.encoder_)
        facts |= {"encoder": encoder_facts, "n_features": int(model.n_features_in_)}
        arrays |= under("encoder", encoder_arrays)
    if model.settings_.get("encoder") is None or isinstance(model.settings_["encoder"], str):
        facts["encoder_setting"] = model.settings_.get("encoder")
    if hasattr(model, "gave_up_"):
        facts["gave_up"] = bool(model.gave_up_)
    if hasattr(model, "out_of_fold_"):
        facts["out_of_fold"] = list(model.out_of_fold_.columns)
        arrays["out_of_fold"] = model.out_of_fold_.to_numpy(np.float64)
    arrays |= {name: getattr(model, name) for name in _LEARNED}
    arrays |= {"reach_": model.xi_range_} if hasattr(model, "xi_range_") else {}
    arrays |= pack_scaling(model.scaling_)
    return facts, arrays | {"frame": model.units_.frame, "unit": model.units_.unit}


def unpack_network(kind: type[Any], facts: Facts, arrays: Arrays) -> Any:
    encoder, setting = None, {}
    if "encoder" in facts:
        encoder = third_party.unpack(facts["encoder"], within("encoder", arrays))
        setting = {"encoder": encoder}
    if "encoder_setting" in facts and "encoder" in kind.__dataclass_fields__:  # not in earlier files
        setting = {"encoder": facts["encoder_setting"]}
    model = unpack(kind, facts, arrays, **setting)
    if encoder is not None:
        model.encoder_ = encoder
    if "gave_up" in facts:
        model.gave_up_ = bool(facts["gave_up"])
    if "out_of_fold" in facts:
        model.out_of_fold_ = pd.DataFrame(arrays["out_of_fold"], columns=facts["out_of_fold"]).astype({"row": int})
    for name in _LEARNED:
        setattr(model, name, arrays[name])
    model.scaling_, model.units_ = unpack_scaling(arrays), Units(arrays["frame"], arrays["unit"])
    D, M = len(model.scaling_.x_mean), model.n_outputs_
    Q = M if model.per_output else 1
    check_width(getattr(model, "encoder_", None), D)
    model.n_features_in_ = facts.get("n_features", D)
    model.network_ = model._network(D, M, Q)
    if "reach_" in arrays:
        if not model.network_.n_quantifiers:
            raise ValueError("corrupt model file: reach_ needs a quantifier.")
        model.xi_range_ = arrays["reach_"]
    sizes = {"outputs": M, "losses": Q, "members": model.n_members, "inputs": D, "weights": model.network_.n_params}
    model._layout.check_arrays(arrays, sizes)
    return model
