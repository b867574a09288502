"""SVGD as one writes it first, in numpy and float64, with its authors' settings: to compare results and speed with.

Usage: ALEATOR_DATA=... .venv/bin/python benchmarks/svgd_numpy.py [set] [seeds]. Folds 0 to 19, as in baselines.py; both
methods, for each seed RMSE / AUC over the folds. It shares no code with aleator.baselines.svgd.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from aleator.baselines import SVGDRegressor
from aleator.metrics import rejection_auc

SHAPE, RATE = 1.0, 0.1  # of the Gamma priors


def network(theta, x, hidden):
    """Hidden units (n, h) and output (n,) of one particle: W (d, h), c (h,), w (h,), e, ln gamma, ln lambda."""
    d = x.shape[1]
    W, c, w, e = np.split(theta[:-2], np.cumsum([d * hidden, hidden, hidden]))
    h = np.maximum(x @ W.reshape(d, hidden) + c, 0)
    return h, h @ w + e, w


def slopes(theta, x, y, n, hidden):
    """Gradient of the log posterior of one particle, with the rows x, y standing for n."""
    gamma, lam = np.exp(theta[-2:])
    h, out, w = network(theta, x, hidden)
    miss = y - out
    up = n / len(y) * gamma * miss
    back = np.outer(up, w) * (h > 0)
    by = np.concatenate([(x.T @ back).ravel(), back.sum(axis=0), h.T @ up, [up.sum()], [0.0, 0.0]])
    by[:-2] -= lam * theta[:-2]
    by[-2] = n / 2 - n / len(y) * gamma / 2 * (miss @ miss) + SHAPE - RATE * gamma
    by[-1] = (len(theta) - 2) / 2 - lam / 2 * (theta[:-2] @ theta[:-2]) + SHAPE - RATE * lam
    return by


def svgd(X, y, iterations, seed=0, particles=20, hidden=50, batch=100):
    """Particles (M, P + 2) for standardised X (n, d) and y (n,)."""
    rng, (n, d) = np.random.default_rng(seed), X.shape
    theta = np.zeros((particles, d * hidden + hidden + hidden + 1 + 2))
    for one in theta:
        one[: d * hidden] = rng.normal(size=d * hidden) / np.sqrt(d + 1)
        one[d * hidden + hidden : -3] = rng.normal(size=hidden) / np.sqrt(hidden + 1)
        some = rng.permutation(n)[:1000]
        one[-2] = -np.log(np.mean((network(one, X[some], hidden)[1] - y[some]) ** 2))
        one[-1] = np.log(rng.gamma(SHAPE, RATE))
    squares = None
    for t in range(iterations):
        rows = np.arange(t * batch, (t + 1) * batch) % n
        by = np.stack([slopes(one, X[rows], y[rows], n, hidden) for one in theta])
        apart = ((theta[:, None] - theta[None]) ** 2).sum(axis=2)
        h2 = 0.5 * np.median(apart) / np.log(particles + 1)
        kernel = np.exp(-apart / (2 * h2))
        phi = (kernel @ by + (theta * kernel.sum(axis=1)[:, None] - kernel @ theta) / h2) / particles
        squares = phi**2 if squares is None else 0.9 * squares + 0.1 * phi**2
        theta += 1e-3 * phi / (1e-6 + np.sqrt(squares))
    return theta


def numpy_answers(X, y, new, seed, hidden=50):
    """Mean and expected squared loss; the last tenth of the rows, at most 500, tells the noise."""
    n_held = min(round(0.1 * len(y)), 500)
    (X, X_held), (y, y_held) = np.split(X, [len(y) - n_held]), np.split(y, [len(y) - n_held])
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    theta = svgd((X - X.mean(axis=0)) / spread, (y - y.mean()) / y.std(), 2000, seed)

    def outputs(x):
        scaled = (x - X.mean(axis=0)) / spread
        return np.stack([y.mean() + y.std() * network(one, scaled, hidden)[1] for one in theta])

    mu = outputs(new)
    return mu.mean(axis=0), np.mean((outputs(X_held) - y_held) ** 2) + mu.var(axis=0)


def our_answers(X, y, new, seed):
    said = SVGDRegressor(iterations=2000, random_state=seed).fit(X, y).predict_uncertainty(new)
    return said.prediction, said.expected_loss


def one_fold(answers, X, y, fold, seed):
    order = np.random.default_rng(fold).permutation(len(y))
    train, test = np.split(order, [round(0.95 * len(y))])
    mean, expected = answers(X[train], y[train], X[test], 1000 * seed + fold)
    return np.sqrt(np.mean((mean - y[test]) ** 2)), rejection_auc(y[test], mean, expected)


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "yacht"
    seeds = sys.argv[2] if len(sys.argv) > 2 else "4"
    path = Path(os.environ.get("ALEATOR_DATA", ".")) / f"{name}.csv.gz"
    if not path.exists():
        sys.exit(f"set ALEATOR_DATA to the directory that holds {path.name}")
    table = pd.read_csv(path).to_numpy(np.float64)
    for label, answers in (("numpy", numpy_answers), ("aleator", our_answers)):
        for seed in range(int(seeds)):
            folds = (delayed(one_fold)(answers, table[:, :-1], table[:, -1], fold, seed) for fold in range(20))
            error, auc = np.mean(Parallel(n_jobs=2)(folds), axis=0)
            print(f"{name}, {label}, 2,000 iterations, seed {seed}: {error:.3f} / {auc:.3f}", flush=True)


if __name__ == "__main__":
    main()
