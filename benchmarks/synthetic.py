"""Section 7 over several seeds: how near the truth the pairs come, and what lam does where most samples are noise.

    make synthetic    # about five minutes on two cores; writes benchmarks/synthetic.txt

Settings are those of `aleator.paper.synthetic`; they were chosen on seeds 100 to 111, and these tables are seeds 0 to 9.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from joblib import effective_n_jobs
from rich.console import Console
from rich.progress import track
from rich.table import Table

from aleator import atomic_write
from aleator.engine import DivergenceError
from aleator.paper.synthetic import ENOUGH, EPOCHS, TRAINING, Setting, curves

HERE = Path(__file__).parent
KINDS = {
    "standard network": Setting(coupling=None),
    "sigmoid, lam 0.05": Setting(lam=0.05),
    "sigmoid, lam 2": Setting(lam=2.0),
    "softplus, lam 0.03": Setting(coupling="softplus", lam=0.03),
    "softplus, lam 1 (likelihood)": Setting(coupling="softplus", lam=1.0),
}


LOOKED_AT = sorted({*ENOUGH.values(), EPOCHS})


def errors_of(settings):
    """(settings, LOOKED_AT); infinite after a divergence, which is then seen in the median or in the largest."""

    def errors(setting):
        found = np.full(len(LOOKED_AT), np.inf)
        with suppress(DivergenceError):
            for place, curve in enumerate(curves(setting, LOOKED_AT)):
                found[place] = curve.error
        return found

    with ThreadPoolExecutor(effective_n_jobs(-1)) as pool:
        training = pool.map(errors, settings)
        return np.array(list(track(training, "training", total=len(settings), console=Console(stderr=True))))


def smooth(console):
    found = [next(curves(Setting(None, lam=0.1, seed=seed), [EPOCHS])).largest_deviations for seed in range(3)]
    table = Table("smooth data, lam 0.1", "largest deviation of the mean", "of the standard deviation")
    for seed, (mean, std) in enumerate(found):
        table.add_row(f"seed {seed}", f"{mean:.3f}", f"{std:.3f}")
    console.print(table)


def strips(console, noisy, seeds=range(10)):
    settings = [replace(kind, noisy=noisy, seed=seed) for kind in KINDS.values() for seed in seeds]
    errors = errors_of(settings).reshape(len(KINDS), len(seeds), len(LOOKED_AT))
    for place, epochs in enumerate(LOOKED_AT):
        title = f"{noisy:.0%} noise, {epochs:,} epochs" + (" *" if ENOUGH[noisy] == epochs else "")
        table = Table(title, "median", "over standard", "least", "quartiles", "most (inf: diverged)")
        standard = np.median(errors[0, :, place])
        for kind, each in zip(KINDS, errors[..., place], strict=True):
            low, middle, high = np.quantile(each, [0.25, 0.5, 0.75])
            spread = f"{each.min():.3f}", f"{low:.3f} to {high:.3f}", f"{each.max():.3f}"
            table.add_row(kind, f"{middle:.3f}", f"{middle / standard:.2f}", *spread)
        console.print(table)


def main():
    console = Console(width=110, record=True)
    rate = TRAINING["learning_rate"]
    console.print(f"2,000 samples (smooth: 5,000), Nesterov momentum 0.9, rate {rate:g}, batches of 5 (smooth: 20)")
    console.print(
        "error: root mean squared, against the true mean, in the clean regions; * marks what the figures show"
    )
    smooth(console)
    for noisy in (0.2, 0.8):
        strips(console, noisy)
    with atomic_write.whole(HERE / "synthetic.txt", "table") as beside:
        beside.write_text(console.export_text(), encoding="utf-8")


main()
