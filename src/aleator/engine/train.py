"""Run it: members through the compiled loops, a chunk of epochs at a time, on as many threads as wanted.

A member is a network of its own with its own rows, seed, lam and learning rate; nothing is shared but the data, which
is only read. So the result for a member is the same to the last bit alone or among others, on one thread or many.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.compiled_functions import (
    LOSS_SIGNATURE,
    OBJECTIVE_SIGNATURE,
    ROW_LOSS_SIGNATURE,
    ROW_SLOPE_SIGNATURE,
    compiled,
    frozen,
)
from aleator.engine import kernels
from aleator.engine.network import Network
from aleator.losses import Loss, squared
from aleator.objectives import Objective

# Between two looks at progress and interruption: rows times parameters, about a tenth of a second of work.
WORK_OF_A_CHUNK = 200_000_000

# Rows that go through the layers together when nothing is learned.
ROWS_OF_A_BLOCK = 64


def unbounded(n_inputs: int) -> NDArray[np.float64]:
    """The range (2, D) of inputs that nothing else bounds: 10,000 spreads."""
    return np.array([[-kernels.FARTHEST], [kernels.FARTHEST]]).repeat(n_inputs, axis=1)


OPTIMIZERS = {"nesterov": kernels.NESTEROV, "adam": kernels.ADAM}


class DivergenceError(ArithmeticError):
    """Training left the finite numbers; the message names the member and the epoch."""


@dataclass(frozen=True)
class Data:
    """What members learn from: only read, and shared between them.

    X (n, D) float32 or float64, standardised on the fly to (X - shift) * scale and clipped to the range `clip` (2, D);
    Y (n, M) the target in the units the network works in; weight (n,), around 1; frame (M, 4): the loss of output m is
    factor * L(shift + scale y, shift + scale y_r), and the regressor follows push * scale * slope. push = factor is the
    gradient; another value only changes how fast one output learns beside the others.
    """

    X: NDArray[np.floating]
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]
    Y: NDArray[np.float32]
    weight: NDArray[np.float64]
    frame: NDArray[np.float64]
    clip: NDArray[np.float64] | None = None  # none: `unbounded`
    truth: NDArray[np.float64] | None = None  # (n, M): the targets themselves, where Y was clipped; not learned from


@dataclass(frozen=True)
class Member:
    """One network to train: its rows, its random seed, and lam and learning rate at each epoch."""

    data: Data
    rows: NDArray[np.int64]
    seed: int
    lams: NDArray[np.float64]
    rates: NDArray[np.float64]
    dropout: float = 0.0
    relative: "RelativeLam | None" = None


@dataclass(frozen=True)
class RelativeLam:
    """Lams in units of the running mean of the loss over about an epoch, its `level`: lam = lams[epoch] * level.

    The objective sees losses in units of the level, so nothing it says depends on how large they are. speeds (epochs,
    2) are factors for the regressor and the quantifier. If `shifted`, the network's xi is that of lam = 1, and the
    objective sees xi + ln lam: for a coupling whose level is e^-xi this leaves the expected loss where it is when lam
    moves. The penalty of the regressor's weights is in units of the level too.
    """

    speeds: NDArray[np.float64]
    shifted: bool


@dataclass(frozen=True)
class Plan:
    """What all members have in common."""

    network: Network
    loss: Loss
    objective: Objective
    batch_size: int
    optimizer: str = "nesterov"
    momentum: float = 0.9
    beta2: float = 0.999
    l2: float = 0.0
    clip: float = 0.0


@dataclass
class Run:
    """How far a member has come: enough to go on from here, in this process or another."""

    params: NDArray[np.float32]
    moments: NDArray[np.float32]
    level: NDArray[np.float64]  # (1,) the running mean of the loss, where lam is relative to it
    epoch: int = 0
    trace: list[NDArray[np.float64]] = field(default_factory=list)  # (epochs, 2) each: joint loss, regressor's loss

    @property
    def history(self) -> NDArray[np.float64]:
        """Mean joint loss and mean loss of the regressor in each epoch so far, (epochs, 2)."""
        return np.concatenate([np.empty((0, 2)), *self.trace])


# Called after each chunk with the member's number and its run so far; True ends the member's training.
Watch = Callable[[int, Run], bool]


def begin(plan: Plan, member: Member) -> Run:
    params = plan.network.start(member.seed)
    return Run(params, np.zeros((2, params.size), np.float32), np.ones(1))


def lam_of(member: Member, run: Run) -> float:
    """The lam with which the expected loss is read from the run's parameters as they are."""
    lam = float(member.lams[run.epoch - 1])
    if member.relative is None:
        return lam
    return 1.0 if member.relative.shifted else lam * float(run.level[0])


def final_pair(plan: Plan, member: Member, run: Run) -> tuple[NDArray[np.float32], float]:
    """Parameters and lam of the pair that a run has come to: as any other pair, whatever lam was relative to."""
    if member.relative is None or not member.relative.shifted:
        return run.params.copy(), lam_of(member, run)
    lam = float(member.lams[run.epoch - 1] * run.level[0])
    params = run.params.copy()
    plan.network.quantifier[-1].bias_of(params)[:] += np.float32(np.log(lam))
    return params, lam


def advance(plan: Plan, member: Member, run: Run, epochs: int, number: int = 0) -> None:
    """Train `run` for that many epochs more, or to the end of the member's schedule if that comes first."""
    _check(plan.network, run.params)
    until = min(run.epoch + epochs, member.rates.size)
    trace = np.zeros((until - run.epoch, 2))
    data = member.data
    speeds = np.ones((member.rates.size, 2)) if member.relative is None else member.relative.speeds
    batch = min(plan.batch_size, member.rows.size)
    status, epoch = kernels.specialised(kernels.run_epochs, data.X.dtype.name)(
        _sample(data, member.rows),
        _table(plan.network, plan.network.rows_of_a_block(batch)),
        *_functions(plan),
        kernels.State(run.params, run.moments, run.level),
        kernels.Schedule(
            run.epoch,
            frozen(member.rates[run.epoch : until]),
            frozen(member.lams[run.epoch : until]),
            frozen(speeds[run.epoch : until]),
            np.uint64(member.seed),
        ),
        kernels.Settings(
            batch,
            float(member.dropout),
            frozen(_penalty(plan, member)),
            float(plan.clip),
            OPTIMIZERS[plan.optimizer],
            float(plan.momentum),
            float(plan.beta2),
            member.relative is not None,
            member.relative is not None and member.relative.shifted,
        ),
        trace,
    )
    where = f"member {number}, epoch {epoch + 1}"
    if status == kernels.DIVERGED:
        raise DivergenceError(
            f"training diverged in {where}: the weights or the loss are no longer finite. Lower learning_rate "
            f"(it was {member.rates[epoch]:g}) or set clip; look for extreme sample weights."
        )
    if status == kernels.BAD_LOSS:
        raise ValueError(f"loss {plan.loss.name!r} became negative or not finite in {where}; it must be >= 0.")
    run.trace.append(trace)
    run.epoch = until


def train(
    plan: Plan,
    members: Sequence[Member],
    *,
    threads: int = 1,
    chunk: int | None = None,
    watch: Watch | None = None,
    runs: Sequence[Run] | None = None,
) -> list[Run]:
    """Train every member to the end of its schedule, or until `watch` ends it; goes on from `runs` if given.

    An error or an interruption in one member stops all at their next chunk, and is raised.
    """
    begun: dict[int, Run] = dict(enumerate(runs or []))
    stop = threading.Event()

    def work(number: int) -> None:
        member = members[number]
        # begun in its thread, so that members written at the same time do not share a line of the cache
        if number not in begun:
            begun[number] = begin(plan, member)
        run = begun[number]
        size = chunk or max(1, WORK_OF_A_CHUNK // (member.rows.size * plan.network.n_params))
        try:
            while run.epoch < member.rates.size and not stop.is_set():
                advance(plan, member, run, size, number)
                if watch is not None and watch(number, run):
                    return
        except BaseException:
            stop.set()
            raise

    if threads == 1 or len(members) == 1:
        for number in range(len(members)):
            work(number)
        return [begun[number] for number in range(len(members))]
    with ThreadPoolExecutor(threads, thread_name_prefix="aleator") as pool:
        futures = [pool.submit(work, number) for number in range(len(members))]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise
    return [begun[number] for number in range(len(members))]


def forward(
    network: Network,
    params: NDArray[np.float32],
    X: NDArray[np.floating],
    shift: NDArray[np.float64],
    scale: NDArray[np.float64],
    clip: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """y_r (n, M) and xi (n, Q) of one member, compiled, a block of rows at a time: memory is that of the result.

    A row's result does not depend on the rows beside it, so a table too large to hold can be fed in pieces.
    """
    _check(network, params)
    if X.ndim != 2 or X.shape[1] != network.n_inputs:
        raise ValueError(f"the network has {network.n_inputs} inputs, got an array of shape {X.shape}.")
    clip = unbounded(network.n_inputs) if clip is None else np.ascontiguousarray(clip)
    y_r = np.empty((len(X), network.n_outputs), np.float32)
    xi = np.empty((len(X), network.n_quantifiers), np.float32)
    table = _table(network, ROWS_OF_A_BLOCK)
    kernels.specialised(kernels.run_forward, X.dtype.name)(
        frozen(X), frozen(shift), frozen(scale), frozen(clip), table, frozen(params), y_r, xi
    )
    return y_r, xi


def evaluate(
    plan: Plan, data: Data, rows: NDArray[np.int64], params: NDArray[np.float32], lam: float
) -> tuple[float, float]:
    """Mean joint loss and mean loss of the regressor over `rows`, without dropout."""
    _check(plan.network, params)
    mean_joint, mean_loss = kernels.specialised(kernels.run_evaluate, data.X.dtype.name)(
        _sample(data, rows), _table(plan.network, ROWS_OF_A_BLOCK), *_functions(plan), frozen(params), float(lam)
    )
    return float(mean_joint), float(mean_loss)


def gradients(
    plan: Plan, data: Data, rows: NDArray[np.int64], params: NDArray[np.float32], lam: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Weighted mean of what `rows` add to the objective (K,), and its gradient (K, P), for networks `params` (K, P).

    For those who move the parameters by a rule of their own. The weights are taken as they are: the sum is divided by
    the number of rows.
    """
    for member in params:
        _check(plan.network, member)
    values, slopes = np.empty(len(params)), np.empty(params.shape, np.float32)
    kernels.specialised(kernels.run_gradients, data.X.dtype.name)(
        _sample(data, rows),
        _table(plan.network, plan.network.rows_of_a_block(len(rows))),
        *_functions(plan),
        frozen(params),
        float(lam),
        values,
        slopes,
    )
    return values, slopes


def _penalty(plan: Plan, member: Member) -> NDArray[np.float32]:
    """What each weight is pulled to zero with (2, P), biases excepted: in units of the level, and as it is."""
    penalty = np.zeros((2, plan.network.n_params if plan.l2 else 0), np.float32)
    if plan.l2:
        for m in plan.network.matrices:
            in_levels = member.relative is not None and m not in plan.network.quantifier
            m.of(penalty[0 if in_levels else 1])[:] = plan.l2
    return penalty


def _check(network: Network, params: NDArray[np.float32]) -> None:
    """The compiled loops do not look: what they read must be there."""
    if params.shape != (network.n_params,):
        raise ValueError(f"the network has {network.n_params} parameters, got an array of shape {params.shape}.")


def _sample(data: Data, rows: NDArray[np.int64]) -> kernels.Sample:
    clip = unbounded(data.X.shape[1]) if data.clip is None else np.ascontiguousarray(data.clip)
    arrays = (data.X, data.shift, data.scale, clip, data.Y, data.weight, data.frame, rows)
    return kernels.Sample(*map(frozen, arrays))


def _table(network: Network, rows_of_a_block: int) -> kernels.LayerTable:
    return kernels.LayerTable(frozen(network.layers), frozen(network.outputs), rows_of_a_block)


def _functions(plan: Plan) -> kernels.Functions:
    return _pointers(plan.loss, plan.objective)


@functools.cache
def _pointers(loss: Loss, objective: Objective) -> kernels.Functions:
    scalar, by_row = (squared, loss) if loss.over_rows else (loss, _no_rows)
    return kernels.Functions(
        compiled(scalar.value, LOSS_SIGNATURE),
        compiled(scalar.slope, LOSS_SIGNATURE),
        compiled(by_row.value, ROW_LOSS_SIGNATURE),
        compiled(by_row.slope, ROW_SLOPE_SIGNATURE),
        compiled(objective.evaluate, OBJECTIVE_SIGNATURE),
        loss.over_rows,
    )


def _no_row_value(y: Any, y_r: Any) -> float:
    return 0.0


def _no_row_slope(y: Any, y_r: Any) -> Any:
    return y_r - y


_no_rows = Loss("none", _no_row_value, _no_row_slope, over_rows=True)  # in the place that another loss leaves empty
