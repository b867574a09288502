"""Should clean regions count more, or less? A small lam and the beta-NLL give opposite advice; both are right somewhere.

Two data sets, four ways to weigh the samples. In the two strips what looks like noise is noise: whoever turns away from
it fits the rest better. The wave has next to no noise, but until a network has learned it, it looks like noise: whoever
turns away from it never learns it.

Usage: python examples/beta_nll.py [directory for the picture] [seeds to average over]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from aleator import PairRegressor, plots
from aleator.baselines import BetaNLLRegressor, MeanVarianceRegressor
from aleator.datasets import synthetic

SETTINGS = {"epochs": 1000, "l2": 0.0, "rescale": False}
MODELS = {
    "pair, lam = 0.05": PairRegressor(lam=0.05, **SETTINGS),
    "maximum likelihood": MeanVarianceRegressor(**SETTINGS),
    "beta-NLL, beta = 0.5": BetaNLLRegressor(**SETTINGS),
    "pair, lam = 2": PairRegressor(lam=2.0, **SETTINGS),
}
WAVES = 6


def strips(seed):
    """Samples, a grid, the true mean on it, and where it is clean."""
    data, x = synthetic.two_strips(2000, noisy=0.2, random_state=seed), np.linspace(0, 1, 1001)
    mean, std = synthetic.two_strips_truth(x)
    return data.X, data.y, x, mean, std == 0


def wave(seed):
    """A wave that grows, with noise of 0.01."""
    rng = np.random.default_rng(seed)
    x, grid = rng.uniform(0, WAVES, size=1000), np.linspace(0, WAVES, 1001)

    def mean(x):
        return x / WAVES * np.sin(2 * np.pi * x)

    return x[:, None], mean(x) + 0.01 * rng.normal(size=1000), grid, mean(grid), np.ones(1001, bool)


ROWS = {
    "two strips: the noise is noise": (strips, {}, "in the clean part"),
    "a wave: only looks like noise": (wave, {"hidden": (50, 50), "activation": "tanh"}, "everywhere"),
}


def main(out: Path, seeds: int) -> None:
    figure = Figure(figsize=(14, 6.6), layout="constrained")
    axes = figure.subplots(2, 4, sharey="row")
    for row, (title, (draw, network, where)) in zip(axes, ROWS.items(), strict=True):
        print(f"{title}: error of the mean {where}, {seeds} seeds")
        for ax, (name, model) in zip(row, MODELS.items(), strict=True):
            model.set_params(hidden=(50,), activation="relu").set_params(**network)
            errors = []
            for seed in range(seeds):
                X, y, x, mean, clean = draw(seed)
                said = model.set_params(random_state=seed).fit(X, y).predict_uncertainty(x[:, None])
                errors.append(float(np.sqrt(np.mean((said.prediction - mean)[clean] ** 2))))
                if seed == 0:
                    plots.band(x, said, X, y, ax=ax)
                    ax.plot(x, mean, color=plots.RED, lw=1, ls="--", label="true mean", zorder=4)
                    ax.get_legend().remove()
                    ax.set(xlabel="", ylabel="")
            print(f"  {name:22s} {np.mean(errors):.3f} ± {np.std(errors):.3f}")
            ax.set_title(f"{name}\nerror {where}: {np.mean(errors):.3f}", fontsize="medium")
        row[0].set_ylabel(title)
    axes[0, 0].set_ylim(-13, 11)
    axes[1, 0].set_ylim(-2, 2)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "beta_nll.png", dpi=110)
    print(f"wrote {out / 'beta_nll.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
