"""A recurrent pair on a noisy signal: when is the next value predictable?

The signal swings back to 0, pushed by shocks whose size changes slowly: quiet stretches, rough ones. Nobody sees that size.
A GRU reads the last 40 values; one head predicts the next, the other how far off that will be.

Usage: python examples/torch_signal.py [directory for the picture]
"""

import functools
import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import nn

from aleator.torch import JointLoss, Pair, fit_pair

SEEN = 40


def signal(length, seed):
    """Values x_t = 0.9 x_(t-1) + s_t e_t, and the size s_t of the shocks, whose logarithm wanders slowly."""
    rng = np.random.default_rng(seed)
    x, log_size = np.zeros(length), np.zeros(length)
    for t in range(1, length):
        log_size[t] = 0.98 * log_size[t - 1] + 0.18 * rng.normal()
        x[t] = 0.9 * x[t - 1] + np.exp(log_size[t]) * rng.normal()
    return x, np.exp(log_size)


def windows(x):
    """(n, 40, 1) values before, and the value to come."""
    seen = np.lib.stride_tricks.sliding_window_view(x[:-1], SEEN)
    return seen[:, :, None].astype(np.float32), x[SEEN:].astype(np.float32)


class Reader(nn.Module):
    """The last state of a GRU."""

    def __init__(self, units=32):
        super().__init__()
        self.cells = nn.GRU(1, units, batch_first=True)

    def forward(self, x):
        return self.cells(x)[0][:, -1]


def main(out):
    torch.manual_seed(0)
    x, _ = signal(12_000, seed=0)
    new, size = signal(3_000, seed=1)
    heads = [nn.Sequential(nn.Linear(32, 1), nn.Flatten(0)) for _ in range(2)]
    pair = Pair(*heads, trunk=Reader(), criterion=JointLoss("squared", lam=0.2))
    held = windows(signal(3_000, seed=2)[0])
    fit_pair(
        pair, windows(x), validation=held, epochs=15, patience=4, batch_size=128, standardise=True, clip=1.0,
        optimizer=functools.partial(torch.optim.Adam, lr=3e-3), verbose=True,
    )  # fmt: skip
    pair.recalibrate(held)
    rows, target = windows(new)
    said, size = pair.predict(rows), size[SEEN:]
    print(f"squared error {np.mean((said.prediction - target) ** 2):.2f}, expected {said.expected_loss.mean():.2f};")
    print(f"the mean square of the shocks themselves, which no prediction can avoid: {np.mean(size**2):.2f}")
    print(f"rank correlation of expected error and size of the shocks: {spearmanr(said.std, size).statistic:.2f}")
    print(f"within two expected errors: {np.mean(np.abs(said.prediction - target) <= 2 * said.std):.1%}")
    out.mkdir(parents=True, exist_ok=True)
    picture(target, said, size, slice(1200, 1700)).savefig(out / "torch_signal.png", dpi=150)


def picture(target, said, size, part):
    figure = Figure(figsize=(11, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    time = np.arange(part.stop - part.start)
    above.plot(time, target[part], ".", ms=3, color="0.2", label="the value that came")
    low, high = said.prediction - 2 * said.std, said.prediction + 2 * said.std
    above.fill_between(time, low[part], high[part], alpha=0.35, lw=0, label="prediction ± 2 expected errors")
    above.legend(loc="upper left", ncols=2)
    above.set_title("a recurrent pair: wide where the signal is rough, narrow where it is quiet")
    below.plot(time, size[part], color="0.2", lw=1, label="size of the shocks, which nobody sees")
    below.plot(time, said.std[part], color="C0", label="expected error of the prediction")
    below.set(xlabel="time", ylim=(0, None))
    below.legend(loc="upper right")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
