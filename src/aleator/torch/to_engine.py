"""From torch to the compiled engine: an estimator with the weights of a pair of linear layers, to the bit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aleator.engine import Network
from aleator.engine.network import Weights
from aleator.loss_correction import LossCorrection
from aleator.losses import Loss
from aleator.preprocessing.standardisation import Scaling as TableScaling
from aleator.preprocessing.standardisation import Units, loss_units
from aleator.torch.scaling import Scaling
from aleator.torch.xi_range import Within

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}

_SILENT = (nn.Dropout, nn.Flatten, nn.Identity, Within)  # layers without weights that keep the order of numbers


@dataclass(frozen=True)
class Branches:
    """The layers of trunk, regressor and quantifier, as matrices of the engine."""

    trunk: list[Weights]
    regressor: list[Weights]
    quantifier: list[Weights]


def branches(network: Network, hidden: int, shared: int) -> Branches:
    """Assign the matrices of a network with `hidden` layers, the first `shared` of them common."""
    trunk, rest = list(network.matrices[:shared]), list(network.matrices[shared:])
    if hidden - shared == 1:  # one layer of both, side by side
        return Branches(trunk, rest[0::2], rest[1::2])
    half = len(rest) // 2
    return Branches(trunk, rest[:half], rest[half:])


def from_torch(pair: Any, kind: type[Any]) -> Any:
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
    model.units_ = Units(loss_units(criterion.measure, model.scaling_, model.per_output).frame, unit)
    model.network_ = model._network(model.n_features_in_, n_outputs, n_losses)
    model.params_ = _params(model.network_, chains, len(model.hidden), len(shared))[None]
    model.lam_, model.gave_up_ = np.array([float(criterion.lam)]), False
    if quantifier.reach is not None and bool(quantifier.reach.isfinite().all()):
        model.xi_range_ = quantifier.reach.cpu().numpy()[None].copy()
    scale = np.broadcast_to(pair.loss_scale.cpu().numpy(), (n_losses,)).copy()
    limits = np.broadcast_to(pair.loss_limits.cpu().numpy().reshape(2, -1), (2, n_losses)).copy()
    limited = (limits[0] > 0).any() or np.isfinite(limits[1]).any()
    model.loss_correction_ = LossCorrection(scale, limits if limited else None)
    model.n_epochs_ = np.array([len(pair.history)])
    columns = ["epoch", "joint_loss", "loss"]
    history = pair.history[columns] if len(pair.history) else pd.DataFrame(columns=columns, dtype=float)
    model.history_ = history.assign(member=0)[["member", *columns]].astype({"epoch": int})
    _check_same(model, pair)
    return model


def _check_same(model: Any, pair: Any) -> None:
    """Compare predictions of both on a few rows, since a module may call its layers in another order."""
    scales = model.scaling_
    rows = scales.x_mean + scales.x_spread * np.random.default_rng(0).normal(size=(16, model.n_features_in_))
    here, there = model.predict(rows), pair.predict(rows).prediction
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
