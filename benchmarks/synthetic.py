"""Section 7 over several seeds: how near the truth the pairs come, and what lam does where most samples are noise.

    make synthetic                 # about five minutes on two cores; writes benchmarks/synthetic.txt
    make synthetic ARGS=--sweep    # and draws docs/figures/error_by_lam.png: five seeds of every lam

Settings are those of `aleator.paper.synthetic`; they were chosen on seeds 100 to 111, and these tables are seeds 0 to 9.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from joblib import effective_n_jobs
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from aleator.engine import DivergenceError
from aleator.paper.figures import GREEN
from aleator.paper.synthetic import ENOUGH, EPOCHS, TRAINING, Setting, curves
from aleator.plots import BLUE, RED

HERE = Path(__file__).parent
KINDS = {
    "standard network": Setting(coupling=None),
    "sigmoid, lam 0.05": Setting(lam=0.05),
    "sigmoid, lam 2": Setting(lam=2.0),
    "softplus, lam 0.03": Setting(coupling="softplus", lam=0.03),
    "softplus, lam 1 (likelihood)": Setting(coupling="softplus", lam=1.0),
}
SWEEP = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


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


def sweep(seeds=range(5)):
    """The error in the clean regions against lam: medians, and the range from the second least to the second most."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    for ax, noisy in zip(figure.subplots(1, 2, sharey=True), (0.2, 0.8), strict=True):
        place = LOOKED_AT.index(ENOUGH[noisy])
        plain = errors_of([Setting(noisy, None, seed=seed) for seed in seeds])[:, place]
        ax.axhline(np.median(plain), color=RED, lw=1.8, label="standard network")
        for coupling, color in (("sigmoid", BLUE), ("softplus", GREEN)):
            settings = [Setting(noisy, coupling, lam, seed) for lam in SWEEP for seed in seeds]
            errors = np.sort(errors_of(settings)[:, place].reshape(len(SWEEP), -1), axis=1)
            errors[np.isinf(errors)] = np.nan
            ax.fill_between(SWEEP, errors[:, 1], errors[:, -2], color=color, alpha=0.15, lw=0)
            ax.plot(SWEEP, np.median(errors, axis=1), "o-", color=color, lw=1.8, ms=5, label=coupling)
        ax.set(xscale="log", yscale="log", xlabel="lam", title=f"{noisy:.0%} noise, {ENOUGH[noisy]:,} epochs")
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("error in the clean regions")
    figure.axes[1].legend(frameon=False)
    figure.savefig(HERE.parent / "docs" / "figures" / "error_by_lam.png", dpi=130)


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
    (HERE / "synthetic.txt").write_text(console.export_text())
    if "--sweep" in sys.argv[1:]:
        sweep()


main()
