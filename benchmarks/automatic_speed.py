"""What lam="auto" costs: a training of so many steps against one with a fixed lam, and a whole fit against both.

make automatic-speed    # a minute or two; ratios within one run
"""

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from aleator import PairEnsemble, PairRegressor

SHAPES = {"Boston": (481, 13), "Concrete": (979, 8), "Power": (9_090, 4)}
STEPS = {"batch_size": 32, "learning_rate": 1e-2, "l2": 1.0, "n_jobs": 1}


def seconds(model, X, y, times):
    """The least of several: what the machine does beside it only adds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        model.fit(X, y)
        taken.append(time.perf_counter() - start)
    return min(taken)


def main():
    print("seconds on one thread; ratio: lam='auto' over lam=0.2, the same epochs, batches and optimizer")
    for name, (n, d) in SHAPES.items():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d))
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
        epochs = 1_000_000 // n
        fixed, auto = (
            seconds(PairRegressor(lam=lam, epochs=epochs, rescale=False, **STEPS), X, y, 5) for lam in (0.2, "auto")
        )
        searched, whole = (seconds(PairEnsemble(lam=lam, n_jobs=1), X, y, 1) for lam in (0.2, "auto"))
        print(
            f"{name:9s} {n:6,} x {d:2}, {epochs} epochs: {fixed:.2f} and {auto:.2f}, ratio {auto / fixed:.2f}; "
            f"PairEnsemble() with all that it chooses {whole:.1f}, PairEnsemble(lam=0.2) {searched:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
