"""
An asymmetric cost
==================

A loaf of bread that is missing costs a bakery five times as much as a loaf that is left
over. Two forecasts exist: one of the mean demand, one of a high quantile.
:class:`~aleator.LossQuantifier` predicts what each forecast will cost on each day, in
euros, from a plain function.
"""

# %%
# The cost is any function of target and prediction.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from aleator import LossQuantifier, plots
from aleator.metrics import loss_calibration


def cost(demand, baked):
    """Euros: a missing loaf costs 5, a loaf that is left over 1."""
    return np.where(demand > baked, 5.0 * (demand - baked), 1.0 * (baked - demand))


# %%
# Demand is high and hard to predict on market days.
def bakery(n, seed=0):
    rng = np.random.default_rng(seed)
    day = pd.date_range("2019-01-01", periods=n)
    market = np.isin(day.day_of_week, [2, 5])
    warm = 10 - 12 * np.cos(2 * np.pi * day.day_of_year / 365) + rng.normal(size=n) * 3
    X = pd.DataFrame(
        {"day": day, "weekday": day.day_name(), "temperature": warm.round(1)}
    )
    mean = 300 + 120 * market - 3 * np.maximum(warm - 15, 0)
    return X, np.maximum(
        0, np.round(mean + rng.normal(size=n) * np.where(market, 70, 18))
    )


X, y = bakery(2000)
X_train, X_test, y_train, y_test = X[:1700], X[1700:], y[:1700], y[1700:]


def forecast(**settings):
    columns = make_column_transformer(
        (OrdinalEncoder(), ["weekday"]), ("passthrough", ["temperature"])
    )
    return make_pipeline(
        columns, HistGradientBoostingRegressor(max_iter=60, random_state=0, **settings)
    )


forecasts = {
    "mean": forecast(),
    "quantile 5/6": forecast(loss="quantile", quantile=5 / 6),
}

# %%
# What will each forecast cost?
# -----------------------------
# The days are in order, so the folds are those of a time series.
results = {}
for name, estimator in forecasts.items():
    model = LossQuantifier(estimator, loss=cost, cv=TimeSeriesSplit(8)).fit(
        X_train, y_train
    )
    results[name] = result = model.predict_uncertainty(X_test)
    realised = cost(y_test, result.prediction).mean()
    ratio = loss_calibration(
        y_test, result.prediction, result.expected_loss, cost
    ).ratio
    print(
        f"{name:13s} expected {result.expected_loss.mean():5.1f} euros a day, realised {realised:5.1f}, ratio {ratio:.2f}"
    )

# %%
# The quantile is the better plan, and the expected cost shows on which days it
# matters:
expected = pd.DataFrame(
    {name: result.expected_loss for name, result in results.items()}
)
expected.groupby(X_test["weekday"].to_numpy()).mean().round(1)

# %%
# Four weeks with 90 % intervals. Their ends have different levels, because an error
# upwards costs more.
result, few = results["quantile 5/6"], slice(0, 28)
lower, upper = model.predict_interval(X_test[few], coverage=0.9)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.2), width_ratios=(3, 2), layout="constrained"
)
left.vlines(
    X_test["day"][few],
    lower,
    upper,
    color=plots.BLUE,
    alpha=0.25,
    lw=7,
    label="90 % interval",
)
left.plot(
    X_test["day"][few],
    result.prediction[few],
    "_",
    color=plots.BLUE,
    ms=11,
    mew=2,
    label="baked",
)
left.plot(
    X_test["day"][few], y_test[few], "o", color=plots.ORANGE, ms=4, label="demand"
)
left.set(ylabel="loaves", ylim=(None, 1.15 * upper.max()))
left.tick_params(axis="x", rotation=30)
left.legend(frameon=False, ncols=3, loc="upper left")
plots.calibration(
    y_test, result.prediction, result.expected_loss, cost, n_bins=5, ax=right
)
