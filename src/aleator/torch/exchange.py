"""Weights between the compiled engine and torch, without loss: train where it is fast, go on where it is general."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aleator.engine import Network
from aleator.engine.network import Weights
from aleator.estimators import PairEnsemble, PairRegressor
from aleator.estimators.table import Scaling as TableScaling
from aleator.estimators.table import Units, units
from aleator.losses import Loss
from aleator.torch.criterion import JointLoss
from aleator.torch.ensemble import Ensemble
from aleator.torch.pair import Pair
from aleator.torch.scaling import Scaling
from aleator.torch.within import Within

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}

_SILENT = (nn.Dropout, nn.Flatten, nn.Identity, Within)  # without weights, and leave the order of numbers as it is


@dataclass(frozen=True)
class Branches:
    """The matrices of a pair in the engine, as the layers of its trunk, regressor and quantifier."""

    trunk: list[Weights]
    regressor: list[Weights]
    quantifier: list[Weights]


def branches(network: Network, hidden: int, shared: int) -> Branches:
    """Which of a network's matrices belong where: `hidden` layers, the first `shared` of them common."""
    trunk, rest = list(network.matrices[:shared]), list(network.matrices[shared:])
    if hidden - shared == 1:  # one layer of both, side by side
        return Branches(trunk, rest[0::2], rest[1::2])
    half = len(rest) // 2
    return Branches(trunk, rest[:half], rest[half:])


# ---------------------------------------------------------------- to torch


def to_torch(model: PairRegressor | PairEnsemble) -> Pair | Ensemble:
    """A fitted estimator as a `Pair`, or an `Ensemble` of them: same weights, same units, same answers.

    Standardisation is inside, dropout as it was trained with, and the expected loss has the scale that `fit` or
    `recalibrate(method="factor")` found. In evaluation, as it comes, xi is held to its range on the rows of `fit`, if
    the estimator's is; `fit_pair` ends that (`aleator.torch.within.release` for a loop of your own).
    """
    if not isinstance(model, (PairRegressor, PairEnsemble)) or not hasattr(model, "params_"):
        raise TypeError(f"to_torch takes a fitted PairRegressor or PairEnsemble, got {type(model).__name__}.")
    if hasattr(model, "encoder_"):
        raise ValueError("to_torch takes models of numbers as they are; this one has an encoder in front.")
    reach = getattr(model, "reach_", [None] * len(model.params_))
    pairs = [_pair(model, *member) for member in zip(model.params_, model.lam_, reach, strict=True)]
    made = pairs[0] if isinstance(model, PairRegressor) else Ensemble(pairs)
    scale = torch.as_tensor(_scale(model))
    made.keep("loss_scale", scale[0] if len(scale) == 1 else scale)
    if hasattr(model, "loss_limits_"):
        limits = torch.as_tensor(model.loss_limits_ * _correction(model))
        made.keep("loss_limits", limits[:, 0] if len(scale) == 1 else limits)
    return made.train(False)  # else it would answer otherwise: dropout, and xi that is held to no range


def _pair(model: Any, params: NDArray[np.float32], lam: float, reach: NDArray[np.float32] | None) -> Pair:
    settings = model.settings_
    parts = branches(model.network_, len(settings["hidden"]), settings["shared_layers"])
    layers = {
        name: layers_of(getattr(parts, name), params, settings, flat=name != "trunk" and model.y_is_1d_)
        for name in ("trunk", "regressor", "quantifier")
    }
    if reach is not None:
        layers["quantifier"].insert(
            -1 if model.y_is_1d_ else len(layers["quantifier"]), Within(torch.from_numpy(reach.copy()))
        )
    unit = torch.as_tensor(model.units_.unit)
    criterion = JointLoss(settings["loss"], settings["coupling"], lam, unit=unit[0] if len(unit) == 1 else unit)
    trunk = layers["trunk"] if len(layers["trunk"]) else None
    pair = Pair(layers["regressor"], layers["quantifier"], trunk, criterion=criterion)
    scales = model.scaling_
    y_mean, y_spread = (part[0] if model.y_is_1d_ else part for part in (scales.y_mean, scales.y_spread))
    pair.scaling = Scaling(scales.x_mean, scales.x_spread, y_mean, y_spread, scales.place[2])
    return pair


def layers_of(weights: list[Weights], params: NDArray[np.float32], settings: Any, flat: bool) -> nn.Sequential:
    """Linear layers with the activation between them, a trunk ends in one; the output `flat` is (n,), not (n, 1)."""
    layers: list[nn.Module] = []
    for each in weights:
        linear = nn.Linear(each.inputs, each.columns, device="meta").to_empty(device="cpu")  # draws no numbers
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(each.of(params).T.copy()))
            linear.bias.copy_(torch.from_numpy(each.bias_of(params).copy()))
        layers.append(linear)
        if not each.transposed:  # a hidden layer
            layers.append(ACTIVATIONS[settings["activation"]]())
            layers += [nn.Dropout(settings["dropout"])] if settings["dropout"] else []
    return nn.Sequential(*layers, *([nn.Flatten(0)] if flat else []))


def _scale(model: Any) -> NDArray[np.float64]:
    """What the expected loss is multiplied with, as one factor for each quantifier."""
    return np.asarray(model.loss_scale_, np.float64) * _correction(model)


def _correction(model: Any) -> NDArray[np.float64]:
    """The factors of `recalibrate`, one for each quantifier."""
    factor = np.ones(len(model.loss_scale_))
    for curve in getattr(model, "corrections_", []):
        if len(curve.before) > 1:
            raise ValueError("to_torch moves one factor of the expected loss: recalibrate with method='factor'.")
    if hasattr(model, "corrections_"):
        factor = factor * [float(curve.after[0] / curve.before[0]) for curve in model.corrections_]
    return factor


# ---------------------------------------------------------------- from torch


def from_torch(pair: Pair, kind: type[Any]) -> Any:
    """A fitted estimator with the weights of a `Pair` whose parts are chains of linear layers."""
    criterion = pair.criterion
    if not isinstance(criterion.measure, Loss):
        raise ValueError("from_torch needs a loss by name: an estimator cannot hold a torch function.")
    if criterion.coupling.name == "own":
        raise ValueError("from_torch needs a coupling by name: an estimator cannot hold torch functions.")
    chains = {name: _chain(name, getattr(pair, name)) for name in ("trunk", "regressor", "quantifier")}
    trunk, regressor, quantifier = chains.values()
    own = [layer.out_features for layer in regressor.linear[:-1]]
    if own != [layer.out_features for layer in quantifier.linear[:-1]]:
        raise ValueError("from_torch needs a quantifier with the hidden layers of the regressor.")
    bends = {bend for chain in chains.values() for bend in chain.activations}
    if len(bends) > 1:
        raise ValueError("from_torch needs one activation everywhere, ReLU or Tanh.")
    shared = [layer.out_features for layer in trunk.linear]
    n_outputs, n_losses = regressor.linear[-1].out_features, quantifier.linear[-1].out_features
    model = kind(
        loss=criterion.measure.name,
        coupling=criterion.coupling.name,
        lam=float(criterion.lam),
        hidden=tuple(shared + own),
        shared_layers=len(shared),
        activation=next(iter(bends), "relu"),
        dropout=max(chain.dropout for chain in chains.values()),
        per_output=n_outputs > 1 and n_losses == n_outputs,
    )
    model.settings_ = model.get_params(deep=False)
    model.n_features_in_ = (trunk.linear or regressor.linear)[0].in_features
    model.n_outputs_, model.y_is_1d_ = n_outputs, regressor.flat
    model.scaling_ = _scaling(pair.scaling, model.n_features_in_, n_outputs)
    unit = np.broadcast_to(criterion.unit.cpu().numpy(), (n_losses,)).copy()
    model.units_ = Units(units(criterion.measure, model.scaling_, model.per_output).frame, unit)
    model.network_ = model._network(model.n_features_in_, n_outputs, n_losses)
    model.params_ = _params(model.network_, chains, len(model.hidden), len(shared))[None]
    model.lam_, model.gave_up_ = np.array([float(criterion.lam)]), False
    if quantifier.reach is not None and bool(quantifier.reach.isfinite().all()):
        model.reach_ = quantifier.reach.cpu().numpy()[None].copy()
    model.loss_scale_ = np.broadcast_to(pair.loss_scale.cpu().numpy(), (n_losses,)).copy()
    limits = np.broadcast_to(pair.loss_limits.cpu().numpy().reshape(2, -1), (2, n_losses)).copy()
    if (limits[0] > 0).any() or np.isfinite(limits[1]).any():
        model.loss_limits_ = limits
    model.n_epochs_ = np.array([len(pair.history)])
    columns = ["epoch", "joint_loss", "loss"]
    history = pair.history[columns] if len(pair.history) else pd.DataFrame(columns=columns, dtype=float)
    model.history_ = history.assign(member=0)[["member", *columns]].astype({"epoch": int})
    _check_same(model, pair)
    return model


def _check_same(model: Any, pair: Pair) -> None:
    """Layers may be called in another way than they stand in: see whether both say the same of some rows."""
    scales = model.scaling_
    rows = scales.x_mean + scales.x_spread * np.random.default_rng(0).normal(size=(16, model.n_features_in_))
    here, there = model.predict(rows), pair.predict(rows).mean
    size = np.abs(there).max(axis=0)
    if here.shape != there.shape or not (np.abs(here - there) <= 1e-4 * size).all():
        raise ValueError("from_torch takes chains, each layer reading the one before: these are called otherwise.")


@dataclass(frozen=True)
class Chain:
    """Linear layers in order, the activations between them, dropout, whether the output is flat, and its range."""

    linear: list[nn.Linear]
    activations: list[str]
    dropout: float
    flat: bool
    reach: Tensor | None


def _chain(name: str, module: nn.Module | None) -> Chain:
    leaves = [] if module is None else [m for m in module.modules() if next(m.children(), None) is None]
    names = {kind: key for key, kind in ACTIVATIONS.items()}
    linear = [layer for layer in leaves if isinstance(layer, nn.Linear)]
    bends = [names[type(layer)] for layer in leaves if type(layer) in names]
    for layer in leaves:
        if not isinstance(layer, (nn.Linear, nn.ReLU, nn.Tanh, *_SILENT)):
            raise ValueError(f"from_torch takes chains of Linear, ReLU or Tanh, Dropout; {name} has a {layer}.")
    if any(layer.weight.dtype != torch.float32 or layer.bias is None for layer in linear):
        raise ValueError(f"from_torch takes float32 layers with a bias; {name} has others.")
    kinds = [type(layer) for layer in leaves if not isinstance(layer, _SILENT)]
    wanted = [nn.Linear if k % 2 == 0 else kinds[1] for k in range(len(kinds))]
    ends_in_linear = len(kinds) % 2 == 1
    if kinds != wanted or ends_in_linear == (name == "trunk"):
        raise ValueError(f"from_torch takes Linear and activation in turn; {name} is {[k.__name__ for k in kinds]}.")
    flats = [layer for layer in leaves if isinstance(layer, nn.Flatten)]
    dropout = max((layer.p for layer in leaves if isinstance(layer, nn.Dropout)), default=0.0)
    reach = next((layer.reach for layer in leaves if isinstance(layer, Within)), None)
    return Chain(linear, bends, dropout, bool(flats), reach)


def _scaling(scaling: Scaling | None, n_inputs: int, n_outputs: int) -> TableScaling:
    held = Scaling() if scaling is None else scaling

    def wide(values: Tensor, size: int) -> NDArray[np.float64]:
        return np.broadcast_to(values.detach().cpu().double().numpy(), (size,)).copy()

    x = wide(held.x_mean, n_inputs), wide(held.x_spread, n_inputs)
    clip = held.x_clip.detach().cpu().double().numpy().reshape(2, -1)
    clip = np.broadcast_to(clip, (2, n_inputs)).copy()
    return TableScaling(*x, wide(held.y_mean, n_outputs), wide(held.y_spread, n_outputs), clip)


def _params(network: Network, chains: dict[str, Chain], hidden: int, shared: int) -> NDArray[np.float32]:
    params = np.zeros(network.n_params, np.float32)
    places = branches(network, hidden, shared)
    for name, chain in chains.items():
        for place, layer in zip(getattr(places, name), chain.linear, strict=True):
            place.of(params)[:] = layer.weight.detach().cpu().numpy().T
            place.bias_of(params)[:] = layer.bias.detach().cpu().numpy()
    return params
