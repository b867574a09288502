"""The comparison behind the defaults of PairRegressor, on training data only.

Usage: ALEATOR_DATA=... .venv/bin/python benchmarks/defaults.py. For each set, the training part of fold 0 (95 %) is split
80/20 at random four times; nothing of the test part is looked at. Columns: geometric mean over sets of RMSE and AUC in units of
the target's standard deviation, mean Gaussian NLL, and least and largest predicted / realised squared loss over sets.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from aleator import PairEnsemble, PairRegressor
from aleator.datasets import two_strips
from aleator.metrics import loss_calibration, nll, rejection_auc

CANDIDATES = {
    "default": PairRegressor(),
    "batch 32, rate 1e-3": PairRegressor(batch_size=32, learning_rate=1e-3),
    "rate 4e-3": PairRegressor(learning_rate=4e-3),
    "l2 0": PairRegressor(l2=0),
    "l2 2": PairRegressor(l2=2),
    "200 epochs, no held-out rows": PairRegressor(epochs=200, rescale=False),
    "early stopping": PairRegressor(early_stopping=True),
    "ensemble": PairEnsemble(),
}
SPLITS = 4


def tables():
    directory = Path(os.environ.get("ALEATOR_DATA", "."))
    names = ("boston", "concrete", "yacht", "power", "kin8nm", "msd_train_sample7000")
    if not all((directory / f"{name}.csv.gz").exists() for name in names):
        sys.exit(f"set ALEATOR_DATA to the directory that holds {', '.join(names)} (.csv.gz)")
    for name in names:
        table = pd.read_csv(directory / f"{name}.csv.gz").to_numpy(np.float64)
        yield name, table[:, :-1], table[:, -1]
    yield "diabetes", *load_diabetes(return_X_y=True)
    strips = two_strips(2000, random_state=5)
    yield "two strips", strips.X, strips.y
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(6000, 2))
    yield "jump", X, np.sin(3 * X[:, 0]) + np.where(X[:, 0] < 0.2, 0.3, 1.2) * rng.normal(size=6000)


def scores(model, X, y):
    part = np.random.default_rng(0).permutation(len(y))[: round(0.95 * len(y))]
    rows = []
    for split in range(SPLITS):
        order = np.random.default_rng(100 + split).permutation(part)
        train, test = np.split(order, [round(0.8 * len(order))])
        said = model.set_params(random_state=split).fit(X[train], y[train]).predict_uncertainty(X[test])
        size = y[train].std()
        rows.append(
            (
                np.sqrt(np.mean((said.prediction - y[test]) ** 2)) / size,
                rejection_auc(y[test], said.prediction, said.expected_loss) / size,
                nll(y[test] / size, said.prediction / size, said.std / size),
                loss_calibration(y[test], said.prediction, said.expected_loss, n_bins=1).ratio,
            )
        )
    return np.mean(rows, axis=0)


def main():
    sets = list(tables())
    print(f"{'':30s} {'RMSE':>7s} {'AUC':>7s} {'NLL':>9s} {'least':>7s} {'largest ratio':>14s} {'seconds':>8s}")
    for name, model in CANDIDATES.items():
        start = time.perf_counter()
        rmse, auc, likelihood, ratio = np.array([scores(model, X, y) for _, X, y in sets]).T
        print(f"{name:30s} {np.exp(np.log(rmse).mean()):7.3f} {np.exp(np.log(auc).mean()):7.3f} {likelihood.mean():9.3g} "
              f"{ratio.min():7.2f} {ratio.max():14.2f} {time.perf_counter() - start:8.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
