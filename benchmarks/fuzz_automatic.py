"""Random small tables through `PairRegressor()`: `make fuzz ARGS=1000`. Nothing may diverge, warn, or be other than finite.

Rows 20 to 2,000, columns 1 to 40; inputs and noise normal, uniform, with heavy tails, of whole numbers; constant columns, duplicated
rows, targets that are constant, linear, smooth, or noise alone, in any unit.
"""

import os
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from aleator import PairRegressor

Floats = NDArray[np.float64]


def table(seed: int) -> tuple[Floats, Floats, str]:
    rng = np.random.default_rng(seed)
    n, d = int(np.exp(rng.uniform(np.log(20), np.log(2000)))), int(rng.integers(1, 41))

    def drawn(kind: str, size: tuple[int, ...]) -> Floats:
        if kind == "uniform":
            return rng.uniform(-1, 1, size)
        if kind == "heavy":
            return rng.standard_t(rng.uniform(1.0, 3.0), size)
        if kind == "whole":
            return rng.poisson(1.0, size).astype(float)
        return rng.normal(size=size)

    kinds = [str(kind) for kind in rng.choice(["normal", "uniform", "heavy", "whole"], 2)]
    X = drawn(kinds[0], (n, d)) * 10.0 ** rng.uniform(-6, 6, d)
    if rng.random() < 0.3:
        X[:, rng.integers(d)] = rng.normal()
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    Z = (X - X.mean(axis=0)) / spread
    target = str(rng.choice(["linear", "smooth", "noise", "constant", "exact"]))
    y = {
        "linear": Z @ rng.normal(size=d),
        "exact": Z @ rng.normal(size=d),
        "smooth": np.sin(3 * Z[:, 0]) + Z[:, -1] ** 2,
        "noise": np.zeros(n),
        "constant": np.zeros(n),
    }[target]
    if target in ("linear", "smooth", "noise"):
        y = y + rng.uniform(0.1, 2) * drawn(kinds[1], (n,)) * (1 + np.abs(Z[:, 0]))
    if rng.random() < 0.3:
        rows = rng.integers(n, size=n)
        X, y = X[rows], y[rows]
    return X, 10.0 ** rng.uniform(-8, 8) * y + rng.normal(), f"{n} x {d}, inputs {kinds[0]}, {target}, noise {kinds[1]}"


def one(seed: int) -> str:
    X, y, told = table(seed)
    loss = ["squared", "absolute"][seed % 2]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            said = PairRegressor(loss=loss, n_jobs=1, random_state=seed).fit(X, y).predict_uncertainty(X)
        if not (
            np.isfinite(said.prediction).all()
            and np.isfinite(said.expected_loss).all()
            and (said.expected_loss >= 0).all()
        ):
            return f"{seed}: {told}, {loss}: not finite"
    except Exception as error:
        return f"{seed}: {told}, {loss}: {type(error).__name__}: {error}"
    return ""


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    errors = 0
    told = Parallel(n_jobs=-1, return_as="generator_unordered")(delayed(one)(seed) for seed in range(count))
    for done, text in enumerate(told, 1):
        errors += bool(text)
        if text or done % 50 == 0 or done == count:
            print(text or f"{done} of {count} tables, {errors} with an error", flush=True)


if __name__ == "__main__":
    main()
