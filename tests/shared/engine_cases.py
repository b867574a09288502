"""Data, plans and members for the engine, and the same networks in PyTorch."""

import hashlib

import numpy as np
import torch

from aleator import engine
from aleator.losses import LOSSES
from aleator.objectives import OBJECTIVES

N, D, STEPS = 120, 7, 500


def data(n=N, d=D, m=1, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, size=(n, d)).astype(dtype)
    Y = np.column_stack([np.sin(X[:, 0] + k) + 0.3 * rng.normal(size=n) for k in range(m)]).astype(np.float32)
    frame = np.tile([0.0, 1.0, 1.0, 1.0], (m, 1))
    shift, scale = X.mean(axis=0, dtype=np.float64), 1 / X.std(axis=0, dtype=np.float64)
    return engine.Data(X, shift, scale, Y, rng.uniform(0.5, 1.5, size=n), frame)


def plan_for(
    d, *, hidden=(16,), shared=0, activation="relu", m=1, q=1, objective="joint-sigmoid", loss="squared", **settings
):
    network = engine.network(
        d.X.shape[1], hidden, n_outputs=m, n_quantifiers=q, shared_layers=shared, activation=activation
    )
    return engine.Plan(network, LOSSES[loss], OBJECTIVES[objective], **({"batch_size": 8} | settings))


def member(d, epochs, *, seed=5, rate=1e-2, lam=0.2, dropout=0.0, rows=None):
    rows = np.arange(len(d.X)) if rows is None else rows
    return engine.Member(d, rows, seed, np.full(epochs, lam), np.full(epochs, rate), dropout)


class TorchPair:
    """The same networks with the same start, as a framework would have them."""

    def __init__(self, network, params, hidden, shared, activation, m, q):
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[activation]
        self.tensors = {}
        matrices = iter(network.matrices)
        weights = {}
        for name, n in self.order(hidden, shared, m, q):
            w = next(matrices)
            weights[name] = w.of(params).copy(), w.bias_of(params).copy()
            assert weights[name][0].shape[1] == n
        for name, (w, bias) in weights.items():
            self.tensors[name] = torch.tensor(w, requires_grad=True)
            self.tensors[name + ".bias"] = torch.tensor(bias, requires_grad=True)
        self.shared, self.own, self.q = shared, len(hidden) - shared, q

    @staticmethod
    def order(hidden, shared, m, q):
        """Names and widths in the order in which the engine lays the matrices out."""
        own = hidden[shared:]
        names = [(f"t{k}", u) for k, u in enumerate(hidden[:shared])]
        if len(own) == 1 and q:
            return [*names, ("r0", own[0]), ("q0", own[0]), ("r.out", m), ("q.out", q)]
        names += [*((f"r{k}", u) for k, u in enumerate(own)), ("r.out", m)]
        return names + ([*((f"q{k}", u) for k, u in enumerate(own)), ("q.out", q)] if q else [])

    def layer(self, name, h):
        return h @ self.tensors[name] + self.tensors[name + ".bias"]

    def __call__(self, x):
        for k in range(self.shared):
            x = self.activation(self.layer(f"t{k}", x))
        out = []
        for branch in "rq" if self.q else "r":
            h = x
            for k in range(self.own):
                h = self.activation(self.layer(f"{branch}{k}", h))
            out.append(self.layer(f"{branch}.out", h))
        return out


def digest(runs):
    return hashlib.sha256(b"".join(run.params.tobytes() for run in runs)).hexdigest()
