"""
Should clean regions count more, or less?
=========================================

A small ``lam`` and the beta-NLL (Seitzer et al., 2022) give opposite advice. A small
``lam`` turns away from regions that look noisy, the beta-NLL turns towards them. Both
are right, about different data.
"""

# %%
# Two data sets
# -------------
# In the two strips, what looks like noise is noise. The wave has almost no noise, but
# looks noisy until a network has learned it.
import matplotlib.pyplot as plt
import numpy as np

from aleator import PairRegressor, plots
from aleator.baselines import BetaNLLRegressor, MeanVarianceRegressor
from aleator.datasets import two_strips, two_strips_truth


def strips(seed):
    """Rows, a grid, the true mean on it, and where it is clean."""
    data, x = two_strips(2000, noisy=0.2, random_state=seed), np.linspace(0, 1, 1001)
    mean, std = two_strips_truth(x)
    return data.X, data.y, x, mean, std == 0


def wave(seed):
    """A growing wave with noise of 0.01."""
    rng = np.random.default_rng(seed)
    x, grid = rng.uniform(0, 6, size=1000), np.linspace(0, 6, 1001)

    def mean(x):
        return x / 6 * np.sin(2 * np.pi * x)

    return (
        x[:, None],
        mean(x) + 0.01 * rng.normal(size=1000),
        grid,
        mean(grid),
        np.ones(1001, bool),
    )


# %%
# Four ways to weight the rows
# ----------------------------
SETTINGS = {"epochs": 1000, "l2": 0.0, "rescale": False}
MODELS = {
    "pair, lam = 0.05": PairRegressor(lam=0.05, **SETTINGS),
    "maximum likelihood": MeanVarianceRegressor(**SETTINGS),
    "beta-NLL, beta = 0.5": BetaNLLRegressor(**SETTINGS),
    "pair, lam = 2": PairRegressor(lam=2.0, **SETTINGS),
}
DATA = {
    "two strips": (strips, {"hidden": (50,), "activation": "relu"}, (-13, 11)),
    "a wave": (wave, {"hidden": (50, 50), "activation": "tanh"}, (-2, 2)),
}
SEEDS = 2
figure, axes = plt.subplots(2, 4, figsize=(13, 6.4), sharey="row", layout="constrained")
for row, (title, (draw, network, limits)) in zip(axes, DATA.items(), strict=True):
    for ax, (name, model) in zip(row, MODELS.items(), strict=True):
        errors = []
        for seed in range(SEEDS):
            X, y, x, mean, clean = draw(seed)
            result = (
                model.set_params(random_state=seed, **network)
                .fit(X, y)
                .predict_uncertainty(x[:, None])
            )
            errors.append(np.sqrt(np.mean((result.prediction - mean)[clean] ** 2)))
        plots.band(x, result, X, y, ax=ax)
        ax.plot(x, mean, color=plots.RED, lw=1, ls="--", label="true mean")
        ax.get_legend().remove()
        ax.set(xlabel="", ylabel=title if ax is row[0] else "", ylim=limits)
        ax.set_title(
            f"{name}\nerror where clean: {np.mean(errors):.3f}", fontsize="medium"
        )

# %%
# Above, a small ``lam`` has the smallest error in the clean regions. Below, it never
# learns the wave, and neither does maximum likelihood. So ``lam`` is the same dial as
# beta and reaches further at both ends. The default, ``lam="auto"``, starts large and
# falls; it starts small only if held-out rows show that this helps.
