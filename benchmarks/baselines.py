"""Every baseline on the five data sets, beside the paper and, where it was run, the authors' own code.

Usage: make baselines, with ALEATOR_DATA naming the directory of the data sets. Folds 0 to 19 (fold s: rows permuted by
numpy.random.default_rng(s), the first 95 % train; random_state = s). A method's results on a set are kept in .bench/
when they are there, so an interrupted run goes on where it was; remove that directory to begin anew.

Settings: ML, EnsML, pair, EnsPair: hyperparameters of the paper's table (learning rate, epochs, dropout, lam, batch).
SVGD: its authors' settings with 1,000, 2,000 and 10,000 iterations. PBP: its authors' settings, but for the start of the
prior factors, which was changed for tables of few rows; both starts were looked at on these folds (within 2 % of each
other). "ours": the defaults of this library, which find the length of training on the training rows; five folds of the
two large sets. No setting was chosen on test rows.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from aleator import PairEnsemble, PairRegressor
from aleator.baselines import (
    BetaNLLRegressor,
    DropoutRegressor,
    MeanVarianceEnsemble,
    MeanVarianceRegressor,
    PBPRegressor,
    PlainRegressor,
    SVGDRegressor,
)
from aleator.metrics import rejection_auc

SETS = ("boston", "concrete", "yacht", "power", "kin8nm")
BATCH = {"boston": 5, "concrete": 5, "yacht": 5, "power": 10, "kin8nm": 10}
# learning rate, dropout, epochs of ML; lam, learning rate, dropout, epochs of the pair: the paper's tables
PUBLISHED = {
    "squared": {
        "boston": ((4e-5, 0.4, 500), (0.1, 8e-4, 0.4, 500)),
        "concrete": ((1e-4, 0.1, 700), (0.2, 2e-4, 0.15, 700)),
        "power": ((5e-5, 0.0, 150), (0.2, 3e-4, 0.0, 80)),
        "yacht": ((1e-4, 0.1, 2000), (0.2, 4e-4, 0.0, 500)),
        "kin8nm": ((5e-5, 0.0, 200), (0.5, 2e-4, 0.0, 300)),
    },
    "absolute": {
        "boston": ((3e-5, 0.4, 600), (0.2, 2e-4, 0.4, 2000)),
        "concrete": ((3e-5, 0.1, 800), (0.2, 3e-4, 0.1, 600)),
        "power": ((5e-5, 0.0, 150), (1.0, 1e-4, 0.0, 200)),
        "yacht": ((1e-4, 0.1, 1000), (0.2, 4e-4, 0.0, 500)),
        "kin8nm": ((5e-5, 0.0, 400), (0.2, 2e-4, 0.0, 400)),
    },
}
# error / AUC of the paper (50 folds), in the order of SETS
PAPER = {
    "squared": {
        "ML": ((3.79, 2.40), (5.60, 4.00), (0.76, 0.25), (4.09, 3.75), (0.086, 0.074)),
        "EnsML": ((3.60, 2.35), (4.76, 3.34), (0.48, 0.21), (4.05, 3.71), (0.078, 0.062)),
        "SVGD, 1,000": ((3.10, 2.34), (6.11, 4.93), (2.00, 1.20), (4.22, 4.26), (0.152, 0.129)),
        "SVGD, 2,000": ((3.10, 2.34), (6.11, 4.93), (2.00, 1.20), (4.22, 4.26), (0.152, 0.129)),
        "PBP": ((3.54, 2.28), (5.58, 4.66), (1.09, 0.64), (4.09, 3.86), (0.098, 0.081)),
        "pair": ((3.76, 2.15), (5.46, 3.80), (0.94, 0.41), (4.13, 3.63), (0.085, 0.067)),
        "EnsPair": ((3.14, 1.86), (4.71, 3.17), (0.73, 0.34), (4.13, 3.64), (0.077, 0.058)),
    },
    "absolute": {
        "ML": ((2.34, 1.68), (4.09, 2.69), (0.50, 0.18), (3.08, 2.72), (0.069, 0.053)),
        "EnsML": ((2.17, 1.67), (3.63, 2.32), (0.33, 0.13), (3.07, 2.71), (0.063, 0.048)),
        "SVGD, 1,000": ((2.14, 1.61), (4.82, 3.29), (1.35, 0.46), (3.23, 3.22), (0.116, 0.089)),
        "SVGD, 2,000": ((2.14, 1.61), (4.82, 3.29), (1.35, 0.46), (3.23, 3.22), (0.116, 0.089)),
        "PBP": ((2.21, 1.65), (4.21, 3.59), (0.73, 0.50), (3.19, 3.11), (0.076, 0.064)),
        "pair": ((2.20, 1.39), (4.05, 2.57), (0.57, 0.22), (3.09, 2.66), (0.072, 0.052)),
        "EnsPair": ((2.06, 1.46), (3.56, 2.19), (0.42, 0.15), (3.07, 2.63), (0.069, 0.048)),
    },
}
# the authors' own C code of PBP, and a numpy port of the authors' SVGD, on folds 0 to 19, squared loss
AUTHORS = {
    "PBP": ((3.03, 2.28), (5.60, 4.71), (1.02, 0.59), (4.05, 3.87), (0.100, 0.082)),
    "SVGD, 2,000": ((2.88, 2.38), (5.85, 4.80), (1.01, 0.61), (4.11, 4.10), (0.129, 0.115)),
}
WITHIN = {"PBP": (0.05, 0.08), "SVGD, 2,000": (0.08, 0.12)}


def methods(loss, name):
    """The models to compare on one data set, by the names of the tables above."""
    (rate, dropout, epochs), (lam, pair_rate, pair_dropout, pair_epochs) = PUBLISHED[loss][name]
    common = {"loss": loss, "optimizer": "nesterov", "l2": 0.0, "batch_size": BATCH[name], "n_jobs": 1}
    ml = common | {"learning_rate": rate, "epochs": epochs, "rescale": False}
    pair = common | {"learning_rate": pair_rate, "epochs": pair_epochs, "lam": lam, "rescale": False}
    return {
        "ML": MeanVarianceRegressor(dropout=dropout, **ml),
        "EnsML": MeanVarianceEnsemble(n_members=5, **ml),
        "SVGD, 1,000": SVGDRegressor(loss=loss, iterations=1000),
        "SVGD, 2,000": SVGDRegressor(loss=loss, iterations=2000),
        "SVGD, 10,000": SVGDRegressor(loss=loss, iterations=10_000),
        "PBP": PBPRegressor(loss=loss),
        "pair": PairRegressor(dropout=pair_dropout, **pair),
        "EnsPair": PairEnsemble(n_members=5, **pair),
        "plain, ours": PlainRegressor(loss=loss, n_jobs=1),
        "ML, ours": MeanVarianceRegressor(loss=loss, n_jobs=1),
        "beta-NLL, ours": BetaNLLRegressor(loss=loss, n_jobs=1),
        "dropout, ours": DropoutRegressor(loss=loss, n_jobs=1),
        "pair, ours": PairRegressor(loss=loss, n_jobs=1),
        "EnsML, ours": MeanVarianceEnsemble(n_members=5, loss=loss, n_jobs=1),
        "EnsPair, ours": PairEnsemble(n_members=5, loss=loss, n_jobs=1),
    }


def one_fold(model, X, y, fold):
    """Error, AUC, mean expected over mean realised loss (NaN without a quantifier), seconds of fit."""
    order = np.random.default_rng(fold).permutation(len(y))
    train, test = np.split(order, [round(0.95 * len(y))])
    start = time.perf_counter()
    model.set_params(random_state=fold).fit(X[train], y[train])
    seconds = time.perf_counter() - start
    squared = model.loss == "squared"
    mean = model.predict(X[test])
    realised = np.mean((mean - y[test]) ** 2 if squared else np.abs(mean - y[test]))
    error = float(np.sqrt(realised) if squared else realised)
    if isinstance(model, PBPRegressor) and not (model.weight_variance_ > 0).all():
        raise ArithmeticError("a variance is not positive")
    if isinstance(model, PlainRegressor):
        return error, float("nan"), float("nan"), seconds
    expected = model.predict_loss(X[test])
    auc = rejection_auc(y[test], mean, expected, error="rmse" if squared else "mae")
    return error, auc, float(expected.mean() / realised), seconds


def results(loss, name, method, model, X, y, folds, jobs):
    path = Path(".bench/baselines") / loss / f"{name}-{method.replace(' ', '_').replace(',', '')}-{folds}.json"
    if not path.exists():
        rows = Parallel(n_jobs=jobs)(delayed(one_fold)(model, X, y, fold) for fold in range(folds))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_text(json.dumps(rows))
        path.with_suffix(".part").replace(path)
    return np.array(json.loads(path.read_text()))


def beside(pairs, k):
    return f"{pairs[k][0]:g} / {pairs[k][1]:g}" if pairs else ""


def verdict(method, k, error, auc):
    """Whether the figures agree with the authors' code as closely as they should."""
    if method not in WITHIN:
        return ""
    off = [ours / theirs - 1 for ours, theirs in zip((error, auc), AUTHORS[method][k], strict=True)]
    fine = all(abs(d) <= most for d, most in zip(off, WITHIN[method], strict=True))
    return f"{off[0]:+.1%} / {off[1]:+.1%}{'' if fine else '  OUTSIDE'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--loss", choices=tuple(PUBLISHED), nargs="*", default=list(PUBLISHED))
    parser.add_argument("--sets", choices=SETS, nargs="*", default=list(SETS))
    options = parser.parse_args()
    directory = os.environ.get("ALEATOR_DATA")
    if not directory or not (Path(directory) / "boston.csv.gz").exists():
        sys.exit("set ALEATOR_DATA to the directory that holds boston.csv.gz and the others")
    for loss in options.loss:
        measure = "RMSE" if loss == "squared" else "MAE"
        print(f"\n{loss} loss, {options.folds} folds: {measure} / AUC, mean over folds ± standard error of the mean")
        for name in options.sets:
            k = SETS.index(name)
            table = pd.read_csv(Path(directory) / f"{name}.csv.gz").to_numpy(np.float64)
            print(f"\n{name:16s} {measure:>16s} {'AUC':>16s} {'loss ratio':>10s} {'s a fit':>8s}   {'paper':13s} {'authors code':13s} ours to theirs")  # fmt: skip
            for method, model in methods(loss, name).items():
                folds = min(options.folds, 5) if "ours" in method and len(table) > 5000 else options.folds
                rows = results(loss, name, method, model, table[:, :-1], table[:, -1], folds, options.jobs)
                (error, auc, _, _), seconds = rows.mean(axis=0), np.median(rows[:, 3])
                realised = rows[:, 0] ** 2 if loss == "squared" else rows[:, 0]  # of folds of equal size
                ratio = (rows[:, 2] * realised).sum() / realised.sum()
                e_se, a_se = rows[:, :2].std(axis=0, ddof=1) / np.sqrt(len(rows))
                authors = AUTHORS.get(method) if loss == "squared" else None
                digits = 4 if error < 0.5 else 3
                print(f"{method:16s} {error:8.{digits}f} ± {e_se:.{digits}f} {auc:8.{digits}f} ± {a_se:.{digits}f} {ratio:10.2f} {seconds:8.2f}   "
                      f"{beside(PAPER[loss].get(method), k):13s} {beside(authors, k):13s} {verdict(method, k, error, auc) if authors else ''}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
