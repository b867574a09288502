"""Intervals for skewed errors: `make intervals`. How many targets lie below and above 90 % intervals, and how wide are they?

Four tables with skewed errors, 3,000 rows to learn from, 20,000 fresh rows, ten draws each. Ours: `LossQuantifier` around
HistGradientBoosting, with the rows that `fit` held out (`fit`), or with a third of the rows kept for `conformalize`; both
also symmetric. Beside it two-quantile conformal (CQR of Romano, Patterson, Candes 2019): HistGradientBoosting for the 5 %
and the 95 % quantile on two thirds of the rows, both ends moved by what the last third asks for, as published. Winkler
score: mean of width + 20 (distance of a target outside), less is better.

Then the guarantee of `conformalize`: one model, 200 splits of other rows into 99 to calibrate and 2,000 to test.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from aleator import LossQuantifier

N, FRESH, DRAWS, COVERAGE = 3_000, 20_000, 10, 0.9


def made(kind, n, rng):
    X = rng.uniform(-1, 1, size=(n, 4))
    middle, spread = 2 * X[:, 0] + np.sin(3 * X[:, 1]), np.exp(X[:, 2])
    if kind == "log-normal":
        return X, np.exp(0.5 * middle + 0.6 * spread * rng.normal(size=n))
    if kind == "zero-inflated":
        return X, np.where(rng.uniform(size=n) < 0.4, 0.0, np.exp(0.5 * middle) * rng.gamma(2.0, spread))
    if kind == "exponential noise":
        return X, middle + spread * rng.exponential(size=n)
    return X, rng.poisson(np.exp(0.5 * middle + 0.5)).astype(float)


def ours(X, y, calibrated):
    cut = len(y) * 2 // 3 if calibrated else len(y)
    model = LossQuantifier(HistGradientBoostingRegressor(random_state=0), loss="absolute", n_jobs=1).fit(
        X[:cut], y[:cut]
    )
    return model.conformalize(X[cut:], y[cut:]) if calibrated else model


def two_quantiles(X, y, new):
    cut, tail = len(y) * 2 // 3, (1 - COVERAGE) / 2
    low, high = (HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0).fit(X[:cut], y[:cut])
                 for q in (tail, 1 - tail))  # fmt: skip
    score = np.sort(np.maximum(low.predict(X[cut:]) - y[cut:], y[cut:] - high.predict(X[cut:])))
    q = score[int(np.ceil((len(score) + 1) * COVERAGE)) - 1]
    return low.predict(new) - q, high.predict(new) + q


def measured(kind, name, y, ends):
    low, high = ends
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    winkler = np.mean(high - low + 2 / (1 - COVERAGE) * outside)
    return {"table": kind, "method": name, "below": np.mean(y < low), "above": np.mean(y > high), "winkler": winkler}


def one(kind, draw):
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(draw)
    (X, y), (new, truth) = made(kind, N, rng), made(kind, FRESH, rng)
    rows = []
    for name, calibrated in (("ours, fit", False), ("ours, calibrate", True)):
        model = ours(X, y, calibrated)
        for symmetric in (False, True):
            ends = model.predict_interval(new, COVERAGE, symmetric=symmetric)
            rows.append(measured(kind, name + ", symmetric" * symmetric, truth, ends))
    rows.append(measured(kind, "two quantiles (CQR)", truth, two_quantiles(X, y, new)))
    return [{**row, "draw": draw} for row in rows]


def guarantee():
    rng = np.random.default_rng(0)
    X, y = made("log-normal", 10_000, rng)
    model = LossQuantifier(Ridge(), loss="absolute", n_jobs=1).fit(X[:2000], y[:2000])
    below, above = [], []
    for split in range(200):
        rows = 2000 + np.random.default_rng(split).permutation(8000)[:2099]
        model.conformalize(X[rows[:99]], y[rows[:99]])
        low, high = model.predict_interval(X[rows[99:]], COVERAGE)
        below.append(np.mean(y[rows[99:]] < low))
        above.append(np.mean(y[rows[99:]] > high))
    return np.array(below), np.array(above)


if __name__ == "__main__":
    kinds = ("log-normal", "zero-inflated", "exponential noise", "counts")
    found = Parallel(n_jobs=2)(delayed(one)(kind, draw) for kind in kinds for draw in range(DRAWS))
    table = pd.DataFrame([row for rows in found for row in rows])
    for kind in kinds:
        part = table[table["table"] == kind]
        rival = part[part["method"] == "two quantiles (CQR)"].set_index("draw")["winkler"]
        print(f"\n{kind}")
        for name, rows in part.groupby("method", sort=False):
            apart = rows.set_index("draw")["winkler"] - rival
            p = "" if name.startswith("two") else f"p = {stats.ttest_1samp(apart, 0).pvalue:.3f}"
            print(
                f"  {name:28s} below {rows.below.mean():6.1%}  above {rows.above.mean():6.1%}  Winkler {rows.winkler.mean():7.3f}  {p}"
            )
    below, above = guarantee()
    print("\ncalibrate on 99 rows, 200 splits, promised at most 5 % on each side and 90 % within")
    print(f"  below {below.mean():.2%} +- {below.std() / 200**0.5:.2%}, above {above.mean():.2%} +- {above.std() / 200**0.5:.2%}, "
          f"within {1 - (below + above).mean():.2%} +- {(below + above).std() / 200**0.5:.2%}")  # fmt: skip
