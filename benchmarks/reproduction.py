"""Section 8 in full beside what a loop in PyTorch would need.

Usage: ALEATOR_DATA=... make reproduction [ARGS=DIR]. First the time of one training step in PyTorch (eager, one thread),
for each data set, of the pair and of ML; then `aleator reproduce tables --objective both` into DIR, all of it, with its
wall time. The estimate counts the steps of the four methods that are networks trained by gradient, and of the sweep over
lam; not SVGD and PBP, which are in our time.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from aleator import datasets
from aleator.paper.protocol import FOLDS, LAMS, MEMBERS, OBJECTIVES, SETS, TRAIN, published_settings

STEPS = 1500


def torch_step(dataset, objective, method):
    """Seconds of one step of a pair or of ML: two networks, the loss, backward, Nesterov's momentum."""
    settings = published_settings(dataset.name, objective, method)
    inputs, (units,), batch = dataset.X.shape[1], settings["hidden"], settings["batch_size"]

    def network():
        return nn.Sequential(nn.Linear(inputs, units), nn.ReLU(), nn.Dropout(settings["dropout"]), nn.Linear(units, 1))

    regressor, quantifier = network(), network()
    parameters = [*regressor.parameters(), *quantifier.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, nesterov=True)
    softplus = nn.functional.softplus
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.normal(size=(STEPS, batch, inputs)), dtype=torch.float32)
    Y = torch.tensor(rng.normal(size=(STEPS, batch, 1)), dtype=torch.float32)
    start = 0.0
    for step, (x, y) in enumerate(zip(X, Y, strict=True)):
        if step == STEPS // 3:  # warm
            start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        difference = y - regressor(x)
        loss = difference**2 if objective == "rmse" else difference.abs()
        xi = quantifier(x)
        if method == "pair":
            value = loss * softplus(xi) + settings["lam"] * softplus(-xi)
        else:
            spread = softplus(xi) + 1e-6
            value = loss / spread + torch.log(spread)
        value.mean().backward()
        optimizer.step()
    return (time.perf_counter() - start) / (STEPS - STEPS // 3)


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "reproduction")
    torch.set_num_threads(1)
    total = 0.0
    print("PyTorch, eager, one thread: microseconds of a step, and hours of all its steps")
    for name in SETS:
        dataset = datasets.load(name)
        for objective in OBJECTIVES:
            for method in ("ml", "pair"):
                settings = published_settings(name, objective, method)
                batches = -(-round(TRAIN * len(dataset.y)) // settings["batch_size"])
                members = 1 + MEMBERS + (len(LAMS) - 1 if method == "pair" else 0)
                seconds = torch_step(dataset, objective, method)
                hours = seconds * batches * settings["epochs"] * members * FOLDS / 3600
                total += hours
                print(f"{name:<9}{objective:<5}{method:<5}{1e6 * seconds:6.0f} us{hours:8.2f} h", flush=True)
    print(f"all: {total:.0f} hours of one core, {total / 2:.0f} of two", flush=True)
    command = [sys.executable, "-m", "aleator", "reproduce", "tables", "--objective", "both", "--out", str(out)]
    start = time.perf_counter()
    code = subprocess.run(command, check=False).returncode
    minutes = (time.perf_counter() - start) / 60
    print(f"aleator reproduce tables --objective both: {minutes:.1f} minutes, exit code {code}")
    print(f"PyTorch's loop on two cores over ours, without SVGD and PBP on their side: {total * 30 / minutes:.0f}")


if __name__ == "__main__":
    main()
