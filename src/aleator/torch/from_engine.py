"""From the compiled engine to torch: fitted estimators as modules with equal weights."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from aleator.engine.network import Weights
from aleator.estimators import PairEnsemble, PairRegressor
from aleator.torch.criterion import JointLoss
from aleator.torch.ensemble import Ensemble
from aleator.torch.pair import Pair
from aleator.torch.scaling import Scaling
from aleator.torch.to_engine import ACTIVATIONS, branches
from aleator.torch.xi_range import Within


def to_torch(model: PairRegressor | PairEnsemble) -> Pair | Ensemble:
    """Make a torch module with the weights of a fitted estimator.

    Standardisation and the scale of the expected loss are included. In evaluation mode xi is clipped to its range on
    the training rows; `fit_pair` removes that range.

    Parameters
    ----------
    model : PairRegressor or PairEnsemble
        A fitted estimator. Corrections by ``recalibrate(method="isotonic")`` cannot be included.

    Returns
    -------
    Pair or Ensemble
        A module with the same predictions and expected losses.

    Raises
    ------
    TypeError, ValueError
        If the estimator cannot become a module.

    Examples
    --------
    >>> import numpy as np
    >>> from aleator import PairRegressor
    >>> from aleator.torch import to_torch
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> pair = to_torch(PairRegressor(epochs=5, rescale=False).fit(X, X[:, 0]))
    >>> pair.predict(X).prediction.shape
    (50,)
    """
    if not isinstance(model, (PairRegressor, PairEnsemble)) or not hasattr(model, "params_"):
        raise TypeError(f"to_torch takes a fitted PairRegressor or PairEnsemble, got {type(model).__name__}.")
    if hasattr(model, "encoder_"):
        raise ValueError("to_torch takes models of numbers as they are; this one has an encoder in front.")
    reach = getattr(model, "xi_range_", [None] * len(model.params_))
    pairs = [_pair(model, *member) for member in zip(model.params_, model.lam_, reach, strict=True)]
    made = pairs[0] if isinstance(model, PairRegressor) else Ensemble(pairs)
    scale = torch.as_tensor(_scale(model))
    made.keep("loss_scale", scale[0] if len(scale) == 1 else scale)
    if hasattr(model, "loss_limits_"):
        limits = torch.as_tensor(model.loss_limits_ * _correction(model))
        made.keep("loss_limits", limits[:, 0] if len(scale) == 1 else limits)
    return made.train(False)  # in training mode dropout would be on, and xi not clipped


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
    pair.scaling = Scaling(scales.x_mean, scales.x_spread, y_mean, y_spread, scales.to_inputs[2])
    return pair


def layers_of(weights: list[Weights], params: NDArray[np.float32], settings: Any, flat: bool) -> nn.Sequential:
    """Linear layers with the activation between them, a trunk ends in one; the output `flat` is (n,), not (n, 1)."""
    layers: list[nn.Module] = []
    for each in weights:
        linear = nn.Linear(each.inputs, each.columns, device="meta").to_empty(device="cpu")  # draws no random numbers
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(each.of(params).T.copy()))
            linear.bias.copy_(torch.from_numpy(each.bias_of(params).copy()))
        layers.append(linear)
        if not each.transposed:  # a hidden layer
            layers.append(ACTIVATIONS[settings["activation"]]())
            layers += [nn.Dropout(settings["dropout"])] if settings["dropout"] else []
    return nn.Sequential(*layers, *([nn.Flatten(0)] if flat else []))


def _scale(model: Any) -> NDArray[np.float64]:
    """The factor of the expected loss, for each quantifier."""
    return np.asarray(model.loss_scale_, np.float64) * _correction(model)


def _correction(model: Any) -> NDArray[np.float64]:
    """The factors of `recalibrate`, one for each quantifier."""
    factor = np.ones(len(model.loss_scale_))
    curves = model.loss_correction_.curves or ()
    if any(len(curve.before) > 1 for curve in curves):
        raise ValueError("to_torch moves one factor of the expected loss: recalibrate with method='factor'.")
    if curves:
        factor = factor * [float(curve.after[0] / curve.before[0]) for curve in curves]
    return factor
