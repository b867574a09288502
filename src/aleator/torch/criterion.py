"""The joint loss as a criterion of torch: L f(z) + lam g(z) for any module, any loss, any coupling (paper, sec. 3).

criterion = JointLoss("squared", "sigmoid", lam=0.2)
y_pred, xi = pair(x)
criterion(y_pred, xi, y).backward()
criterion.expected_loss(xi)  # the expected squared loss, in its own units
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aleator.couplings import Coupling
from aleator.losses import Loss
from aleator.torch.float64_buffers import ExactModule
from aleator.torch.losses_and_couplings import Elementwise, TorchCoupling, TorchLoss, coupling_of, loss_of
from aleator.torch.scaling import Scaling

Lam = float | Tensor | Callable[[int], float]
REDUCTIONS = ("mean", "sum", "none")


class JointLoss(ExactModule):
    """The joint loss L f(xi) + lam g(xi) of each row, where L is the loss of the prediction (sec. 3).

    `y_pred` and `y` have the same shape, and `xi` has it too, or 1 in place of dimensions whose losses are summed: for
    y (n, m) there is one quantifier for each output with xi (n, m), or one for the sum with xi (n, 1). A loss that is
    not a sum over outputs, such as the length of an error vector, gives values of the shape of `xi`.

    Parameters
    ----------
    loss : str or callable, default="squared"
        "squared", "absolute", "huber(delta)", "pinball(q)", "logcosh", or a function ``(y_pred, y) -> losses >= 0``.
    coupling : str or tuple of callable, default="sigmoid"
        "sigmoid", "softplus", or two functions ``(f, g)`` of xi; derivatives are taken by autograd.
    lam : float, callable or tensor, default=0.2
        A positive number, a function of the epoch (see `set_epoch`), or a tensor (K,) with one value for each of K
        members that are stacked along the first dimension.
    unit : float or tensor of shape (Q,), default=1.0
        What L is divided by before lam is compared with it. `Pair.standardise` sets it to the loss of missing by one
        standard deviation of y.
    reduction : {"mean", "sum", "none"}, default="mean"
        As in torch; a mean with weights is a weighted mean.

    Examples
    --------
    >>> import torch
    >>> from aleator.torch import JointLoss
    >>> criterion = JointLoss("squared", "sigmoid", lam=0.2)
    >>> y_pred, xi, y = torch.zeros(4), torch.zeros(4, requires_grad=True), torch.ones(4)
    >>> criterion(y_pred, xi, y).backward()
    >>> criterion.expected_loss(xi.detach())
    tensor([0.2000, 0.2000, 0.2000, 0.2000])
    """

    lam: Tensor
    unit: Tensor

    def __init__(
        self,
        loss: str | Loss | TorchLoss = "squared",
        coupling: str | Coupling | TorchCoupling | tuple[Elementwise, Elementwise] = "sigmoid",
        lam: Lam = 0.2,
        *,
        unit: float | Tensor = 1.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}.")
        self.loss, self.measure = loss_of(loss)
        self.coupling = coupling_of(coupling)
        self.schedule = lam if callable(lam) and not isinstance(lam, Tensor) else None
        self.reduction = reduction
        self.keep("lam", _positive("lam", lam if self.schedule is None else self.schedule(0)))
        self.keep("unit", _positive("unit", unit))

    def forward(self, y_pred: Tensor, xi: Tensor, y: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Compute the joint loss of a batch.

        Parameters
        ----------
        y_pred : tensor
            Predictions.
        xi : tensor
            Outputs of the quantifier.
        y : tensor
            Targets.
        sample_weight : tensor, default=None
            Weights (n,) or of the shape of `xi`.

        Returns
        -------
        tensor
            The joint loss, reduced.
        """
        value, _ = self.parts(y_pred, xi, y)
        return reduced(value, self._weight(sample_weight, value), self.reduction)

    def parts(self, y_pred: Tensor, xi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the joint loss and the loss itself, for each element of xi.

        Parameters
        ----------
        y_pred : tensor
            Predictions.
        xi : tensor
            Outputs of the quantifier.
        y : tensor
            Targets.

        Returns
        -------
        joint, loss : tensor
            Both in the units of the loss.
        """
        with torch.autocast(y_pred.device.type, enabled=False):
            L = self.losses(y_pred, xi, y)
            xi = _exact(xi)
            in_units = (L / self.unit).to(xi.dtype)
            return in_units * self.coupling.f(xi) + self._lam(xi) * self.coupling.g(xi), L  # eq. (3.1)

    def losses(self, y_pred: Tensor, xi: Tensor, y: Tensor) -> Tensor:
        """Compute L for each element of xi: summed over the outputs that share a quantifier.

        Parameters
        ----------
        y_pred : tensor
            Predictions.
        xi : tensor
            Outputs of the quantifier.
        y : tensor
            Targets.

        Returns
        -------
        tensor
            The losses.
        """
        self.check(y_pred, xi, y, 1 + self.lam.ndim)
        each = self.loss(_exact(y_pred), y)
        if each.shape not in (y.shape, xi.shape):
            raise ValueError(
                f"loss must give one value for each of the targets {tuple(y.shape)}, or for each element of xi "
                f"{tuple(xi.shape)}, and gives {tuple(each.shape)}; a criterion of torch needs reduction='none'."
            )
        shared = [k for k, (wide, narrow) in enumerate(zip(each.shape, xi.shape, strict=True)) if narrow != wide]
        if not isinstance(self.measure, Loss) and not torch.compiler.is_compiling() and (each < 0).any():
            raise ValueError(f"loss {self.measure.name!r} is negative, {each.min().item():g}; it must be >= 0.")
        return each.sum(shared, keepdim=True) if shared else each

    def expected_loss(self, xi: Tensor) -> Tensor:
        """Compute the expected loss -lam g'(z) / f'(z) (Interpretation 4.1).

        Parameters
        ----------
        xi : tensor
            Outputs of the quantifier.

        Returns
        -------
        tensor
            Expected losses, in the units of the loss.
        """
        with torch.autocast(xi.device.type, enabled=False):
            xi = _exact(xi)
            return self.unit.to(xi.dtype) * (self._lam(xi) * self.coupling.level(xi))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, for a lam that is a schedule.

        Parameters
        ----------
        epoch : int
            The epoch, from 0.
        """
        if self.schedule is not None:
            self.lam.copy_(_positive("lam", self.schedule(epoch)))

    def measure_by(self, scaling: Scaling, y_shape: torch.Size, xi_shape: torch.Size) -> None:
        """Set the unit: the loss of missing by one standard deviation of y, summed over what shares a quantifier."""
        middle, spread = (part.expand(y_shape[1:]) for part in (scaling.y_mean, scaling.y_spread))
        sides = [self.loss((middle + side * spread)[None], middle[None])[0] for side in (1.0, -1.0)]
        size = torch.stack(sides).mean(0)
        shared = [k for k, (wide, narrow) in enumerate(zip(size.shape, xi_shape[1:], strict=True)) if narrow != wide]
        size = (size.sum(shared, keepdim=True) if shared else size).reshape(-1)
        size = torch.where(size > 0, size, 1.0)
        alone = size.numel() == 1 or len(xi_shape) > 2  # all numbers of a field share one unit
        self.keep("unit", _positive("unit", size[0] if alone else size))

    def extra_repr(self) -> str:
        lam = "schedule" if self.schedule else self.lam.tolist()
        return f"{self.measure.name}, {self.coupling.name}, lam={lam}, reduction={self.reduction}"

    # ------------------------------------------------------------ shapes

    def _lam(self, xi: Tensor) -> Tensor:
        if self.lam.ndim and len(self.lam) != len(xi):
            raise ValueError(f"lam is for {len(self.lam)} members, and xi has shape {tuple(xi.shape)}: members first.")
        return self.lam.to(xi.dtype).reshape(-1, *[1] * (xi.ndim - 1)) if self.lam.ndim else self.lam.to(xi.dtype)

    def check(self, y_pred: Tensor, xi: Tensor, y: Tensor, leading: int = 1) -> None:
        """Refuse shapes that torch would broadcast without a warning, such as (n,) against (n, 1).

        The first `leading` dimensions are members and rows: no quantifier can be shared among these.
        """
        where = {"y_pred": y_pred.device, "xi": xi.device, "y": y.device, "lam": self.lam.device}
        if len(set(where.values())) > 1:
            places = ", ".join(f"{name} on {device}" for name, device in where.items())
            raise ValueError(f"all must be on one device, but {places}; move them with .to(device).")
        if y_pred.shape != y.shape:
            raise ValueError(f"y_pred has shape {tuple(y_pred.shape)}, y has shape {tuple(y.shape)}: they must agree.")
        if xi.ndim != y.ndim or any(
            narrow != wide and (narrow != 1 or k < leading)
            for k, (narrow, wide) in enumerate(zip(xi.shape, y.shape, strict=True))
        ):
            raise ValueError(
                f"xi has shape {tuple(xi.shape)}, y has shape {tuple(y.shape)}: xi must have the shape of y, or 1 in "
                "place of dimensions that share a quantifier."
            )

    def _weight(self, weight: Tensor | None, value: Tensor) -> Tensor | None:
        if weight is None:
            return None
        check_weight(weight)
        if weight.shape == value.shape:
            return weight
        if weight.shape != value.shape[:1]:
            shapes = f"{tuple(value.shape[:1])} or {tuple(value.shape)}"
            raise ValueError(f"sample_weight has shape {tuple(weight.shape)}, it must be {shapes}.")
        return weight.reshape(-1, *[1] * (value.ndim - 1)).expand(value.shape)


def check_weight(weight: Tensor) -> None:
    if not torch.compiler.is_compiling() and not (weight >= 0).all():
        raise ValueError(f"sample weights must be numbers >= 0, and one is {weight.min().item():g}.")


def reduced(value: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Reduce by mean, sum or not at all; with weights a weighted mean."""
    weighted = value if weight is None else weight * value
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return weighted.sum()
    return weighted.mean() if weight is None else weighted.sum() / weight.sum()


def _exact(values: Tensor) -> Tensor:
    """Half precision as float32: its sums and logarithms would be too coarse."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def _positive(name: str, values: Any) -> Tensor:
    try:
        given = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        given = torch.tensor(torch.nan)
    if given.ndim > 1 or not (torch.isfinite(given).all() and (given > 0).all()):
        raise ValueError(f"{name} must be a positive number, or one-dimensional with positive numbers; got {values!r}.")
    return given
