"""
A time series that drifts (LightGBM)
====================================

Rows in time order need folds in time order. And what was right in scale last year may
be too small this year: ``recalibrate`` corrects the expected loss with a few new rows,
and leaves the forecast as it is.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.model_selection import TimeSeriesSplit

from aleator import LossQuantifier, plots
from aleator.metrics import loss_calibration

rng = np.random.default_rng(0)
n = 4000
hour = pd.date_range("2023-01-01", periods=n, freq="h")
X = pd.DataFrame(
    {
        "hour": hour.hour,
        "weekday": hour.day_of_week,
        "temperature": 10 + 8 * np.sin(np.arange(n) / 900) + rng.normal(size=n),
    }
)
rough = np.where(np.arange(n) < 3200, 1.0, 1.8)  # after row 3200 everything varies more
y = (
    50
    + 10 * np.sin(2 * np.pi * X["hour"] / 24)
    + X["temperature"]
    + rough * (1 + 0.2 * X["hour"]) * rng.normal(size=n)
)

# %%
# Folds in time order
# -------------------
# Each fold is predicted by a model that has only seen earlier rows.
model = LossQuantifier(
    LGBMRegressor(n_estimators=80, verbose=-1, random_state=0),
    loss="absolute",
    cv=TimeSeriesSplit(8),
)
model.fit(X[:3000], y[:3000])


def ratio(rows):
    """Mean expected over mean realised loss."""
    result = model.predict_uncertainty(X[rows])
    return loss_calibration(
        y[rows], result.prediction, result.expected_loss, "absolute"
    ).ratio


print(f"before the change: {ratio(slice(3000, 3200)):.2f}")
print(f"after the change:  {ratio(slice(3500, 4000)):.2f}")

before = model.predict_loss(X[3000:])

# %%
# Recalibrate
# -----------
# Three hundred rows after the change correct the scale. The intervals follow.
model.recalibrate(X[3200:3500], y[3200:3500])
print(f"recalibrated:      {ratio(slice(3500, 4000)):.2f}")
lower, upper = model.predict_interval(X[3500:])
print(
    f"90 % intervals contain {np.mean((y[3500:] >= lower) & (y[3500:] <= upper)):.1%}"
)

# %%
# Mean error by day, expected and realised. At the dashed line the series becomes
# rougher.
days = np.arange(3000, 4000) // 24
realised = (
    pd.Series(np.abs(y[3000:] - model.predict(X[3000:])).to_numpy())
    .groupby(days)
    .mean()
)
after = pd.Series(model.predict_loss(X[3000:])).groupby(days).mean()
figure, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
ax.plot(realised, ".", color=plots.GREY, label="realised")
ax.plot(pd.Series(before).groupby(days).mean(), color=plots.ORANGE, label="expected")
ax.plot(after, color=plots.BLUE, label="expected, recalibrated")
ax.axvline(3200 / 24, color="0.4", ls="--", lw=1)
ax.set(xlabel="day", ylabel="mean absolute error", ylim=(0, None))
ax.legend(frameon=False)
