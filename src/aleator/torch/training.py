"""Training without a custom loop: `fit_pair` for one pair, `fit_ensemble` for several at once.

    for epoch: for batch: joint loss -> gradient -> clip -> step;  then validation, history, the best weights

Everything random in it is a function of the seed, the epoch and the step, so a training that was stopped at any step
goes on from its checkpoint to the same bits. Under `torchrun` each process takes its part of every batch, and the
gradients are averaged (DistributedDataParallel): the result is that of one process but for rounding.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import LBFGS, Adam, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from aleator.engine import DivergenceError
from aleator.torch import checkpoint as states
from aleator.torch.batches import Batch, Rows, Stream, read
from aleator.torch.criterion import JointLoss
from aleator.torch.ensemble import Ensemble
from aleator.torch.ensemble_members import Alone, Stacked, State
from aleator.torch.modules import device_of, evaluating, modes_kept
from aleator.torch.pair import Pair
from aleator.torch.process_group import World, world
from aleator.torch.random_seeds import draw_from, given_back
from aleator.torch.xi_range import release
from aleator.training import progress

MakeOptimizer = Callable[[Any], Optimizer]
MakeScheduler = Callable[[Optimizer], LRScheduler]
WHOLE = ("LBFGS", "Adafactor", "Muon", "SparseAdam")  # optimizers whose update of one number depends on others
TOLD = ("joint_loss", "loss", "expected_loss")  # averaged over an epoch for each member, in the units of the loss,
SUMS = (*TOLD, "objective", "score", "weight")  # and sums that belong to it


@dataclass(frozen=True, kw_only=True)
class Training:
    """The parameters of `fit_pair`, checked."""

    epochs: int = 100
    optimizer: MakeOptimizer | Optimizer | None = None
    scheduler: MakeScheduler | LRScheduler | None = None
    scheduler_step: str = "epoch"
    standardise: bool = False
    batch_size: int = 64
    validation: Any = None
    patience: int | None = None
    device: str | torch.device | None = None
    autocast: torch.dtype | None = None
    clip: float | None = None
    seed: int = 0
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: float = 60.0
    verbose: bool = False

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("seed", 0)):
            value = getattr(self, name)
            if not (isinstance(value, int) and not isinstance(value, bool) and value >= least):
                raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")
        if self.scheduler_step not in ("epoch", "batch"):
            raise ValueError(f"scheduler_step must be 'epoch' or 'batch', got {self.scheduler_step!r}.")
        if self.patience is not None and (self.validation is None or self.patience < 1):
            raise ValueError("patience stops training when validation=(x, y) no longer improves: give it, and >= 1.")
        if self.clip is not None and not (isinstance(self.clip, (int, float)) and self.clip > 0):
            raise ValueError(f"clip must be a positive number, got {self.clip!r}.")
        if self.autocast not in (None, torch.bfloat16, torch.float16):
            raise ValueError(f"autocast must be torch.bfloat16 or torch.float16, got {self.autocast!r}.")
        for name, made in (("optimizer", self.optimizer), ("scheduler", self.scheduler)):
            if not (made is None or callable(made) or hasattr(made, "step")):
                raise ValueError(f"{name} must be an object of torch or a function that makes one.")


def fit_pair(
    pair: Pair,
    data: Any,
    *,
    epochs: int = 100,
    optimizer: MakeOptimizer | Optimizer | None = None,
    scheduler: MakeScheduler | LRScheduler | None = None,
    scheduler_step: str = "epoch",
    criterion: JointLoss | None = None,
    standardise: bool = False,
    batch_size: int = 64,
    validation: Any = None,
    patience: int | None = None,
    device: str | torch.device | None = None,
    autocast: torch.dtype | None = None,
    clip: float | None = None,
    seed: int = 0,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    verbose: bool = False,
) -> Pair:
    """Train a pair on its joint loss, in place.

    Parameters
    ----------
    pair : Pair
        The pair.
    data : tuple, Dataset, DataLoader or iterable
        (x, y) or (x, y, weight) as tensors or arrays, a Dataset, a DataLoader, or an iterable of batches.
    validation : like data, default=None
        Rows whose losses are recorded in the history.
    epochs : int, default=100
        Passes over the data.
    batch_size : int, default=64
        Rows of a step, where `data` has no batches of its own.
    optimizer : callable or Optimizer, default=None
        A function of the parameters, such as ``functools.partial(torch.optim.SGD, lr=0.1)``, or an optimizer; None is
        Adam.
    scheduler : callable or LRScheduler, default=None
        Likewise, a function of the optimizer.
    scheduler_step : {"epoch", "batch"}, default="epoch"
        When the scheduler advances.
    criterion : JointLoss, default=None
        Replaces the pair's own.
    standardise : bool, default=False
        Call ``pair.standardise(data)`` first, unless that was done.
    patience : int, default=None
        Stop when the validation has not improved for this many epochs, and keep the best weights. The measure is the
        joint loss, or, if lam follows a schedule, the score L / e + ln e of the expected loss e.
    clip : float, default=None
        Largest norm of a gradient.
    device : device, default=None
        Where to train; None leaves the pair where it is.
    autocast : dtype, default=None
        torch.bfloat16 or torch.float16.
    seed : int, default=0
        Seed of the order of the rows and of dropout.
    checkpoint : str or PathLike, default=None
        A file from which training resumes if it exists. Data, seed and settings must be the same; `epochs` may be more.
    checkpoint_every : float, default=60
        Seconds between two checkpoints; 0 writes one after every step.
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Pair
        The same pair, with ``pair.history``, a DataFrame by epoch in the units of the loss: joint_loss, loss and
        expected_loss on the training rows, validation_* on the others, and the learning rate.

    Raises
    ------
    ValueError
        If a parameter or the data are invalid, or if the checkpoint is that of another training.
    FloatingPointError
        If the loss is not finite; the message names member, epoch and step.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from aleator.torch import Pair, fit_pair
    >>> x = torch.linspace(0, 1, 64)[:, None]
    >>> pair = Pair(nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0)))
    >>> history = fit_pair(pair, (x, x[:, 0]), epochs=3).history
    >>> len(history)
    3
    """
    training = Training(
        epochs=epochs, optimizer=optimizer, scheduler=scheduler, scheduler_step=scheduler_step, standardise=standardise,
        batch_size=batch_size, validation=validation, patience=patience, device=device, autocast=autocast, clip=clip,
        seed=seed, checkpoint=checkpoint, checkpoint_every=checkpoint_every, verbose=verbose,
    )  # fmt: skip
    if not isinstance(pair, Pair):
        raise TypeError(f"fit_pair trains a Pair, got {type(pair).__name__}: make one, Pair(module).")
    if criterion is not None:
        pair.set_criterion(criterion)
    if device is not None:
        pair.to(device)
    if standardise and pair.scaling is None:
        pair.standardise(data)
    release(pair)
    run = _train(Alone(pair), pair.criterion, data, training)
    pair.history = pd.DataFrame(run.progress.history).drop(columns="member")
    return pair


def fit_ensemble(make_pair: Callable[[int], Pair], k: int, data: Any, **training: Any) -> Ensemble:
    """Train several pairs at once, all members in one vectorised step.

    Members see the same batches, and each stops by its own validation. Modules that cannot be vectorised, such as those
    with dropout, are called one after the other.

    Parameters
    ----------
    make_pair : callable
        ``make_pair(number)`` makes each pair, of one architecture with weights of its own.
    k : int
        Number of pairs.
    data : tuple, Dataset, DataLoader or iterable
        (x, y) or (x, y, weight) as tensors or arrays, a Dataset, a DataLoader, or an iterable of batches.
    **training : dict
        Parameters of `fit_pair`. The optimizer must be a function, and treat every number by itself (SGD, Adam, AdamW,
        RMSprop).

    Returns
    -------
    Ensemble
        The trained pairs.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from aleator.torch import Pair, fit_pair
    >>> x = torch.linspace(0, 1, 64)[:, None]
    >>> pair = Pair(nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0)))
    >>> from aleator.torch import fit_ensemble
    >>> def make_pair(k):
    ...     torch.manual_seed(k)
    ...     return Pair(nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0)))
    >>> ensemble = fit_ensemble(make_pair, 2, (x, x[:, 0]), epochs=2)
    """
    settings = Training(**training)
    if isinstance(settings.optimizer, Optimizer) or isinstance(settings.scheduler, (LRScheduler, ReduceLROnPlateau)):
        raise ValueError("fit_ensemble stacks the members' weights: give functions that make optimizer and scheduler.")
    if not (isinstance(k, int) and k >= 1):
        raise ValueError(f"k must be a whole number of members >= 1, got {k!r}.")
    pairs = [_made(make_pair, number, settings.device) for number in range(k)]
    if settings.standardise and pairs[0].scaling is None:
        pairs[0].standardise(data)
        for pair in pairs[1:]:
            pair.scaled_like(pairs[0])
    ensemble = Ensemble(pairs)
    for pair in pairs:
        release(pair)
    stacked = Stacked(pairs)
    run = _train(stacked, ensemble.criterion(), data, settings)
    ensemble.history = pd.DataFrame(run.progress.history)
    stacked.into(pairs)
    for pair, epoch in zip(pairs, run.last_epochs(), strict=True):
        pair.criterion.set_epoch(epoch)
    return ensemble


def _made(make_pair: Callable[[int], Pair], number: int, device: Any) -> Pair:
    pair = make_pair(number)
    if not isinstance(pair, Pair):
        raise TypeError(f"make_pair({number}) must make a Pair, and makes a {type(pair).__name__}.")
    return pair if device is None else pair.to(device)


# ---------------------------------------------------------------- the loop


@contextmanager
def training_modes(model: Alone | Stacked) -> Iterator[None]:
    """In training mode, but parts that their owner has set to evaluate stay so; afterwards all is as before."""
    pair = model.template()
    with modes_kept(pair):
        if not pair.training:
            pair.train()
        yield


@dataclass
class Progress:
    """How far training has come, and the best weights so far: all that a checkpoint holds beside torch's own states."""

    epoch: int = 0
    step: int = 0  # within the epoch
    sums: dict[str, Any] = field(default_factory=dict)
    best: Any = None  # (K,)
    best_epoch: Any = None
    stopped: bool = False
    kept: State = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


def _train(model: Alone | Stacked, criterion: JointLoss, data: Any, training: Training) -> "_Run":
    """Train the members of `model`, which end with their best weights."""
    run = _Run(model, criterion, data, training, world())
    run.restore()
    steps = run.data.steps or 1  # the number of batches of an iterable is unknown, so epochs are counted
    bar, tick = progress.progress_bar(training.verbose and run.world.rank == 0, "training", training.epochs * steps)
    with given_back(run.device), training_modes(model), bar:
        tick(run.progress.epoch * steps)
        while run.progress.epoch < training.epochs and not run.progress.stopped:
            run.epoch(tick)
    run.finish()
    return run


class _Run:
    """One training: what is trained, by what, and how far it has come."""

    def __init__(
        self, model: Alone | Stacked, criterion: JointLoss, data: Any, training: Training, world: World
    ) -> None:
        self.model, self.criterion, self.training, self.world = model, criterion, training, world
        self.device = device_of(model)
        criterion.to(self.device)
        self.data = read(data, training.batch_size, training.seed)
        self.held = None if training.validation is None else read(training.validation, 1024, 0, shuffle=False)
        self.optimizer = _optimizer(training, model)
        name = type(self.optimizer).__name__
        if model.size > 1 and name in WHOLE:
            raise ValueError(f"{name} does not treat every number by itself: it trains one pair at a time.")
        if name == "LBFGS" and training.autocast is torch.float16:
            raise ValueError("LBFGS cannot train in float16.")
        groups = [
            {name: value for name, value in group.items() if name != "params"} for group in self.optimizer.param_groups
        ]
        self.settings = f"{name} {groups}"  # before a scheduler changes them
        self.scheduler = _scheduler(training, self.optimizer)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=training.autocast is torch.float16)
        self.progress = Progress(
            best=torch.full((model.size,), torch.inf, dtype=torch.float64), best_epoch=torch.zeros(model.size)
        )
        self.called: nn.Module = DistributedDataParallel(model) if world.size > 1 else model
        self.written = time.monotonic()

    def epoch(self, tick: Callable[[int], None]) -> None:
        """The rest of the current epoch."""
        now = self.progress
        self.criterion.set_epoch(now.epoch)
        now.sums = now.sums or {name: torch.zeros(self.model.size, dtype=torch.float64) for name in SUMS}
        begin = now.step if isinstance(self.data, Rows) else 0  # the batches of an iterable are made again
        batches = self.data.epoch(now.epoch, self.world, begin)
        for step in itertools.count(begin):
            self.draw_from(step)  # the order of a loader without a seed, augmentation, dropout
            batch, rows = next(batches, (None, 0))
            if batch is None:
                break
            if step < now.step:
                continue
            self.step(batch.to(self.device), rows)
            now.step += 1
            tick(1 if self.data.steps else 0)
            self.save_sometimes()
        if now.step == 0:
            raise ValueError(
                f"data gave no batch in epoch {now.epoch + 1}; a generator can be read only once: give a list, a "
                "Dataset or a DataLoader."
            )
        self.end_epoch()
        tick(0 if self.data.steps else 1)

    def draw_from(self, number: int) -> None:
        """Seed torch's generators by seed, epoch, this number and the process."""
        draw_from(self.device, self.training.seed, self.progress.epoch, number, self.world.rank)

    def step(self, batch: Batch, rows: int) -> None:
        """One step of the optimizer on a batch, which all processes together have `rows` rows of."""
        seen: list[dict[str, Tensor]] = []
        if isinstance(self.optimizer, LBFGS):  # may evaluate the gradient several times
            self.optimizer.step(lambda: self.gradient(batch, rows, seen))  # type: ignore[no-untyped-call]
        else:
            self.gradient(batch, rows, seen)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if self.scheduler is not None and self.training.scheduler_step == "batch":
            self.scheduler.step()
        for name, value in seen[0].items():
            self.progress.sums[name] += value

    def gradient(self, batch: Batch, rows: int, seen: list[dict[str, Tensor]]) -> float:
        """The gradient of the objective on a batch, which goes to the parameters; its sums are appended to `seen`."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, self.training.autocast, enabled=self.training.autocast is not None):
            y_pred, xi = self.called(*self.model.template().inputs(batch.x))
        objective, sums = self.measured(y_pred, xi, batch, rows)
        sums = self.of_all(sums)
        if not torch.isfinite(sums["joint_loss"]).all():
            member = int((~torch.isfinite(sums["joint_loss"])).nonzero()[0])
            raise DivergenceError(
                f"training diverged: the joint loss of member {member} is {float(sums['joint_loss'][member]):g} in "
                f"epoch {self.progress.epoch + 1}, step {self.progress.step + 1}. Lower the learning rate, set clip, "
                "or standardise; look for inputs and targets that are not finite."
            )
        self.scaler.scale(objective).backward()  # type: ignore[no-untyped-call]
        self.scaler.unscale_(self.optimizer)
        if self.training.clip is not None:
            self.model.clip(self.training.clip)
        seen.append(sums)
        return float(objective.detach())

    def measured(self, y_pred: Tensor, xi: Tensor, batch: Batch, rows: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The objective, the sum over members of their mean joint loss; and sums over the rows for each member (K,).

        Of several processes each has a part of the rows. Averaging their gradients gives that of the whole batch if
        each divides by its share of all weight, not by its own.
        """
        self.criterion.check(y_pred[0], xi[0], batch.y)
        y = batch.y.expand(self.model.size, *batch.y.shape)
        value, L = self.criterion.parts(y_pred, xi, y)  # (K, n, ...)
        weight = torch.ones(len(batch), device=value.device) if batch.weight is None else batch.weight
        total = rows if batch.weight is None else float(self.world.summed(weight.double().sum()))
        weight = weight.double().reshape(1, -1, *[1] * (value.ndim - 2))  # (1, n, 1, ...)
        per_row = max(value[0, 0].numel(), 1) if len(batch) else 1
        objective = (weight.to(value.dtype) * value).sum() * (self.world.size / (total * per_row) if total else 0.0)
        with torch.no_grad():
            e = self.criterion.expected_loss(xi.double())
            each = {"joint_loss": value.double() * self.criterion.unit, "loss": L, "expected_loss": e}
            if not self.model.training:  # judged without units, so that no output outweighs the others
                each |= {"objective": value, "score": L / e + e.log()}
            sums = {name: (weight * part).flatten(1).sum(1).cpu() for name, part in each.items()}
            sums["weight"] = weight.sum().cpu().expand(self.model.size)
        return objective, sums

    def end_epoch(self) -> None:
        """Write the epoch into the history, evaluate the validation rows, advance the schedule."""
        now = self.progress
        means = {name: values for name, values in _means(now.sums).items() if name in TOLD}
        rate = float(self.optimizer.param_groups[0]["lr"])
        judged = None
        if self.held is not None:
            held = _means(self.of_all(self.on_held()))
            means |= {f"validation_{name}": held[name] for name in TOLD}
            judged = held["score" if self.criterion.schedule else "objective"]
            self.judge(judged)
        for member in range(self.model.size):
            row = {name: float(values[member]) for name, values in means.items()}
            now.history.append({"member": member, "epoch": now.epoch + 1, **row, "learning_rate": rate})
        if self.scheduler is not None and self.training.scheduler_step == "epoch":
            watched = means["joint_loss"] if judged is None else judged
            plateau = isinstance(self.scheduler, ReduceLROnPlateau)
            self.scheduler.step(float(watched.mean())) if plateau else self.scheduler.step()
        now.epoch, now.step, now.sums = now.epoch + 1, 0, {}

    def on_held(self) -> dict[str, Tensor]:
        """Sums over the validation rows; each process evaluates its part."""
        assert self.held is not None
        total = {name: torch.zeros(self.model.size, dtype=torch.float64) for name in SUMS}
        with torch.no_grad(), evaluating(self.model):
            for batch, rows in self.held.epoch(self.progress.epoch, self.world):
                there = batch.to(self.device)
                y_pred, xi = self.model(*self.model.template().inputs(there.x))
                for name, value in self.measured(y_pred, xi, there, rows)[1].items():
                    total[name] += value
        return total

    def judge(self, judged: Tensor) -> None:
        """Keep the best weights of each member, and stop when none has improved for long."""
        now, patience = self.progress, self.training.patience
        if patience is None:
            return
        if not torch.isfinite(judged).all():
            raise DivergenceError(f"the loss on the validation rows is not finite after epoch {now.epoch + 1}.")
        waiting = now.epoch - now.best_epoch <= patience  # a member that has stopped stays stopped
        better = (judged < now.best) & waiting
        self.model.remember(now.kept, better)
        now.best = torch.where(better, judged, now.best)
        now.best_epoch = torch.where(better, float(now.epoch), now.best_epoch)
        now.stopped = bool((now.epoch - now.best_epoch >= patience).all())

    def finish(self) -> None:
        """Keep the last state for a resume, and give the model its best weights."""
        self.save()
        if self.progress.kept:
            self.model.load_state_dict(self.progress.kept)

    def last_epochs(self) -> list[int]:
        """The epoch, from 0, that each member's weights are of."""
        now = self.progress
        return [int(epoch) if now.kept else now.epoch - 1 for epoch in now.best_epoch]

    def of_all(self, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """The sums over the rows of all processes."""
        return dict(zip(sums, self.world.summed(torch.stack(list(sums.values()))), strict=True))

    # ------------------------------------------------------------ checkpoints

    def restore(self) -> None:
        """Resume from the checkpoint, if there is one: from that of the process that is farthest."""
        if self.training.checkpoint is None:
            return
        path = Path(self.training.checkpoint)
        if isinstance(self.data, Stream) and getattr(self.data.source, "generator", None) is not None:
            raise ValueError("a DataLoader with a generator of its own cannot be resumed: leave the generator out.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent} for the checkpoint.")
        content = path.read_bytes() if path.exists() else None
        tree = {} if content is None else states.load(content, str(path))
        with states.refusing(str(path)):
            steps = 1 + _steps(tree["progress"]) if tree else 0
        came = self.world.gathered(steps)
        if max(came) == 0:
            return
        tree = states.load(self.world.shared(content, came.index(max(came))) or b"", str(path))
        for name, now in self.same().items():
            before = tree.get("same", {}).get(name)
            if before != now:
                hashed = name in ("data", "validation", "model")
                difference = "is another" if hashed else f"was {before!r} and is {now!r}"
                raise ValueError(
                    f"the checkpoint {path} is of another training: {name} {difference}. Remove it to begin."
                )
        with states.refusing(str(path)):
            self.model.load_state_dict(tree["model"])
            self.optimizer.load_state_dict(tree["optimizer"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(tree["scheduler"])
            self.scaler.load_state_dict(tree["scaler"])
            self.progress = Progress(**tree["progress"])

    def save_sometimes(self) -> None:
        if time.monotonic() - self.written >= self.training.checkpoint_every:
            self.save()

    def save(self) -> None:
        if self.training.checkpoint is None or self.world.rank != 0:
            return
        tree = {
            "same": self.same(),
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": {} if self.scheduler is None else self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "progress": vars(self.progress),
        }
        states.save(self.training.checkpoint, tree)
        self.written = time.monotonic()

    def same(self) -> dict[str, Any]:
        """What must be equal when training resumes from a checkpoint."""
        training, data, criterion = self.training, self.data, self.criterion
        lam = criterion.lam.tolist() if criterion.schedule is None else [criterion.schedule(t) for t in range(10)]
        return {
            "seed": training.seed,
            "batch_size": training.batch_size if isinstance(data, Rows) else None,
            "data": data.fingerprint(),
            "validation": None if self.held is None else self.held.fingerprint(),
            "model": self.model.described(),
            "optimizer": self.settings,
            "scheduler": type(self.scheduler).__name__,
            "loss": criterion.measure.name,
            "coupling": criterion.coupling.name,
            "lam": lam,
            "patience": training.patience,
            "clip": training.clip,
            "autocast": str(training.autocast),
        }


def _steps(progress: dict[str, Any]) -> int:
    """A number that grows with every step."""
    return int(progress["epoch"] << 40 | progress["step"])


def _means(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    if not (sums["weight"] > 0).all():
        raise ValueError("all sample weights are 0: nothing is left to learn from.")
    return {name: value / sums["weight"] for name, value in sums.items() if name != "weight"}


def _optimizer(training: Training, model: nn.Module) -> Optimizer:
    made = training.optimizer
    if isinstance(made, Optimizer):
        held = {id(p) for group in made.param_groups for p in group["params"]}
        if not any(id(p) in held for p in model.parameters()):
            raise ValueError("the optimizer holds none of the pair's parameters.")
        return made
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("the pair has no parameters to train.")
    return Adam(trained) if made is None else made(trained)


def _scheduler(training: Training, optimizer: Optimizer) -> Any:
    made = training.scheduler
    made = made(optimizer) if made is not None and not isinstance(made, (LRScheduler, ReduceLROnPlateau)) else made
    if made is not None and made.optimizer is not optimizer:
        raise ValueError("the scheduler is of another optimizer.")
    if isinstance(made, ReduceLROnPlateau) and training.scheduler_step == "batch":
        raise ValueError("ReduceLROnPlateau looks at a loss after each epoch: scheduler_step must be 'epoch'.")
    return made
