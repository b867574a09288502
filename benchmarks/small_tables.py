"""Is the scale right on small tables? Mean expected over mean realised loss of `PairEnsemble()`, measured in two ways.

    make small-tables                # some 20 minutes on two cores; writes benchmarks/small_tables.txt
    make small-tables ARGS=squared   # half of it

Pooled over 50 folds of a small set this ratio is mostly chance: the squared loss of Boston is that of 41 rows, drawn for a test 0 to 7
times each. So, first, tables of a few hundred rows are drawn from large sets (the training part of fold 0), and judged on thousands of
other rows: geometric mean over tables, and its standard error. "no gain": as if members that know all rows were no better
than those that lack a fold. Second, Boston and Yacht whole, in 20 folds of which every row is in one: with the standard error of drawing their rows, and with
the same losses counted as often as the 50 folds of section 8 draw their rows for a test.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from aleator import PairEnsemble, atomic_write, datasets, losses
from aleator.paper.protocol import OBJECTIVES, fold
from aleator.training.held_out import held_out_losses

LARGE, SIZES, TABLES, JUDGES = ("concrete", "kin8nm", "power"), (300, 450), 12, 4_000
SMALL, FOLDS, SEEDS = ("boston", "yacht"), 20, 1


def fitted(loss, X, y, seed):
    """A model, and the fold correction that is part of its scale."""
    model = PairEnsemble(loss=loss, n_jobs=1, random_state=seed)
    task = model._problem(X, y, None)
    result = model._train(task, None)
    model._set_fitted(result, task)
    uncorrected = [replace(part, quantifier_share=None) for part in result.held_out]
    without = held_out_losses(uncorrected, model._readout().compare)
    return model, float(model.loss_scale_[0] / without.scale[0])


def judged(loss, model, X, y):
    """Expected and realised loss of rows."""
    said = model.predict_uncertainty(X)
    return said.expected_loss, losses.get(loss)(y, said.prediction)


def drawn(loss, name, size, seed):
    """Logarithm of expected over realised loss, with the gain and without, of one small table out of a large set."""
    dataset = datasets.load(name)
    rows = np.random.default_rng([7, seed]).permutation(fold(dataset, 0)[0])
    known, others = rows[:size], rows[size : size + JUDGES]
    model, gain = fitted(loss, dataset.X[known], dataset.y[known], seed)
    expected, realised = judged(loss, model, dataset.X[others], dataset.y[others])
    ratio = np.log(expected.mean() / realised.mean())
    return ratio, ratio - np.log(gain)


def left_out(loss, name, seed, k):
    """Rows of one of 20 folds (3, n): how often section 8 draws them, their expected and realised losses."""
    dataset = datasets.load(name)
    place = np.random.default_rng([11, seed]).permutation(len(dataset.y)) % FOLDS
    model, _ = fitted(loss, dataset.X[place != k], dataset.y[place != k], seed)
    tests = [fold(dataset, number)[1] for number in range(50)]
    times = np.bincount(np.concatenate(tests), minlength=len(dataset.y))
    return times[place == k], *judged(loss, model, dataset.X[place == k], dataset.y[place == k])


def main():
    console = Console(width=110, record=True)
    parallel = Parallel(n_jobs=2)
    table = Table("small tables of large sets", "rows", "loss", "no gain", "expected / realised", "of one table")
    chosen = sys.argv[1:] or list(OBJECTIVES.values())
    for loss in chosen:
        for name in LARGE:
            for size in SIZES:
                found = np.array(parallel(delayed(drawn)(loss, name, size, seed) for seed in range(TABLES)))
                (ours, without), spread = np.exp(found.mean(axis=0)), found.std(axis=0, ddof=1)
                told = f"{ours:.2f} ± {ours * spread[0] / TABLES**0.5:.2f}"
                table.add_row(name, str(size), loss, f"{without:.2f}", told, f"± {spread[0]:.2f}")
                print(name, size, loss, f"{without:.2f}", told, file=sys.stderr, flush=True)
    console.print(table)
    table = Table(
        "small sets, every row once", "loss", "seed", "expected / realised", "as 50 folds draw", "rows that count"
    )
    for loss in chosen:
        for name in SMALL:
            for seed in range(SEEDS):
                found = parallel(delayed(left_out)(loss, name, seed, k) for k in range(FOLDS))
                times, expected, realised = np.concatenate(found, axis=1)
                ratio = expected.mean() / realised.mean()
                error = np.std(expected - ratio * realised) / realised.mean() / len(realised) ** 0.5
                many = realised.sum() ** 2 / (realised**2).sum()
                told = f"{ratio:.2f} ± {error:.2f}", f"{times @ expected / (times @ realised):.2f}"
                table.add_row(name, loss, str(seed), *told, f"{many:.0f} of {len(realised)}")
                print(name, loss, seed, *told, file=sys.stderr, flush=True)
    console.print(table)
    with atomic_write.whole(Path(__file__).with_suffix(".txt"), "table") as beside:
        beside.write_text(console.export_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
