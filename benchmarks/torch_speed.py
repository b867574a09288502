"""What `aleator.torch` costs, each as a ratio in one run: ensembles at once, the trainer, tables larger than memory.

Usage: make torch. Ensembles: ten pairs (13 inputs, 50 + 50 units, batch 64, Adam) by `fit_ensemble` and by `fit_pair` ten times,
and by the compiled engine. The trainer: `fit_pair` beside the loop a user would write. Tables: 5 million rows x 20 columns of
Parquet (row groups as pandas writes them, and of 100,000) and of CSV, read by `ParquetRegression` in a process of its own, beside
pandas reading the whole and a loop over rows. Times are the best of several.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

ROWS, COLUMNS = 5_000_000, 20


def peak():
    """Most memory this process ever had, in MB (getrusage would count what its parent had)."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def table(n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, (np.sin(X[:, 0]) + 0.3 * (1 + X[:, 1] ** 2) * rng.normal(size=n)).astype(np.float32)


def ensembles():
    from aleator import PairEnsemble
    from aleator.torch import Pair, fit_ensemble, fit_pair

    torch.set_num_threads(1)
    data, members, epochs = table(1000, 13), 10, 10

    def pair(k):
        torch.manual_seed(k)
        return Pair(nn.Sequential(nn.Linear(13, 50), nn.ReLU(), nn.Linear(50, 1), nn.Flatten(0)))

    def at_once():
        return fit_ensemble(pair, members, data, epochs=epochs)

    def one_by_one():
        return [fit_pair(pair(k), data, epochs=epochs) for k in range(members)]

    def compiled():
        return PairEnsemble(n_members=members, epochs=epochs, rescale=False, batch_size=64, n_jobs=1).fit(*data)

    def by_hand():
        each, x, y = pair(0), *map(torch.from_numpy, data)
        steps = torch.optim.Adam(each.parameters())
        for _ in range(epochs):
            for rows in torch.randperm(len(y)).split(64):
                steps.zero_grad()
                each.criterion(*each(x[rows]), y[rows]).backward()
                steps.step()

    def alone():
        return fit_pair(pair(0), data, epochs=epochs)

    best = {}
    for _ in range(4):
        for run in (at_once, one_by_one, compiled, by_hand, alone):
            start = time.perf_counter()
            run()
            best[run] = min(best.get(run, np.inf), time.perf_counter() - start)
    apart = max(
        float((a - b).abs().max())
        for one, other in zip(at_once().pairs, one_by_one(), strict=True)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )
    steps = epochs * -(-1000 // 64)
    print(f"ensemble of {members}, {steps} steps, one thread: at once {best[at_once]:.2f} s, fit_pair one by one {best[one_by_one]:.2f} s: "
          f"{best[one_by_one] / best[at_once]:.1f} times; largest difference of a weight {apart:.1e}")  # fmt: skip
    print(
        f"  the compiled engine {best[compiled]:.3f} s: {best[at_once] / best[compiled]:.0f} times faster than at once"
    )
    print(f"trainer: fit_pair {1e6 * best[alone] / steps:.0f} us a step, a loop by hand {1e6 * best[by_hand] / steps:.0f} us: "
          f"{best[alone] / best[by_hand]:.2f} times")  # fmt: skip


def written(folder):
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    pandas_groups, small = None, None
    for _ in range(5):
        X = rng.normal(size=(ROWS // 5, COLUMNS))
        piece = pa.table({**{f"x{k}": X[:, k] for k in range(COLUMNS)}, "y": X[:, 0] + rng.normal(size=len(X))})
        pandas_groups = pandas_groups or parquet.ParquetWriter(folder / "large.parquet", piece.schema)
        small = small or parquet.ParquetWriter(folder / "small.parquet", piece.schema)
        pandas_groups.write_table(piece, row_group_size=1 << 20)
        small.write_table(piece, row_group_size=100_000)
    pandas_groups.close()
    small.close()
    csv.write_csv(piece, folder / "table.csv")


def read(path):
    from aleator.torch import ParquetRegression

    before, rows = peak(), 0
    start = time.perf_counter()
    for x, _ in ParquetRegression(path, target="y"):
        rows += len(x)
    seconds = time.perf_counter() - start
    print(
        f"{Path(path).name}: {rows:,} rows, {rows / seconds:,.0f} rows/s, peak {peak():.0f} MB, of which imports {before:.0f}"
    )


def trained(path):
    from aleator.torch import Pair, ParquetRegression, fit_pair

    before = peak()
    pair = Pair(nn.Sequential(nn.Linear(COLUMNS, 50), nn.ReLU(), nn.Linear(50, 1), nn.Flatten(0)))
    start = time.perf_counter()
    fit_pair(pair, ParquetRegression(path, target="y", batch_size=4096), epochs=1)
    seconds = time.perf_counter() - start
    print(f"one epoch of a pair on it: {ROWS / seconds:,.0f} rows/s, peak {peak():.0f} MB, of which imports {before:.0f}; "
          f"loss {pair.history.loss.iloc[-1]:.3f} (noise 1)")  # fmt: skip


def others(path):
    import pandas as pd

    start = time.perf_counter()
    pd.read_parquet(path)
    print(f"pandas, the whole: {ROWS / (time.perf_counter() - start):,.0f} rows/s, peak {peak():.0f} MB")


def main():
    ensembles()
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder))
        for part, name in [
            ("read", "large.parquet"),
            ("read", "small.parquet"),
            ("read", "table.csv"),
            ("trained", "large.parquet"),
            ("others", "large.parquet"),
        ]:
            subprocess.run([sys.executable, __file__, part, f"{folder}/{name}"], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        {"read": read, "trained": trained, "others": others}[sys.argv[1]](sys.argv[2])
    else:
        main()
