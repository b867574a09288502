"""
When is a signal predictable?
=============================

A signal returns to 0 and is pushed by shocks whose size changes slowly. The size is
hidden. A recurrent network reads the last 40 values. One head predicts the next value,
the other the expected error.
"""

# %%
# The signal
# ----------
import functools

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.stats import spearmanr
from torch import nn

from aleator import plots
from aleator.torch import JointLoss, Pair, fit_pair

WINDOW = 40


def signal(length, seed):
    """Values x_t = 0.9 x_(t-1) + s_t e_t, and the hidden size s_t of the shocks."""
    rng = np.random.default_rng(seed)
    x, log_size = np.zeros(length), np.zeros(length)
    for t in range(1, length):
        log_size[t] = 0.98 * log_size[t - 1] + 0.18 * rng.normal()
        x[t] = 0.9 * x[t - 1] + np.exp(log_size[t]) * rng.normal()
    return x, np.exp(log_size)


def windows(x):
    """The last 40 values (n, 40, 1), and the next one (n,)."""
    last = np.lib.stride_tricks.sliding_window_view(x[:-1], WINDOW)
    return last[:, :, None].astype(np.float32), x[WINDOW:].astype(np.float32)


# %%
# Two heads on one trunk
# ----------------------
class Reader(nn.Module):
    """The last state of a GRU."""

    def __init__(self, units=32):
        super().__init__()
        self.cells = nn.GRU(1, units, batch_first=True)

    def forward(self, x):
        return self.cells(x)[0][:, -1]


torch.manual_seed(0)
heads = [nn.Sequential(nn.Linear(32, 1), nn.Flatten(0)) for _ in range(2)]
pair = Pair(*heads, trunk=Reader(), criterion=JointLoss("squared", lam=0.2))
validation = windows(signal(3_000, seed=2)[0])
fit_pair(
    pair, windows(signal(8_000, seed=0)[0]), validation=validation, epochs=10, patience=4, batch_size=128, standardise=True,
    clip=1.0, optimizer=functools.partial(torch.optim.Adam, lr=3e-3),
)  # fmt: skip
_ = pair.recalibrate(validation)

# %%
# Expected error and hidden size agree
# ------------------------------------
x, size = signal(3_000, seed=1)
inputs, target = windows(x)
result, size = pair.predict(inputs), size[WINDOW:]
print(
    f"squared error {np.mean((result.prediction - target) ** 2):.2f}, expected {result.expected_loss.mean():.2f}"
)
print(
    f"rank correlation of expected error and size of the shocks: {spearmanr(result.std, size).statistic:.2f}"
)

# %%
part = slice(1200, 1700)
time = np.arange(500)
figure, (above, below) = plt.subplots(
    2, 1, figsize=(9, 5), sharex=True, height_ratios=[2, 1], layout="constrained"
)
above.plot(time, target[part], ".", ms=3, color="0.2", label="next value")
low, high = result.prediction - 2 * result.std, result.prediction + 2 * result.std
above.fill_between(
    time,
    low[part],
    high[part],
    alpha=0.35,
    lw=0,
    color=plots.BLUE,
    label="prediction ± 2 expected errors",
)
above.legend(frameon=False, loc="upper left", ncols=2)
below.plot(time, size[part], color="0.2", lw=1, label="hidden size of the shocks")
below.plot(time, result.std[part], color=plots.BLUE, label="expected error")
below.set(xlabel="time", ylim=(0, None))
below.legend(frameon=False, loc="upper right")
