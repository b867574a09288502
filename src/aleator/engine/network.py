"""A network as a table: one row a layer, which slot it reads, which it writes, where its weights lie.

Slots hold (rows, units); slot 0 is the input. A pair with one hidden layer of U units each is three rows: because both
first layers read the same input, they are one layer of 2 U units, and each output reads its half.

    (D inputs) -> (regressor's U | quantifier's U) -> y_r reads the left half, xi the right half
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleator.engine.kernels import INPUTS, ONE_THREAD, OUTPUT, RELU, TANH, UNITS

ACTIVATIONS = {"relu": RELU, "tanh": TANH}


@dataclass(frozen=True)
class Weights:
    """Where one weight matrix lies: columns left..left+columns of an (inputs, width) matrix that begins at `start`."""

    start: int
    inputs: int
    width: int
    left: int
    columns: int
    transposed: bool = False

    def of(self, params: NDArray[np.float32]) -> NDArray[np.float32]:
        """The (inputs, columns) matrix itself, a view."""
        block = params[self.start : self.start + self.inputs * self.width]
        if self.transposed:
            return block.reshape(self.width, self.inputs).T
        return block.reshape(self.inputs, self.width)[:, self.left : self.left + self.columns]

    def bias_of(self, params: NDArray[np.float32]) -> NDArray[np.float32]:
        """Its biases (columns,), a view."""
        start = self.start + self.inputs * self.width + self.left
        return params[start : start + self.columns]


@dataclass(frozen=True)
class Network:
    """The table of layers (K, 8), the outputs (slot of y_r, M targets, slot of xi, Q), and where the matrices lie."""

    layers: NDArray[np.int64]
    outputs: NDArray[np.int64]
    matrices: tuple[Weights, ...]
    n_params: int
    quantifier: tuple[Weights, ...] = ()  # those of its matrices that are the quantifier's alone

    @property
    def n_inputs(self) -> int:
        """Columns of the table it reads."""
        return int(self.layers[0, INPUTS])

    @property
    def n_outputs(self) -> int:
        """Outputs of the regressor; 0 without one."""
        return int(self.outputs[1]) if self.outputs[0] else 0

    @property
    def n_quantifiers(self) -> int:
        """Outputs of the quantifier, Q; 0 without one."""
        return int(self.outputs[3])

    def rows_of_a_block(self, batch: int) -> int:
        """How many rows go through the layers at a time: in cache, and few enough for BLAS not to start threads."""
        largest = int((self.layers[:, INPUTS] * self.layers[:, UNITS]).max())
        return min(batch, max(4, min(256, ONE_THREAD // largest)))

    def start(self, seed: int) -> NDArray[np.float32]:
        """Fresh parameters: Glorot uniform weights; biases of hidden units from the same range, of outputs zero.

        With zero biases all kinks of a ReLU layer lie at the mean of the inputs, and with one or two inputs a network
        may never move them to where they are needed.
        """
        rng = np.random.default_rng(seed)
        params = np.zeros(self.n_params, np.float32)
        bounds = [np.sqrt(6.0 / (m.inputs + m.columns)) for m in self.matrices]
        for m, bound in zip(self.matrices, bounds, strict=True):
            m.of(params)[:] = rng.uniform(-bound, bound, size=(m.inputs, m.columns))
        for m, bound in zip(self.matrices, bounds, strict=True):
            if not m.transposed:
                m.bias_of(params)[:] = rng.uniform(-bound, bound, size=m.columns)
        return params


def network(
    n_inputs: int,
    hidden: tuple[int, ...],
    *,
    n_outputs: int,
    n_quantifiers: int,
    shared_layers: int = 0,
    activation: str = "relu",
) -> Network:
    """A regressor with `n_outputs` and a quantifier with `n_quantifiers` outputs; either may be 0, then it is absent.

    The first `shared_layers` hidden layers are common to both, the rest are separate. Without a regressor the targets
    are the losses themselves, one for each quantifier output (`objectives.given`).
    """
    build = _Builder(n_inputs, ACTIVATIONS[activation])
    at = (0, 0, n_inputs)  # slot, first column, units in a row of the slot
    for units in hidden[:shared_layers]:
        at = build.hidden(at, (units,))
    own = hidden[shared_layers:]
    places = {"regressor": 0, "quantifier": 0}
    wanted = [(name, n) for name, n in (("regressor", n_outputs), ("quantifier", n_quantifiers)) if n]
    if len(own) == 1 and len(wanted) == 2:
        slot, _, width = build.hidden(at, own * 2)
        mine = build.matrices[-1:]
        for k, (name, n) in enumerate(wanted):
            places[name] = build.output((slot, k * own[0], width), own[0], n)
        mine += build.matrices[-1:]
    else:
        mine = []
        for name, n in wanted:
            branch, before = at, len(build.matrices)
            for units in own:
                branch = build.hidden(branch, (units,))
            places[name] = build.output(branch, branch[2], n)
            mine = build.matrices[before:] if name == "quantifier" else []
    n_targets = n_outputs or n_quantifiers
    outputs = np.array([places["regressor"], n_targets, places["quantifier"], n_quantifiers], np.int64)
    return Network(np.array(build.layers, np.int64), outputs, tuple(build.matrices), build.n_params, tuple(mine))


class _Builder:
    """Hands out slots and places for weights while layers are appended."""

    def __init__(self, n_inputs: int, kind: int) -> None:
        self.kind = kind
        self.slot = n_inputs  # the next free one; the input took 0..n_inputs
        self.n_params = 0
        self.layers: list[list[int]] = []
        self.matrices: list[Weights] = []

    def hidden(self, at: tuple[int, int, int], parts: tuple[int, ...]) -> tuple[int, int, int]:
        """A hidden layer of sum(parts) units, each part initialised as a layer of its own."""
        source, _, inputs = at
        units, start = sum(parts), self.n_params
        for k, columns in enumerate(parts):
            self.matrices.append(Weights(start, inputs, units, sum(parts[:k]), columns))
        return self._append(source, inputs, units, self.kind, 0, inputs), 0, units

    def output(self, at: tuple[int, int, int], inputs: int, units: int) -> int:
        source, left, stride = at
        self.matrices.append(Weights(self.n_params, inputs, units, 0, units, transposed=True))
        return self._append(source, inputs, units, OUTPUT, left, stride)

    def _append(self, source: int, inputs: int, units: int, kind: int, left: int, stride: int) -> int:
        self.layers.append([source, self.slot, inputs, units, self.n_params, kind, left, stride])
        self.n_params += (inputs + 1) * units
        self.slot += units
        return self.slot - units
