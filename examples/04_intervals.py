"""
Intervals for skewed errors
===========================

Errors of waiting times, prices or claims are often skewed: most targets lie a little
below the prediction, a few far above. ``predict_interval`` gives each end a level of
its own. After ``conformalize`` the coverage is guaranteed.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from aleator import LossQuantifier, plots
from aleator.metrics import coverage, interval_width

rng = np.random.default_rng(0)
X = rng.uniform(size=(6000, 3))
y = 10 * X[:, 0] + (1 + 5 * X[:, 1]) * rng.exponential(size=6000)
train, calibration, test = slice(0, 3000), slice(3000, 4000), slice(4000, 6000)

# %%
# Without calibration rows
# ------------------------
# The rows that ``fit`` holds out in turn set the levels. No row is lost, and the
# coverage is close to 90 % in practice.
model = LossQuantifier(
    HistGradientBoostingRegressor(random_state=0), loss="absolute"
).fit(X[train], y[train])


def report(name, lower, upper):
    below, above = np.mean(y[test] < lower), np.mean(y[test] > upper)
    print(
        f"{name:22s} covered {coverage(y[test], lower, upper):.1%}, below {below:.1%}, above {above:.1%}, "
        f"mean width {interval_width(lower, upper):.1f}"
    )


report("held-out rows of fit", *model.predict_interval(X[test]))
report("symmetric", *model.predict_interval(X[test], symmetric=True))

# %%
# With a guarantee
# ----------------
# ``conformalize`` takes rows that were used neither in ``fit`` nor in
# ``recalibrate``.
model.conformalize(X[calibration], y[calibration])
lower, upper = model.predict_interval(X[test])
report("conformalized", lower, upper)

# %%
# The width follows the noise, and the interval reaches further up than down.
order = np.argsort(X[test, 1])
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
prediction = model.predict(X[test])
ax.plot(X[test, 1], y[test] - prediction, ".", ms=2, color=plots.GREY, label="error")
ax.plot(
    X[test, 1][order],
    (upper - prediction)[order],
    ".",
    ms=2,
    color=plots.BLUE,
    label="upper end",
)
ax.plot(
    X[test, 1][order],
    (lower - prediction)[order],
    ".",
    ms=2,
    color=plots.ORANGE,
    label="lower end",
)
ax.set(xlabel="second column", ylabel="distance from the prediction")
ax.legend(frameon=False, markerscale=4)
