"""PBP and SVGD beside their authors' code: folds 0 to 19, squared loss, several seeds of ours for their one.

Usage: ALEATOR_DATA=... make known [ARGS="yacht boston"]. The references are one run each, of the authors' own C code of PBP and of a numpy port of
the authors' SVGD with 2,000 iterations. One seed on twenty folds of a small set is worth about 5 %, so ours is a mean over eight
seeds (two on the large sets). SVGD with its authors' settings: rows in the order of the table, the last tenth held out.
"""

import sys

import numpy as np
from joblib import Parallel, delayed

from aleator import datasets
from aleator.baselines import PBPRegressor, SVGDRegressor
from aleator.metrics import rejection_auc

SETS = ("boston", "concrete", "yacht", "kin8nm", "power")
METHODS = {
    "PBP": (PBPRegressor(), ((3.03, 2.28), (5.60, 4.71), (1.02, 0.59), (0.100, 0.082), (4.05, 3.87)), (5, 8)),
    "SVGD": (
        SVGDRegressor(iterations=2000, shuffle=False),
        ((2.88, 2.38), (5.85, 4.80), (1.01, 0.61), (0.129, 0.115), (4.11, 4.10)),
        (8, 12),
    ),
}


def one(model, dataset, fold, seed):
    order = np.random.default_rng(fold).permutation(len(dataset.y))
    train, test = np.split(order, [round(0.95 * len(order))])
    said = model.set_params(random_state=1000 * seed + fold).fit(dataset.X[train], dataset.y[train])
    said, y = said.predict_uncertainty(dataset.X[test]), dataset.y[test]
    return np.sqrt(np.mean((said.prediction - y) ** 2)), rejection_auc(y, said.prediction, said.expected_loss)


def main():
    for label, (model, references, within) in METHODS.items():
        for name, reference in zip(SETS, references, strict=True):
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            dataset = datasets.load(name)
            seeds = 8 if len(dataset.y) < 2000 else 2
            jobs = (delayed(one)(model, dataset, fold, seed) for seed in range(seeds) for fold in range(20))
            by_seed = np.array(Parallel(n_jobs=2)(jobs)).reshape(seeds, 20, 2).mean(axis=1)  # (seeds, error and AUC)
            mean, spread = by_seed.mean(axis=0), by_seed.std(axis=0)
            off = 100 * (mean / reference - 1)
            verdict = "" if (np.abs(off) <= within).all() else "  OUTSIDE"
            print(f"{label:<5}{name:<9}{mean[0]:.4g} / {mean[1]:.4g} (over seeds ± {spread[0]:.2g} / {spread[1]:.2g})   "
                  f"theirs {reference[0]} / {reference[1]}   {off[0]:+.1f} % / {off[1]:+.1f} %{verdict}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
