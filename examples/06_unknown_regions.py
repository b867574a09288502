"""
Aleatoric, epistemic, and what neither shows
============================================

The expected loss of an ensemble has two parts. The *aleatoric* part is what the members
agree on: mostly noise in the data. The *epistemic* part comes from their disagreement.
This example shows what the second part finds, and what it does not.
"""

# %%
# Rows in two intervals
# ---------------------
# The left rows are quiet, the right ones noisy. There are no rows in the middle and
# none beyond -3 and 3.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from aleator import PairEnsemble, plots

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-3, -1, 150), rng.uniform(1, 3, 150)])
y = np.sin(4 * x) + np.where(x > 0, 0.4, 0.05) * rng.normal(size=len(x))
model = PairEnsemble(n_members=10, hidden=(50, 50), random_state=0).fit(x[:, None], y)

# %%
grid = np.linspace(-4, 4, 801)
result = model.predict_uncertainty(grid[:, None])
figure, (above, below) = plt.subplots(
    2, 1, figsize=(8, 6), sharex=True, layout="constrained"
)
plots.band(grid, result, x[:, None], y, ax=above)
above.plot(grid, np.sin(4 * grid), color=plots.RED, lw=1, ls="--", label="true mean")
above.set(xlabel="", ylim=(-3, 3))
parts = {"aleatoric": result.aleatoric, "epistemic": result.epistemic}
below.stackplot(
    grid,
    *parts.values(),
    labels=list(parts),
    colors=[plots.ORANGE, plots.BLUE],
    alpha=0.7,
)
below.set(xlabel="x", ylabel="expected squared loss")
below.legend(frameon=False, loc="upper left")

# %%
# Expected and true loss by region
# --------------------------------
# The true loss is the squared distance to the true mean, plus the variance of the
# noise on the right.
true = (np.sin(4 * grid) - result.prediction) ** 2 + np.where(grid > 0, 0.4, 0.05) ** 2
regions = {
    "left of all rows": (-4, -3),
    "quiet rows": (-3, -1),
    "gap": (-1, 1),
    "noisy rows": (1, 3),
    "right of all rows": (3, 4),
}
rows = {}
for name, (low, high) in regions.items():
    inside = (grid > low) & (grid < high)
    rows[name] = {key: value[inside].mean() for key, value in parts.items()} | {
        "true loss": true[inside].mean()
    }
pd.DataFrame(rows).T.round(3)

# %%
# Among the rows, expected and true loss agree in order of magnitude, quiet and noisy
# alike. Outside of all rows the epistemic part rises, but not enough: the true loss is
# several times the expected one. In the gap the members agree on a straight line and
# are wrong together. No method can learn the loss where there are no rows. ``aleator
# predict`` reports numbers outside the training range, but not in gaps within it.
