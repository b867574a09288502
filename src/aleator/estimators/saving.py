"""Estimators as model files, and back: what every estimator has, and what those made of networks have beside it."""

import numbers
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from aleator import bundle, couplings, losses
from aleator.bundle import Arrays
from aleator.couplings import COUPLINGS, Coupling
from aleator.engine.kernels import FARTHEST
from aleator.estimators import saving_objects
from aleator.estimators.encoding import TableEncoder
from aleator.estimators.held_out import QUANTIFIERS, Check
from aleator.estimators.reading import check_parameters
from aleator.estimators.recalibration import Correction
from aleator.estimators.table import Scaling, Units
from aleator.losses import Loss

Facts = dict[str, Any]

SCALING = ("x_mean", "x_spread", "y_mean", "y_spread", "x_clip")
MOST_LAYERS = 1_000
_LEARNED = ("params_", "n_epochs_", "lam_", "loss_scale_")


def save(model: Any, path: str | PathLike[str], key: bytes | None = None) -> None:
    """Write a fitted estimator; refuses what a file cannot hold, before anything is written."""
    bundle.write(path, *packed(model), key=key)


def packed(model: Any) -> tuple[Facts, Arrays]:
    """A fitted estimator as the facts and arrays of a file."""
    facts, arrays = model._packed()
    return {"kind": type(model).__name__, "written_by": _versions(), **facts}, arrays


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("aleator", "numpy", "scikit-learn")}


def load(
    path: str | PathLike[str],
    kinds: dict[str, type[Any]],
    estimator: Any = None,
    key: bytes | None = None,
    limits: bundle.Limits | None = None,
) -> Any:
    """Read an estimator of one of `kinds`. Nothing in the file is executed, and every shape in it is checked."""
    return restored(path, *bundle.read(path, limits, key), kinds, estimator)


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
    if hasattr(model, "scores_"):
        arrays["scores_"] = model.scores_
    if hasattr(model, "loss_limits_"):
        arrays["loss_limits_"] = model.loss_limits_
    if hasattr(model, "check_"):
        facts["check"], arrays["check groups"] = _pack_check(model.check_)
    for k, curve in enumerate(getattr(model, "corrections_", [])):
        arrays[f"correction {k}"] = np.stack([curve.before, curve.after])
    return facts, arrays


def unpack(kind: type[Any], facts: Facts, arrays: Arrays, **others: Any) -> Any:
    """An estimator with its settings and what `pack` packs; `others` are parameters that a file cannot hold."""
    params = {name: tuple(value) if isinstance(value, list) else value for name, value in facts["params"].items()}
    if "scaling" in kind.__dataclass_fields__:  # files from before there was a choice
        params.setdefault("scaling", "standard")
    if len(params.get("hidden", ())) > MOST_LAYERS:
        raise ValueError(f"the model file does not fit together: it tells of {len(params['hidden']):,} layers.")
    model = kind(**params | others)
    check_parameters(model)
    losses.measured(model.loss)
    if hasattr(model, "coupling"):
        couplings.get(model.coupling)
    model.settings_ = model.get_params(deep=False)
    model.history_ = pd.DataFrame(arrays["history"], columns=facts["history"]).astype({"member": int, "epoch": int})
    model.y_is_1d_, model.n_outputs_ = facts["y_is_1d"], facts["n_outputs"]
    if not (type(model.n_outputs_) is int and model.n_outputs_ >= 1 and type(model.y_is_1d_) is bool):
        raise ValueError("the model file does not fit together: the shape of y in it makes no sense.")
    if facts["feature_names"]:
        model.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    if "scores_" in arrays:
        model.scores_ = arrays["scores_"]
        check_shapes({"scores_": (model.scores_, np.float64, (len(model.scores_), model.n_outputs_))})
        if not (model.scores_[:-1] <= model.scores_[1:]).all() or np.isnan(model.scores_).any():
            raise ValueError("corrupt model file: scores_ must be sorted.")
    if "loss_limits_" in arrays:
        model.loss_limits_ = arrays["loss_limits_"]
        low, high = model.loss_limits_
        check_shapes({"loss_limits_": (model.loss_limits_, np.float64, (2, len(arrays["loss_scale_"])))})
        if not ((low >= 0) & (low <= high) & np.isfinite(low)).all() or np.isnan(high).any():
            raise ValueError("corrupt model file: loss_limits_ must be two rising numbers >= 0 for each output.")
    if "check" in facts:
        model.check_ = _unpack_check(facts["check"], arrays["check groups"], len(arrays["loss_scale_"]))
    if "correction 0" in arrays:
        knots = [arrays[f"correction {k}"] for k in range(len(arrays["loss_scale_"]))]
        check_shapes({f"correction {k}": (knot, np.float64, (2, knot.shape[-1])) for k, knot in enumerate(knots)})
        check_positive({f"correction {k}": knot for k, knot in enumerate(knots)})
        model.corrections_ = [Correction(*knot) for knot in knots]
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
    check_shapes({"check groups": (groups, np.float64, (len(groups), 4))})
    if not (fine and (np.abs(groups) < 1e300).all()):
        raise ValueError("corrupt model file: its check is incomplete.")
    table = pd.DataFrame(groups, columns=facts["groups"]).astype({"output": int, "rows": int})
    outliers = tuple(int(row) for row in facts["outliers"])
    shares = float(facts["influence"]), outliers, float(facts["outlier_share"])
    return Check(problems, table, *shares, facts["quantifier"], rejected)


def check_shapes(arrays: dict[str, tuple[Any, Any, tuple[int, ...]]]) -> None:
    """The compiled loops trust their arrays: nothing in a file may say otherwise than the network it describes."""
    for name, (values, dtype, shape) in arrays.items():
        if values.dtype != dtype or values.shape != shape:
            raise ValueError(
                f"the model file does not fit together: {name} is {values.dtype} {values.shape}, and the network it "
                f"describes needs {np.dtype(dtype)} {shape}."
            )


def check_positive(arrays: dict[str, Any]) -> None:
    """Expected losses are products of these: they must be finite, and not negative."""
    for name, values in arrays.items():
        if not (np.isfinite(values) & (values >= 0)).all():
            raise ValueError(f"corrupt model file: {name} must be finite numbers >= 0.")


def check_weights(params: Any, n_members: int) -> None:
    if len(params) != n_members or not np.isfinite(params).all():
        raise ValueError("the model file does not fit together: its weights are missing or not finite.")


def pack_scaling(scaling: Scaling) -> Arrays:
    return {name: getattr(scaling, name) for name in SCALING if getattr(scaling, name) is not None}


def unpack_scaling(arrays: Arrays, n_targets: int) -> Scaling:
    """The scaling in a file; files from before inputs were clipped have no `x_clip`."""
    found = {name: arrays[name] for name in SCALING if name in arrays or name != "x_clip"}
    D = len(found["x_mean"])
    shapes = dict(zip(SCALING, [(D,), (D,), (n_targets,), (n_targets,), (2, D)], strict=True))
    check_shapes({name: (values, np.float64, shapes[name]) for name, values in found.items()})
    scaling = Scaling(**found)
    if not all(np.isfinite(values).all() for values in found.values()):
        raise ValueError("corrupt model file: its scaling is not finite.")
    low, high = scaling.place[2]
    if not ((low >= -FARTHEST) & (low <= high) & (high <= FARTHEST)).all():
        raise ValueError(f"corrupt model file: x_clip must be a range within {FARTHEST:g} spreads for each input.")
    return scaling


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
    packed = saving_objects.pack(encoder)
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
    if hasattr(model, "gave_up_"):
        facts["gave_up"] = bool(model.gave_up_)
    if hasattr(model, "out_of_fold_"):
        facts["out_of_fold"] = list(model.out_of_fold_.columns)
        arrays["out_of_fold"] = model.out_of_fold_.to_numpy(np.float64)
    arrays |= {name: getattr(model, name) for name in _LEARNED}
    arrays |= {"reach_": model.reach_} if hasattr(model, "reach_") else {}
    arrays |= pack_scaling(model.scaling_)
    return facts, arrays | {"frame": model.units_.frame, "unit": model.units_.unit}


def unpack_network(kind: type[Any], facts: Facts, arrays: Arrays) -> Any:
    if "encoder" in facts:
        encoder = saving_objects.unpack(facts["encoder"], within("encoder", arrays))
        model = unpack(kind, facts, arrays, encoder=encoder)
        model.encoder_ = encoder
    else:
        model = unpack(kind, facts, arrays)
    if "gave_up" in facts:
        model.gave_up_ = bool(facts["gave_up"])
    if "out_of_fold" in facts:
        model.out_of_fold_ = pd.DataFrame(arrays["out_of_fold"], columns=facts["out_of_fold"]).astype({"row": int})
    for name in _LEARNED:
        setattr(model, name, arrays[name])
    model.scaling_ = unpack_scaling(arrays, model.n_outputs_)
    model.units_ = Units(arrays["frame"], arrays["unit"])
    K, D, M = len(model.params_), len(model.scaling_.x_mean), model.n_outputs_
    if isinstance(getattr(model, "encoder_", None), TableEncoder):
        check_shapes({"x_mean": (model.scaling_.x_mean, np.float64, (model.encoder_.width,))})
    model.n_features_in_ = facts.get("n_features", D)
    model.network_ = model._network(D, M, len(model.units_.unit))
    check_weights(model.params_, model.n_members)
    if "reach_" in arrays:
        model.reach_ = arrays["reach_"]
        check_shapes({"reach_": (model.reach_, np.float32, (K, 2, model.network_.n_quantifiers))})
        if not (np.isfinite(model.reach_).all() and (model.reach_[:, 0] <= model.reach_[:, 1]).all()):
            raise ValueError("the model file does not fit together: the range of its quantifiers makes no sense.")
    check_shapes(
        {
            "params_": (model.params_, np.float32, (K, model.network_.n_params)),
            "n_epochs_": (model.n_epochs_, np.int64, (K,)),
            "lam_": (model.lam_, np.float64, (K,)),
            "loss_scale_": (model.loss_scale_, np.float64, (M if model.per_output else 1,)),
            "unit": (model.units_.unit, np.float64, (M if model.per_output else 1,)),
            "frame": (model.units_.frame, np.float64, (M, 4)),
        }
    )
    check_positive({"lam_": model.lam_, "loss_scale_": model.loss_scale_, "unit": model.units_.unit})
    if not np.isfinite(model.units_.frame).all():
        raise ValueError("corrupt model file: frame must be finite.")
    return model
