"""A regressor and a quantifier as one module, with or without a common trunk.

x -> regressor(x), quantifier(x)                  separate networks
x -> t = trunk(x) -> regressor(t), quantifier(t)  two objectives on a shared trunk
"""

import copy
from collections.abc import Iterator
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from aleator.estimators.prediction import Prediction
from aleator.losses import Cost, Loss
from aleator.torch.batches import Batch, rows_of
from aleator.torch.criterion import JointLoss
from aleator.torch.float64_buffers import ExactModule
from aleator.torch.modules import (
    Sums,
    array,
    by_row,
    device_of,
    dtype_of,
    evaluating,
    first,
    inputs_on,
)
from aleator.torch.onnx_export import export
from aleator.torch.process_group import world
from aleator.torch.random_seeds import draw_from, given_back
from aleator.torch.scaling import Scaling, moments
from aleator.torch.to_engine import from_torch

BATCH = 1024  # rows per batch for prediction
ANY_LOSS = (0.0, float("inf"))  # limits of the expected loss without held-out rows


class Pair(ExactModule):
    """A regressor with a quantifier as one module: ``pair(x)`` gives (y_pred, xi), ``pair.predict(x)`` a `Prediction`.

    Parameters
    ----------
    regressor : Module
        Any module x -> y_pred. With a trunk it reads the trunk's output.
    quantifier : Module, default=None
        Any module x -> xi, a real number for each prediction (or each output, see `JointLoss` for the shapes). None
        copies the architecture of the regressor with one output and weights of its own.
    trunk : Module, default=None
        A module that both share.
    criterion : JointLoss, default=None
        The joint loss for training, which also turns xi into the expected loss; None is ``JointLoss()``.
    per_output : bool, default=False
        Whether the quantifier that is made has as many outputs as the regressor.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from aleator.torch import Pair
    >>> pair = Pair(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0)))
    >>> y_pred, xi = pair(torch.zeros(5, 3))
    >>> y_pred.shape, xi.shape
    (torch.Size([5]), torch.Size([5]))
    """

    loss_scale: Tensor
    loss_limits: Tensor
    newer: ClassVar[dict[str, Any]] = {"loss_limits": ANY_LOSS}

    def __init__(
        self,
        regressor: nn.Module,
        quantifier: nn.Module | None = None,
        trunk: nn.Module | None = None,
        *,
        criterion: JointLoss | None = None,
        per_output: bool = False,
    ) -> None:
        super().__init__()
        for name, part in (("regressor", regressor), ("quantifier", quantifier), ("trunk", trunk)):
            if not (isinstance(part, nn.Module) or (part is None and name != "regressor")):
                raise TypeError(f"{name} must be a torch.nn.Module, got {type(part).__name__}.")
        self.trunk = trunk
        self.regressor = regressor
        self.quantifier = quantifier_like(regressor, per_output) if quantifier is None else quantifier
        self.criterion = JointLoss() if criterion is None else criterion
        self.scaling: Scaling | None = None
        self.keep("loss_scale", 1.0)
        self.keep("loss_limits", ANY_LOSS)
        self.history = pd.DataFrame()

    def forward(self, *x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute predictions and xi.

        Parameters
        ----------
        *x : tensor
            Inputs.

        Returns
        -------
        y_pred : tensor
            Predictions, in the target's units.
        xi : tensor
            Outputs of the quantifier.
        """
        if self.scaling is not None:
            x = (self.scaling.inputs(x[0], dtype_of(self)), *x[1:])
        seen = x if self.trunk is None else (self.trunk(*x),)
        y_pred, xi = self.regressor(*seen), self.quantifier(*seen)
        return (y_pred if self.scaling is None else self.scaling.outputs(y_pred)), xi

    def expected_loss(self, xi: Tensor) -> Tensor:
        """Compute the expected loss.

        Parameters
        ----------
        xi : tensor
            Outputs of the quantifier.

        Returns
        -------
        tensor
            Expected losses, in the units of the loss.
        """
        limits = self.loss_limits.to(xi.device)
        return (self.loss_scale.to(xi.device) * self.criterion.expected_loss(xi.double())).clamp(limits[0], limits[1])

    # ------------------------------------------------------------ units

    def standardise(self, data: Any) -> Self:
        """Learn mean and standard deviation of inputs and targets in one pass over the data.

        The networks then see standardised numbers and the answers stay in the user's units; lam is in units of the loss
        of missing by one standard deviation of y.

        Parameters
        ----------
        data : tuple, Dataset, DataLoader or iterable
            (x, y) or (x, y, weight) as tensors or arrays, a Dataset, a DataLoader, or an iterable of batches.

        Returns
        -------
        Pair
            The same pair.
        """
        device = device_of(self)
        with given_back(device):
            draw_from(device, 0)  # a loader that shuffles shows the rows in the same order each time
            of_x, of_y = moments(((first(batch.x), batch.y, batch.weight) for batch in rows_of(data)), world())
            batch = next(rows_of(data, 2), None)
        if batch is None:
            raise ValueError("data can be read only once, a generator: give a list, a Dataset or a DataLoader.")
        self.scaling = Scaling(of_x.mean, of_x.spread, of_y.mean, of_y.spread).to(device)
        with torch.no_grad(), evaluating(self):
            xi = self(*self.inputs(batch.x))[1]
        self.criterion.measure_by(self.scaling, batch.y.shape, xi.shape)
        return self

    def scaled_like(self, other: "Pair") -> Self:
        """Take the standardisation of another pair, and the unit of its losses."""
        self.scaling = copy.deepcopy(other.scaling)
        self.criterion.keep("unit", other.criterion.unit)
        return self

    def set_criterion(self, criterion: JointLoss) -> Self:
        """Replace the criterion; a standardised pair must be standardised again.

        Parameters
        ----------
        criterion : JointLoss
            The new criterion.

        Returns
        -------
        Pair
            The same pair.
        """
        if self.scaling is not None:
            raise ValueError(
                "the unit of the losses belongs to the criterion: give the Pair its criterion, then standardise."
            )
        self.criterion = criterion
        return self

    def recalibrate(self, data: Any) -> Self:
        """Multiply the expected loss by mean realised over mean expected loss on rows that were not trained on.

        Parameters
        ----------
        data : tuple, Dataset, DataLoader or iterable
            (x, y) or (x, y, weight) as tensors or arrays, a Dataset, a DataLoader, or an iterable of batches.

        Returns
        -------
        Pair
            The same pair.
        """
        sums = Sums()
        for batch, y_pred, xi in self.answers(data, labelled=True):
            realised = self.criterion.losses(y_pred, xi, batch.y.to(xi.device))
            sums.add(realised, self.expected_loss(xi), batch.weight)
        factor = sums.ratio()
        self.keep("loss_scale", factor * self.loss_scale.to(factor.device))
        self.keep("loss_limits", factor * self.loss_limits.to(factor.device))
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        if self.scaling is None and f"{prefix}scaling.x_mean" in state_dict:
            self.scaling = Scaling().to(device_of(self))
        super()._load_from_state_dict(state_dict, prefix, *others)

    # ------------------------------------------------------------ answers

    def predict(self, x: Any, batch_size: int = BATCH) -> Prediction:
        """Compute predictions and expected losses as arrays, with dropout off.

        Parameters
        ----------
        x : tensor, array or tuple
            Inputs; a tuple for a module with several.
        batch_size : int, default=1024
            Rows of a batch.

        Returns
        -------
        Prediction
            Predictions, expected losses and their parts.
        """
        answers = [(y_pred, xi) for _, y_pred, xi in self.answers(x, batch_size)]
        mean = np.concatenate([array(y_pred) for y_pred, _ in answers])
        expected = by_row(np.concatenate([array(self.expected_loss(xi)) for _, xi in answers]), mean)
        return Prediction(mean, expected, expected, np.zeros_like(expected), self.criterion.measure)

    def to_estimator(self, kind: Any) -> Any:
        """Make an estimator; called by `PairRegressor.from_torch`."""
        return from_torch(self, kind)

    def to_onnx(self, path: str | PathLike[str], example: Any = None) -> None:
        """Write an ONNX file; called by `aleator.export_onnx`."""
        export(self, path, example)

    def onnx_outputs(self, *x: Tensor) -> dict[str, Tensor]:
        """Outputs of the ONNX graph by name."""
        y_pred, xi = self(*x)
        return {"prediction": y_pred, "expected_loss": by_row(self.expected_loss(xi), y_pred)}

    @property
    def measure(self) -> Loss | Cost:
        """The loss that the expected loss refers to."""
        return self.criterion.measure

    def answers(
        self, data: Any, batch_size: int = BATCH, labelled: bool = False
    ) -> Iterator[tuple[Batch, Tensor, Tensor]]:
        """Batches of rows with the pair's answers; without labels `data` may be inputs alone."""
        with torch.no_grad(), evaluating(self):
            for batch in rows_of(data, batch_size, labelled):
                yield batch, *self(*self.inputs(batch.x))

    def inputs(self, x: Any) -> tuple[Tensor, ...]:
        """The inputs on the pair's device; float64, numpy's default, as its weights unless it standardises."""
        return inputs_on(x, device_of(self), dtype_of(self) if self.scaling is None else None)


# ---------------------------------------------------------------- a quantifier like the regressor


def quantifier_like(regressor: nn.Module, per_output: bool = False) -> nn.Module:
    """The architecture of `regressor` with fresh weights, and one output unless `per_output`."""
    quantifier = copy.deepcopy(regressor)
    weighty = [
        (name, m) for name, m in quantifier.named_modules() if next(m.parameters(recurse=False), None) is not None
    ]
    if not weighty:
        raise ValueError("a regressor without parameters has no architecture to copy: give the quantifier.")
    last, layer = _last(quantifier)
    for name, module in weighty:
        reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
        if reset is None:
            raise ValueError(
                f"{type(module).__name__} ({name or 'the regressor'}) has no reset_parameters(), so it cannot be given "
                "fresh weights: give the quantifier."
            )
        reset()
    quantifier.requires_grad_(True)  # also where the regressor is frozen
    if per_output:
        return quantifier
    fresh = _with_one_output(layer)
    if last == "":
        return fresh
    parent, _, own = last.rpartition(".")
    quantifier.get_submodule(parent).register_module(own, fresh)
    return quantifier


_OUTPUTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def _last(module: nn.Module) -> tuple[str, nn.Module]:
    """The output layer: the last linear or convolutional one, without a nonlinear layer behind it."""
    leaves = [(name, m) for name, m in module.named_modules() if next(m.children(), None) is None]
    places = [k for k, (_, m) in enumerate(leaves) if isinstance(m, _OUTPUTS)]
    if not places:
        raise ValueError("the regressor has no linear or convolutional layer to end in: give the quantifier.")
    for _, behind in leaves[places[-1] + 1 :]:
        if not isinstance(behind, (nn.Identity, nn.Flatten, nn.Unflatten)):
            raise ValueError(
                f"the regressor has {type(behind).__name__} behind its last linear layer, and a quantifier must be "
                "free to say any real number: give the quantifier."
            )
    return leaves[places[-1]]


def _with_one_output(layer: Any) -> nn.Module:
    bias, where = layer.bias is not None, {"device": layer.weight.device, "dtype": layer.weight.dtype}
    if isinstance(layer, nn.LazyLinear):
        return nn.LazyLinear(1, bias)
    if isinstance(layer, nn.Linear):
        return nn.Linear(layer.in_features, 1, bias, **where)
    kind: type[nn.Module] = type(layer)
    return kind(
        layer.in_channels, 1, layer.kernel_size, layer.stride, layer.padding, layer.dilation, 1, bias,
        layer.padding_mode, **where,
    )  # fmt: skip
