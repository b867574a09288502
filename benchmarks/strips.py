"""Two strips of noise: the error in the clean regions by lam="auto", and by one lam after the other, trained in three ways.

    make strips    # some 20 minutes on two cores; writes benchmarks/strips.txt

The networks of section 7. "default": all but lam is the default of `PairRegressor`. "paper": 3,000 epochs in batches of five, as
benchmarks/synthetic.py has it. "recipe": Adam, rate 0.01 falling to 0, 800 epochs, no penalty. Seeds 0 to 9; the recipe was settled on 100 to 119.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from aleator import PairRegressor, atomic_write
from aleator.paper.synthetic import GRID, NETWORK, Curve, Setting, predicted
from aleator.training import defaults

LAMS = (0.001, 0.002, 0.005, 0.02, 0.05, 0.2, 1.0)
WAYS = ("default", "paper", "recipe")
FIRST, COUNT = 0, 10


def falling(epoch):
    return defaults.RATE * 0.5 * (1 + np.cos(np.pi * (epoch + 0.5) / defaults.MAX_EPOCHS))


def model(way, lam, setting):
    own = {"n_jobs": 1, "random_state": setting.seed, **NETWORK}
    if lam == "auto" or way == "default":
        return PairRegressor(lam=lam, **own)
    if way == "paper":
        return replace(setting, lam=lam).model()
    return PairRegressor(
        lam=lam,
        l2=0.0,
        epochs=defaults.MAX_EPOCHS,
        rescale=False,
        batch_size=defaults.MIN_BATCH,
        learning_rate=falling,
        **own,
    )


def error(way, lam, noisy, seed):
    """Of one fit; infinite if it diverged."""
    setting = Setting(noisy, seed=seed)
    data = setting.data()
    try:
        fitted = model(way, lam, setting).fit(data.X, data.y)
    except ArithmeticError:
        return np.inf
    return Curve(setting, int(fitted.n_epochs_[0]), *predicted(fitted, GRID)).error


def main():
    first = int(sys.argv[1]) if len(sys.argv) > 1 else FIRST
    seeds = range(first, first + COUNT)
    console = Console(width=110, record=True)
    console.print("error in the clean regions: root mean squared, against the true mean; 2,000 samples, ten seeds")
    ways = [("", "auto"), *((way, lam) for way in WAYS for lam in LAMS)]
    for noisy in (0.2, 0.8):
        jobs = [delayed(error)(way, lam, noisy, seed) for way, lam in ways for seed in seeds]
        errors = np.array(Parallel(n_jobs=2)(jobs)).reshape(len(ways), len(seeds))
        ours = np.median(errors[0])
        table = Table(f"{noisy:.0%} noise, lam", "trained by", "median", "auto over it", "least", "quartiles", "most")
        for (way, lam), each in zip(ways, errors, strict=True):
            low, middle, high = np.quantile(each, [0.25, 0.5, 0.75], method="nearest")
            middle = np.median(each)
            spread = f"{each.min():.4f}", f"{low:.4f} to {high:.4f}", f"{each.max():.4f}"
            table.add_row(str(lam), way, f"{middle:.4f}", f"{ours / middle:.2f}", *spread)
        console.print(table)
    if first == FIRST:
        with atomic_write.whole(Path(__file__).with_suffix(".txt"), "table") as beside:
            beside.write_text(console.export_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
