"""Joint training for any regressor: what `rounds=3` brings over `rounds=1`.

Usage: make rounds, with ALEATOR_DATA naming the directory of the data sets. Two strips: 2,000 samples, 80 % of them noise, error
of the prediction in the clean regions over 10 seeds. Five sets: RMSE and AUC on the folds of benchmarks/quantifier.py,
the first 10 of 20 and 5 of the large sets, cv=5. Three regressors that take weights.
"""

import warnings

import numpy as np
from joblib import Parallel, delayed
from scipy import stats
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

from aleator import LossQuantifier
from aleator.datasets import two_strips, two_strips_truth
from quantifier import SETS, ranked, split

ROUNDS = (1, 3)
CURVES = {
    "GradientBoosting": GradientBoostingRegressor(random_state=0),
    "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
    "Ridge on a spline": make_pipeline(SplineTransformer(15), Ridge(1e-3)),
    "Ridge on degree 12": make_pipeline(StandardScaler(), PolynomialFeatures(12), StandardScaler(), Ridge(1e-3)),
}
TABLES = {
    "GradientBoosting": GradientBoostingRegressor(random_state=0),
    "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
    "Ridge on degree 2": make_pipeline(StandardScaler(), PolynomialFeatures(2), StandardScaler(), Ridge(1.0)),
}


def clean_error(name, rounds, seed):
    data = two_strips(2000, random_state=seed)
    grid = np.linspace(0, 1, 2001)
    truth, noise = two_strips_truth(grid)
    model = LossQuantifier(CURVES[name], rounds=rounds, n_jobs=1, random_state=seed).fit(data.X, data.y)
    error = (model.predict(grid[:, None]) - truth)[noise == 0]
    return np.sqrt(np.mean(error**2))


def of_table(set_, name, rounds, fold):
    X, y, new, target = split(set_, fold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LossQuantifier(TABLES[name], rounds=rounds, n_jobs=1, random_state=fold).fit(X, y)
    said = model.predict_uncertainty(new)
    scores = ranked(target, said.prediction, said.expected_loss)
    return scores["rmse"], scores["auc"]


def compared(one, three):
    """Mean of both, and p of the paired test."""
    return f"{np.mean(one):7.3f} -> {np.mean(three):7.3f}  p {stats.ttest_rel(one, three).pvalue:.3f}"


def main():
    run = Parallel(n_jobs=-1)
    print("two strips: RMSE against the truth in the clean regions, 10 seeds, rounds 1 -> 3")
    for name in CURVES:
        jobs = [(name, rounds, seed) for rounds in ROUNDS for seed in range(10)]
        errors = np.reshape(run(delayed(clean_error)(*job) for job in jobs), (2, 10))
        print(f"  {name:24s} {compared(*errors)}", flush=True)
    print("test folds: RMSE and AUC, rounds 1 -> 3")
    for set_, folds in SETS.items():
        for name in TABLES:
            jobs = [(set_, name, rounds, fold) for rounds in ROUNDS for fold in range(min(folds, 10))]
            scores = np.reshape(run(delayed(of_table)(*job) for job in jobs), (2, -1, 2))
            rmse, auc = scores[:, :, 0], scores[:, :, 1]
            print(f"  {set_:9s} {name:24s} RMSE {compared(*rmse)}   AUC {compared(*auc)}", flush=True)


if __name__ == "__main__":
    main()
