"""One training script for a laptop, for several processes and for several machines: nothing in it changes.

    python examples/torch_distributed.py                                    # this process alone
    torchrun --standalone --nproc-per-node 2 examples/torch_distributed.py  # two processes on this machine

Two machines, the same command on both, with the address of the first:

    torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint FIRST:29500 examples/torch_distributed.py

Each process takes its part of every batch, and the gradients are averaged, so the result is that of one process but for
rounding. The first process writes the checkpoint; if one dies, torchrun ends the others, and the same command again goes on
from there (or `--max-restarts 3` lets torchrun do so). The data here are made up; `ParquetRegression` reads yours.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

from aleator.torch import Pair, distributed, fit_pair


def table(rows):
    """Four columns; the third makes the target noisy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 4)).astype(np.float32)
    noise = np.exp(X[:, 2]) * rng.normal(size=rows)
    return X, (3 * np.sin(X[:, 0]) + X[:, 1] + noise).astype(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument(
        "--checkpoint", type=Path, default=Path("distributed.checkpoint")
    )
    parser.add_argument("--checkpoint-every", type=float, default=30.0, help="seconds")
    args = parser.parse_args()
    X, y = table(args.rows)
    held, X, y = (X[-2000:], y[-2000:]), X[:-2000], y[:-2000]
    with distributed(timeout=60) as world:
        torch.manual_seed(0)  # the same start in every process
        pair = Pair(
            nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Linear(50, 1), nn.Flatten(0))
        )
        fit_pair(
            pair, (X, y), validation=held, epochs=args.epochs, batch_size=256, standardise=True,
            checkpoint=args.checkpoint, checkpoint_every=args.checkpoint_every, verbose=True,
        )  # fmt: skip
        if world.rank == 0:
            last = pair.history.iloc[-1]
            print(f"{world.size} process(es), {len(pair.history)} epochs")
            print(
                f"loss on held-out rows {last.validation_loss:.3f}, expected {last.validation_expected_loss:.3f}"
            )
            said = pair.predict(
                np.array([[0, 0, -1, 0], [0, 0, 0, 0], [0, 0, 1, 0]], np.float32)
            )
            print(
                "expected error where the third column is -1, 0, 1:",
                said.std.round(2),
                "(made with 0.37, 1, 2.72)",
            )


if __name__ == "__main__":
    main()
