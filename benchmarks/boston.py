"""Boston, published hyperparameters, folds 0 to 19: the pair and the ensemble against the paper.

Usage: make boston, with ALEATOR_DATA naming the directory that holds boston.csv.gz (target in the last column).
Fold s: rows permuted by numpy.random.default_rng(s), the first 95 % train. Hyperparameters: table A of the paper.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from aleator import PairEnsemble, PairRegressor
from aleator.metrics import loss_calibration, rejection_auc

PUBLISHED = {
    "lam": 0.1,
    "learning_rate": 8e-4,
    "epochs": 500,
    "rescale": False,
    "batch_size": 5,
    "hidden": (50,),
    "optimizer": "nesterov",
    "momentum": 0.9,
    "l2": 0.0,
}
MODELS = {
    "pair": (PairRegressor(**PUBLISHED, dropout=0.4), "3.76 / 2.15"),
    "ensemble": (PairEnsemble(n_members=5, **PUBLISHED), "3.14 / 1.86"),
}


def main() -> None:
    directory = os.environ.get("ALEATOR_DATA")
    if not directory or not (Path(directory) / "boston.csv.gz").exists():
        sys.exit("set ALEATOR_DATA to the directory that holds boston.csv.gz")
    table = pd.read_csv(Path(directory) / "boston.csv.gz").to_numpy(np.float64)
    X, y = table[:, :-1], table[:, -1]
    print("20 folds, mean ± standard deviation")
    print(f"{'':10s} {'RMSE':>14s} {'AUC':>14s} {'loss ratio':>12s}   paper (50 folds) RMSE / AUC")
    for name, (model, paper) in MODELS.items():
        rows = []
        for fold in range(20):
            order = np.random.default_rng(fold).permutation(len(y))
            train, test = np.split(order, [round(0.95 * len(y))])
            said = model.set_params(random_state=fold).fit(X[train], y[train]).predict_uncertainty(X[test])
            error = float(np.sqrt(np.mean((said.prediction - y[test]) ** 2)))
            auc = rejection_auc(y[test], said.prediction, said.expected_loss)
            rows.append((error, auc, loss_calibration(y[test], said.prediction, said.expected_loss, n_bins=1).ratio))
        (rmse, auc, ratio), (rmse_std, auc_std, _) = np.mean(rows, axis=0), np.std(rows, axis=0)
        print(f"{name:10s} {rmse:7.2f} ± {rmse_std:.2f} {auc:7.2f} ± {auc_std:.2f} {ratio:12.2f}   {paper}")


if __name__ == "__main__":
    main()
