"""LossQuantifier around four regressors: is the expected loss right in scale? Against what people use: does it rank better?

Usage: make quantifier, with ALEATOR_DATA naming the directory of the data sets. Fold s: rows permuted by
numpy.random.default_rng(s), the first 95 % train; 20 folds. Each fold's results are kept in .bench/ when it ends, so an
interrupted run resumes; remove that directory to begin anew. ARGS="--folds 5" for fewer folds of the two large sets.

Settings: regressors, rivals and LossQuantifier with their defaults. Nothing was chosen on test rows.
"""

import argparse
import hashlib
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from catboost import CatBoostRegressor
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict, train_test_split

from aleator import LossQuantifier, losses
from aleator.metrics import rejection_auc

SETS = {"boston": 20, "concrete": 20, "yacht": 20, "power": 20, "kin8nm": 20}
LOSSES = ("squared", "absolute", "pinball(0.8)")
RESULTS = Path(".bench/quantifier")
ONE_SIGMA = 0.6827  # coverage of one standard deviation to both sides; half such an interval is taken as one


def catboost(**settings):
    return CatBoostRegressor(verbose=0, allow_writing_files=False, thread_count=1, random_seed=0, **settings)


REGRESSORS = {
    "RandomForest": RandomForestRegressor(random_state=0),
    "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
    "HistGB, 5 rows a leaf": HistGradientBoostingRegressor(random_state=0, min_samples_leaf=5),
    "CatBoost": catboost(),
    "Ridge": Ridge(),
}


class Remembering(RegressorMixin, BaseEstimator):
    """A regressor that is fitted when asked for a prediction it has not made before: three losses, one cross-validation."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        self.X_, self.y_ = X, y
        return self

    def predict(self, X):
        content = [repr(self.estimator.get_params()).encode(), *(a.tobytes() for a in (self.X_, self.y_, X))]
        path = RESULTS / "predictions" / f"{hashlib.sha256(b''.join(content)).hexdigest()}.npy"
        if not path.exists():
            if not hasattr(self, "model_"):
                self.model_ = clone(self.estimator).fit(self.X_, self.y_)
            part = path.with_suffix(f".{os.getpid()}.npy")
            np.save(part, self.model_.predict(X))
            part.replace(path)
        return np.load(path)


# ---------------------------------------------------------------- what people use: prediction and expected squared loss


def own_uncertainty(X, y, new):
    """CatBoost's RMSEWithUncertainty."""
    said = catboost(loss_function="RMSEWithUncertainty").fit(X, y).predict(new)
    return said[:, 0], said[:, 1]


def five_of_them(X, y, new):
    seeds = [catboost(loss_function="RMSEWithUncertainty").set_params(random_seed=seed) for seed in range(5)]
    said = np.stack([model.fit(X, y).predict(new) for model in seeds])  # (5, n, 2)
    return said[:, :, 0].mean(axis=0), said[:, :, 1].mean(axis=0) + said[:, :, 0].var(axis=0)


def mapie(X, y, new):
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    fit, cal = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    score = ResidualNormalisedScore(residual_estimator=catboost(), random_state=0)
    model = SplitConformalRegressor(catboost(), confidence_level=ONE_SIGMA, conformity_score=score, prefit=False)
    model.fit(X[fit], y[fit]).conformalize(X[cal], y[cal])
    mean, ends = model.predict_interval(new)
    return mean, ((ends[:, 1, 0] - ends[:, 0, 0]) / 2) ** 2


def deup(X, y, new):
    from deup import DEUPRegressor

    return DEUPRegressor(base_model=catboost(), random_state=0).fit(X, y).predict(new, return_uncertainty=True)


def quantile_forest(X, y, new):
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(random_state=0).fit(X, y)
    low, high = model.predict(new, quantiles=[(1 - ONE_SIGMA) / 2, (1 + ONE_SIGMA) / 2]).T
    return model.predict(new, quantiles="mean"), ((high - low) / 2) ** 2


def crepes(X, y, new):
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    fit, cal = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    residuals = y[fit] - cross_val_predict(catboost(), X[fit], y[fit], cv=5)
    model = WrapRegressor(catboost())
    model.fit(X[fit], y[fit])
    hardness = DifficultyEstimator()
    hardness.fit(X[fit], residuals=residuals, scaler=True)
    model.calibrate(X[cal], y[cal], de=hardness)
    low, high = model.predict_int(new, confidence=ONE_SIGMA).T
    return model.predict(new), ((high - low) / 2) ** 2


OURS = {  # the default quantifier, and networks alone as before there were trees
    "CatBoost + LossQuantifier": "CatBoost",
    "CatBoost, network only": "CatBoost, network",
    "HistGB + LossQuantifier": "HistGradientBoosting",
    "HistGB, network only": "HistGradientBoosting, network",
    "Forest + LossQuantifier": "RandomForest",
    "Forest, network only": "RandomForest, network",
}
RIVALS = {
    "CatBoost RMSEWithUncertainty": own_uncertainty,
    "CatBoost x5 of it": five_of_them,
    "MAPIE normalised (CatBoost)": mapie,
    "deup (CatBoost)": deup,
    "quantile-forest": quantile_forest,
    "crepes normalised (CatBoost)": crepes,
}

# ---------------------------------------------------------------- one fold


def table(name):
    directory = os.environ.get("ALEATOR_DATA", "")
    path = Path(directory) / f"{name}.csv.gz"
    if not path.exists():
        sys.exit(f"set ALEATOR_DATA to the directory that holds {path.name}")
    values = pd.read_csv(path).to_numpy(np.float64)
    return values[:, :-1], values[:, -1]


def split(name, fold):
    X, y = table(name)
    train, test = np.split(np.random.default_rng(fold).permutation(len(y)), [round(0.95 * len(y))])
    return X[train], y[train], X[test], y[test]


def scale(name, fold, what):
    """Sums of predicted and realised loss for each loss; for the squared one also RMSE and AUC."""
    X, y, new, target = split(name, fold)
    regressor = what.removesuffix(", network")
    kind, rows = "network" if what.endswith(", network") else "auto", {}
    for loss in LOSSES if kind == "auto" else ("squared",):
        regressor_ = Remembering(REGRESSORS[regressor])
        model = LossQuantifier(regressor_, loss=loss, quantifier=kind, n_jobs=1, random_state=fold)
        model.fit(X, y)
        said = model.predict_uncertainty(new)
        realised = losses.get(loss)(target, said.prediction)
        rows[loss] = {"predicted": said.expected_loss.sum(), "realised": realised.sum()}
        if loss == "squared":
            rows[loss] |= ranked(target, said.prediction, said.expected_loss)
    return rows


def rival(name, fold, method):
    X, y, new, target = split(name, fold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, expected = RIVALS[method](X, y, new)
    sums = {"predicted": float(np.sum(expected)), "realised": float(np.sum((target - mean) ** 2))}
    return {"squared": sums | ranked(target, mean, expected)}


def ranked(y, mean, expected):
    return {"rmse": float(np.sqrt(np.mean((y - mean) ** 2))), "auc": rejection_auc(y, mean, expected)}


def kept(job):
    """The results of a job, from the file that an earlier run left, or computed and written whole."""
    name, fold, what = job
    path = RESULTS / f"{name}-{fold}-{what.replace(' ', '_')}.json"
    if not path.exists():
        result = rival(name, fold, what) if what in RIVALS else scale(name, fold, what)
        path.with_suffix(".part").write_text(json.dumps(result))
        path.with_suffix(".part").replace(path)
        print(f"{name} {fold} {what}", file=sys.stderr, flush=True)
    return job, json.loads(path.read_text())


# ---------------------------------------------------------------- tables


def pooled(rows):
    """Predicted over realised loss of all folds together, and its jackknife standard error."""
    predicted, realised = np.array([(row["predicted"], row["realised"]) for row in rows]).T
    without = (predicted.sum() - predicted) / (realised.sum() - realised)
    return predicted.sum() / realised.sum(), np.sqrt((len(rows) - 1) * without.var())


def ratio_table(results, sets):
    print(
        "Mean predicted / mean realised loss, pooled over test folds (to reach: 0.9 to 1.1; * outside), and its standard"
    )
    print("error by leaving out folds in turn\n")
    print(f"{'':24s}{'loss':14s}" + "".join(f"{name:>16s}" for name in sets))
    inside = total = 0
    for regressor in REGRESSORS:
        for loss in LOSSES:
            cells = []
            for name, folds in sets.items():
                own = [results[name, fold, regressor][loss] for fold in range(folds)]
                ratio, error = pooled(own)
                fine = 0.9 <= ratio <= 1.1
                inside, total = inside + (fine and "leaf" not in regressor), total + ("leaf" not in regressor)
                cells.append(f"{ratio:8.2f} ± {error:.2f}{' ' if fine else '*'}")
            print(f"{regressor:24s}{loss:14s}" + "".join(cells))
    print(f"\n{inside} of {total} inside (the line with 5 rows a leaf is not counted: it explains one column)\n")


def rival_table(results, sets):
    methods = {what: title for title, what in OURS.items()} | {name: name for name in RIVALS}
    print("RMSE / AUC (RMSE) / predicted over realised squared loss; **best AUC, and not significantly worse than it**")
    print("(two-tailed paired t-test over folds, p = 0.05)\n")
    print(f"{'':30s}" + "".join(f"{name:>29s}" for name in sets))
    scores = {
        (what, name): [results[name, fold, what]["squared"] for fold in range(folds)]
        for what in methods
        for name, folds in sets.items()
    }
    aucs = {key: np.array([row["auc"] for row in rows]) for key, rows in scores.items()}
    for what, title in methods.items():
        cells = []
        for name in sets:
            rows = scores[what, name]
            best = min((aucs[other, name] for other in methods), key=np.mean)
            own = aucs[what, name]
            bold = own is best or stats.ttest_rel(own, best).pvalue >= 0.05
            ratio, _ = pooled(rows)
            digits = 4 if name == "kin8nm" else 2
            auc = f"{own.mean():.{digits}f}"
            cells.append(
                f"{np.mean([row['rmse'] for row in rows]):.{digits}f} / {f'**{auc}**' if bold else auc} / {ratio:.2f}"
            )
        print(f"{title:30s}" + "".join(f"{cell:>29s}" for cell in cells))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folds", type=int, default=20, help="of Power and Kin8nm")
    parser.add_argument("--jobs", type=int, default=-1)
    asked = parser.parse_args()
    sets = SETS | dict.fromkeys(("power", "kin8nm"), asked.folds)
    (RESULTS / "predictions").mkdir(parents=True, exist_ok=True)
    everything = dict.fromkeys((*REGRESSORS, *OURS.values(), *RIVALS))
    jobs = [(name, fold, what) for name, folds in sets.items() for what in everything for fold in range(folds)]
    jobs.sort(key=lambda job: job[1])  # fold by fold, so that a run that is cut short can be read
    results = dict(Parallel(n_jobs=asked.jobs)(delayed(kept)(job) for job in jobs))
    ratio_table(results, sets)
    rival_table(results, sets)


if __name__ == "__main__":
    main()
