"""What a quantifier costs: against fitting its regressor once, and for a million rows.

Usage: make quantifier-speed, with ALEATOR_DATA naming the directory of the data sets. Training part of fold 0, CatBoost with its
defaults (1,000 trees) on all cores, against training the quantifiers on its out-of-fold losses (search of the number of
epochs, scale and five members included) with two threads. Best of three, in turn. Then `predict_loss` on 1,000,000 rows of 20
columns around a Ridge, its own prediction included, and the memory that adds.
"""

import re
import time
from pathlib import Path

import numpy as np
from catboost import CatBoostRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict

from aleator import LossQuantifier
from aleator.training import loss_network
from quantifier import SETS, split


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak():
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def main():
    print(f"{'':10s} {'rows':>6s} {'CatBoost s':>11s} {'quantifiers s':>14s} {'ratio':>6s}")
    totals = np.zeros(2)
    for name in SETS:
        X, y, _, _ = split(name, 0)
        regressor = CatBoostRegressor(verbose=0, allow_writing_files=False, random_seed=0)
        said = cross_val_predict(regressor, X, y, cv=5)
        Z, L = np.column_stack([X, said]), ((y - said) ** 2)[:, None]
        settings, weight, part = LossQuantifier(regressor), np.ones(len(y)), np.arange(len(y)) % 5
        runs = [
            (timed(lambda: regressor.fit(X, y)), timed(lambda: loss_network.learn(settings, Z, L, weight, part)))  # noqa: B023
            for _ in range(3)
        ]
        best = np.min(runs, axis=0)
        totals += best
        print(f"{name:10s} {len(y):6d} {best[0]:11.2f} {best[1]:14.2f} {best[1] / best[0]:6.2f}")
    print(f"{'all five':10s} {'':6s} {totals[0]:11.2f} {totals[1]:14.2f} {totals[1] / totals[0]:6.2f}\n")

    X = np.random.default_rng(0).normal(size=(1_000_000, 20))
    y = X[:, 0] + np.abs(X[:, 1]) * np.random.default_rng(1).normal(size=len(X))
    model = LossQuantifier(Ridge()).fit(X[:5000], y[:5000])
    model.predict_loss(X[:100])
    before = peak()
    seconds = min(timed(lambda: model.predict_loss(X)) for _ in range(3))
    print(f"predict_loss, 1,000,000 x 20: {seconds:.2f} s, {(peak() - before) / X.nbytes:.2f} times the data added")


if __name__ == "__main__":
    main()
