"""A quantifier for a torch module that is fitted already: it learns the module's losses from the module's own features.

The module predicts rows it was not trained on, and is not changed. The activations of a hidden layer and the prediction
of each row become a table, from which `LossQuantifier` learns the losses with the compiled engine: the length of
training by cross-validation, the scale from held-out rows, intervals.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aleator.estimators import LossQuantifier, Prediction
from aleator.losses import Loss
from aleator.preprocessing.outliers import LARGEST
from aleator.torch.batches import rows_of
from aleator.torch.float64_buffers import ExactModule
from aleator.torch.from_engine import layers_of
from aleator.torch.losses_and_couplings import TorchLoss, coupling_of, loss_of
from aleator.torch.modules import array, device_of, dtype_of, evaluating, first, inputs_on
from aleator.torch.onnx_export import export
from aleator.torch.pair import BATCH
from aleator.torch.scaling import Scaling

Floats = NDArray[np.float64]
Features = str | Callable[..., Tensor] | None
MOST_FEATURES = 10_000


class Quantifier(nn.Module):
    """The expected loss of each prediction of a trained module, learned from its hidden features.

    The module is not changed. Behind it is an `aleator.LossQuantifier`: training length by cross-validation, scale from
    held-out rows, intervals.

    Parameters
    ----------
    module : Module
        Any trained module x -> y_pred, (n,) or (n, m).
    features : str or callable, default=None
        What the quantifier reads: the name of a layer, whose output is flattened to (n, d); a function of the inputs
        x -> (n, d); None for the input of the last linear layer.
    loss : str or callable, default="squared"
        The loss, by name or as a torch function ``(y_pred, y) -> losses``.
    use_prediction : bool, default=True
        Whether the prediction is an input of the quantifier.
    **settings : dict
        Parameters of `aleator.LossQuantifier`.

    Attributes
    ----------
    quantifier : LossQuantifier
        The quantifier of the features, once fitted.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from aleator.torch import Quantifier
    >>> net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))
    >>> x = torch.linspace(0, 1, 200)[:, None]
    >>> quantifier = Quantifier(net, loss="absolute", n_members=1).fit((x, x[:, 0] * torch.randn(200)))
    >>> quantifier.predict(x[:3]).expected_loss.shape
    (3,)
    """

    quantifier: LossQuantifier

    def __init__(
        self,
        module: nn.Module,
        features: Features = None,
        *,
        loss: str | Loss | TorchLoss = "squared",
        use_prediction: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
        self.module = module
        self.features = features
        self.use_prediction = use_prediction
        self.loss, self.measure = loss_of(loss)
        cost = self.measure if isinstance(self.measure, Loss) else self.measure.function
        if settings.get("quantifier", "network") != "network":
            raise ValueError(f"a torch quantifier is made of networks: quantifier={settings['quantifier']!r}.")
        self.settings = {"loss": cost, "cv": "prefit", "use_prediction": False, "quantifier": "network", **settings}
        self._layer()  # raises an error for an unknown name
        self.readers: Readers | None = None

    # ------------------------------------------------------------ fit

    def fit(self, data: Any, groups: Any = None, batch_size: int = BATCH) -> Self:
        """Learn from rows that the module was not trained on.

        Parameters
        ----------
        data : tuple, Dataset, DataLoader or iterable
            (x, y) or (x, y, weight) as tensors or arrays, a Dataset, a DataLoader, or an iterable of batches.
        groups : array-like of shape (n,), default=None
            Rows of one group are held out together.
        batch_size : int, default=1024
            Rows of a batch.

        Returns
        -------
        Quantifier
            The fitted quantifier.
        """
        seen, targets, weights, n_outputs = [], [], [], 0
        for batch, y_pred, features in self._looked_at(data, batch_size, labelled=True):
            if y_pred.shape != batch.y.shape or y_pred.ndim > 2:
                raise ValueError(
                    f"the module predicts {tuple(y_pred.shape)} where y is {tuple(batch.y.shape)}; both must be (n,) "
                    "or both (n, m)."
                )
            n_outputs = y_pred.shape[1] if y_pred.ndim == 2 else 1
            seen.append(self._row(features, y_pred))
            targets.append(array(batch.y))
            weights.append(None if batch.weight is None else array(batch.weight))
        if not seen:
            raise ValueError("there are no rows to learn from.")
        weight = None if weights[0] is None else np.concatenate([w for w in weights if w is not None])
        prediction = LastColumns(n_outputs, hidden=not self.use_prediction)
        model = LossQuantifier(prediction, encoder=prediction.seen, **self.settings)
        self.quantifier = model.fit(np.concatenate(seen), np.concatenate(targets), sample_weight=weight, groups=groups)
        self.readers = Readers(self.quantifier).to(device_of(self.module))
        return self

    def _row(self, features: Tensor, y_pred: Tensor) -> Floats:
        """Features and prediction side by side, the prediction last."""
        return np.column_stack([array(features), array(y_pred)])

    # ------------------------------------------------------------ answers

    def forward(self, *x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the module's prediction and its expected loss, as tensors.

        Parameters
        ----------
        *x : tensor
            Inputs.

        Returns
        -------
        y_pred, expected_loss : tensor
            Predictions and expected losses.
        """
        readers = self._readers()
        still = nullcontext() if torch.compiler.is_compiling() else evaluating(self.module)  # keeps its statistics
        with still, self._watching() as caught:
            y_pred = self.module(*x)
        features = self._features(x, caught)
        prediction = _columns(y_pred)
        seen = torch.cat([features.double(), prediction.double()], 1) if self.use_prediction else features.double()
        expected = readers(seen) + self._beyond(prediction.double(), readers)
        shared = expected.shape[1] < prediction.shape[1]
        return y_pred, expected[:, 0] if y_pred.ndim == 1 or shared else expected

    def _beyond(self, prediction: Tensor, readers: "Readers") -> Tensor | float:
        """The least loss of predictions outside the plausible range (n, Q): `LossQuantifier.prediction_range_`."""
        if not readers.has_range:
            return 0.0
        each = self.loss(prediction, prediction.clamp(readers.prediction_range[0], readers.prediction_range[1])).clamp(
            max=LARGEST
        )
        return each if readers.unit.shape[0] == prediction.shape[1] else each.sum(1, keepdim=True)

    def predict(self, x: Any, batch_size: int = BATCH) -> Prediction:
        """Compute predictions and expected losses as arrays.

        Parameters
        ----------
        x : tensor, array or tuple
            Inputs.
        batch_size : int, default=1024
            Rows of a batch.

        Returns
        -------
        Prediction
            Predictions and expected losses.
        """
        return self._fitted().predict_uncertainty(self._rows(x, batch_size))

    def predict_interval(self, x: Any, coverage: float = 0.9, batch_size: int = BATCH) -> tuple[Floats, Floats]:
        """Compute intervals, as `aleator.LossQuantifier.predict_interval`.

        Parameters
        ----------
        x : tensor, array or tuple
            Inputs.
        coverage : float, default=0.9
            Probability that the interval contains the target.
        batch_size : int, default=1024
            Rows of a batch.

        Returns
        -------
        lower, upper : ndarray
            The ends.
        """
        return self._fitted().predict_interval(self._rows(x, batch_size), coverage)

    def conformalize(self, data: Any, batch_size: int = BATCH) -> Self:
        """Give intervals guaranteed coverage, with rows not used before.

        Parameters
        ----------
        data : tuple, Dataset, DataLoader or iterable
            (x, y) or (x, y, weight) as tensors or arrays, a Dataset, a DataLoader, or an iterable of batches.
        batch_size : int, default=1024
            Rows of a batch.

        Returns
        -------
        Quantifier
            The same quantifier.
        """
        self._fitted().conformalize(*self._table(data, batch_size))
        return self

    def recalibrate(self, data: Any, method: str = "factor", batch_size: int = BATCH) -> Self:
        """Correct the expected loss on rows that were not used in `fit`; the module's answers as tensors too.

        Parameters
        ----------
        data : tuple, Dataset, DataLoader or iterable
            (x, y) or (x, y, weight) as tensors or arrays, a Dataset, a DataLoader, or an iterable of batches.
        method : {"factor", "isotonic"}, default="factor"
            As of `aleator.LossQuantifier.recalibrate`.
        batch_size : int, default=1024
            Rows of a batch.

        Returns
        -------
        Quantifier
            The same quantifier.
        """
        self._fitted().recalibrate(*self._table(data, batch_size), method=method)
        self.readers = Readers(self._fitted()).to(device_of(self.module))
        return self

    def to_onnx(self, path: str | PathLike[str], example: Any = None) -> None:
        """Write an ONNX file; called by `aleator.export_onnx`."""
        export(self, path, example)

    def onnx_outputs(self, *x: Tensor) -> dict[str, Tensor]:
        """Outputs of the ONNX graph by name."""
        y_pred, expected = self(*x)
        return {"prediction": y_pred, "expected_loss": expected}

    def _table(self, data: Any, batch_size: int) -> tuple[Floats, Floats]:
        looked = list(self._looked_at(data, batch_size, labelled=True))
        rows = [self._row(features, y_pred) for _, y_pred, features in looked]
        return np.concatenate(rows), np.concatenate([array(batch.y) for batch, _, _ in looked])

    def _rows(self, x: Any, batch_size: int) -> Floats:
        looked = self._looked_at(x, batch_size, labelled=False)
        return np.concatenate([self._row(features, y_pred) for _, y_pred, features in looked])

    def _fitted(self) -> LossQuantifier:
        if self.readers is None:
            raise ValueError("this Quantifier is not fitted yet: call fit with rows the module was not trained on.")
        return self.quantifier

    def _readers(self) -> "Readers":
        self._fitted()
        assert self.readers is not None
        return self.readers

    # ------------------------------------------------------------ features

    def _looked_at(self, data: Any, batch_size: int, labelled: bool) -> Iterator[tuple[Any, Tensor, Tensor]]:
        """Batches with the prediction and the features of each row."""
        device = device_of(self.module)
        with torch.no_grad(), evaluating(self.module):
            for batch in rows_of(data, batch_size, labelled):
                x = inputs_on(batch.x, device, dtype_of(self.module))
                with self._watching() as caught:
                    y_pred = self.module(*x)
                yield batch, y_pred, self._features(x, caught)

    def _layer(self) -> nn.Module | None:
        """The layer to watch; None if the features are a function."""
        if self.features is None:
            linear = [m for m in self.module.modules() if isinstance(m, nn.Linear)]
            if not linear:
                raise ValueError("the module has no linear layer: name the layer whose output are its features.")
            return linear[-1]
        if callable(self.features):
            return None
        try:
            return self.module.get_submodule(self.features)
        except AttributeError:
            names = ", ".join(name for name, _ in self.module.named_modules() if name)
            raise ValueError(f"the module has no layer {self.features!r}; it has {names}.") from None

    @contextmanager
    def _watching(self) -> Iterator[list[Any]]:
        """Record the output of the layer, or its input if none was named, while the module is called."""
        caught: list[Any] = []
        layer = self._layer()
        if layer is None:
            yield caught
            return
        take = (lambda _, x, out: caught.append(x)) if self.features is None else (lambda _, x, out: caught.append(out))
        handle = layer.register_forward_hook(take)
        try:
            yield caught
        finally:
            handle.remove()

    def _features(self, x: tuple[Tensor, ...], caught: list[Any]) -> Tensor:
        if callable(self.features):
            made = self.features(*x)
        elif caught:
            made = caught[-1]
        else:
            which = "last linear layer: name its features" if self.features is None else f"layer {self.features!r}"
            raise ValueError(f"the module does not call its {which}.")
        while isinstance(made, (tuple, list)):  # recurrent layers give several
            made = made[0]
        rows = first(x).shape[0]  # not len(), which would become a constant in ONNX
        if not isinstance(made, Tensor) or made.ndim == 0 or made.shape[0] != rows:
            got = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise ValueError(f"features must have one row for each of {rows} inputs, and are {got}.")
        flat = _columns(made)
        if flat.shape[1] > MOST_FEATURES:
            raise ValueError(
                f"the features have {flat.shape[1]} numbers a row, more than {MOST_FEATURES}: give a function that "
                "makes fewer of them, such as means over positions."
            )
        return flat


@dataclass(frozen=True)
class LastColumns:
    """A regressor that returns the last columns of its rows, which are predictions made earlier."""

    n_outputs: int
    hidden: bool  # whether the quantifier does not see them

    def predict(self, rows: Floats) -> Floats:
        prediction: Floats = rows[:, -self.n_outputs :]
        return prediction[:, 0] if self.n_outputs == 1 else prediction

    def seen(self, rows: Floats) -> Floats:
        """The inputs of the quantifier."""
        return rows[:, : -self.n_outputs] if self.hidden else rows


class Readers(ExactModule):
    """The trained quantifiers of a `LossQuantifier` in torch: rows -> expected loss (n, Q), mean over the members."""

    lams: Tensor
    reach: Tensor
    unit: Tensor
    loss_limits: Tensor
    prediction_range: Tensor

    def __init__(self, model: LossQuantifier) -> None:
        super().__init__()
        trained = model.quantifiers_.networks
        assert trained is not None
        settings = {"activation": model.settings_["activation"], "dropout": 0.0}
        matrices = list(trained.network.matrices)
        self.members = nn.ModuleList(layers_of(matrices, params, settings, flat=False) for params in trained.params)
        self.scaling = Scaling(trained.scaling.x_mean, trained.scaling.x_spread, x_clip=trained.scaling.to_inputs[2])
        self.coupling = coupling_of(model.settings_["coupling"])
        for name, values in (("lams", trained.lams), ("reach", trained.xi_ranges)):
            self.keep(name, values)
        self.keep("unit", trained.unit * model.loss_scale_)
        Q = len(model.loss_scale_)
        self.keep("loss_limits", getattr(model, "loss_limits_", np.array([[0.0] * Q, [np.inf] * Q])))
        self.has_range = bool(np.isfinite(model.prediction_range_).all())
        self.keep("prediction_range", model.prediction_range_)
        self.corrections = model.loss_correction_.curves or ()

    def forward(self, rows: Tensor) -> Tensor:
        seen = self.scaling.inputs(rows, dtype_of(self.members))
        prediction = []
        for member, lam, (low, high) in zip(self.members, self.lams, self.reach, strict=True):
            xi = member(seen).to(self.unit.dtype).clamp(low, high)
            prediction.append(lam * self.coupling.level(xi))  # Interpretation 4.1
        expected = (self.unit * torch.stack(prediction).mean(0)).clamp(self.loss_limits[0], self.loss_limits[1])
        if not self.corrections:
            return expected
        return torch.stack([_corrected(c, e) for c, e in zip(self.corrections, expected.T, strict=True)], 1)


def _columns(values: Tensor) -> Tensor:
    """(n,) or (n, ...) as (n, d)."""
    return values[:, None] if values.ndim == 1 else values.flatten(1)


def _corrected(curve: Any, expected: Tensor) -> Tensor:
    """`recalibration.Correction` in torch, as in `onnx/networks.py`: straight between knots, in proportion beyond."""
    before, after = (torch.as_tensor(part, dtype=expected.dtype, device=expected.device) for part in
                     (curve.before, curve.after))  # fmt: skip
    inside = expected.clamp(before[0], before[-1])
    beyond = torch.where(inside > 0, expected / inside, 1.0)
    rises = [
        (after[k + 1] - after[k]) * ((inside - before[k]) / (before[k + 1] - before[k])).clamp(0.0, 1.0)
        for k in range(len(before) - 1)
    ]
    return (after[0] + sum(rises)) * beyond
