"""Two strips of noise: the error in the clean regions by lam="auto", and by one lam after the other.

    make strips    # some ten minutes on two cores; writes benchmarks/strips.txt

The networks of section 7; everything but lam is the default of `PairRegressor`. Seeds 0 to 9; the recipe was settled on 100 to 119.
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from aleator import PairRegressor, files
from aleator.paper.synthetic import GRID, NETWORK, Curve, Setting, said

LAMS = ("auto", 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0)
SEEDS = range(10)


def error(lam, noisy, seed):
    setting = Setting(noisy, seed=seed)
    data = setting.data()
    model = PairRegressor(lam=lam, n_jobs=1, random_state=seed, **NETWORK).fit(data.X, data.y)
    return Curve(setting, int(model.n_epochs_[0]), *said(model, GRID)).error


def main():
    console = Console(width=110, record=True)
    console.print("error in the clean regions: root mean squared, against the true mean; 2,000 samples, ten seeds")
    for noisy in (0.2, 0.8):
        jobs = [delayed(error)(lam, noisy, seed) for lam in LAMS for seed in SEEDS]
        errors = np.array(Parallel(n_jobs=2)(jobs)).reshape(len(LAMS), len(SEEDS))
        best = np.median(errors[1:], axis=1).min()
        table = Table(f"{noisy:.0%} noise, lam", "median", "over the best fixed lam", "least", "quartiles", "most")
        for lam, each in zip(LAMS, errors, strict=True):
            low, middle, high = np.quantile(each, [0.25, 0.5, 0.75])
            spread = f"{each.min():.4f}", f"{low:.4f} to {high:.4f}", f"{each.max():.4f}"
            table.add_row(str(lam), f"{middle:.4f}", f"{middle / best:.2f}", *spread)
        console.print(table)
    with files.whole(Path(__file__).with_suffix(".txt"), "table") as beside:
        beside.write_text(console.export_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
