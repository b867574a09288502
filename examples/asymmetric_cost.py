"""An asymmetric cost: bread that is missing costs five times bread that is left over.

Two forecasts of a bakery's demand are there: of the mean, and of a high quantile. `LossQuantifier` tells what each of them
will cost on each day, in money, from the plain function that says what a wrong forecast costs. So the two can be compared
day by day before the day has come, and the dear days are known.

Usage: python examples/asymmetric_cost.py [directory for the picture]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import TimeSeriesSplit

from aleator import LossQuantifier, plots
from aleator.metrics import loss_calibration


def cost(demand, baked):
    """In euros: a loaf too few loses a customer's purchase, a loaf too many is given away."""
    return np.where(demand > baked, 5.0 * (demand - baked), 1.0 * (baked - demand))


def bakery(n=2000, seed=0):
    """Days with their weather; on market days demand is high, and hard to tell."""
    rng = np.random.default_rng(seed)
    day = pd.date_range("2019-01-01", periods=n)
    market = np.isin(day.day_of_week, [2, 5])
    warm = 10 - 12 * np.cos(2 * np.pi * day.day_of_year / 365) + rng.normal(size=n) * 3
    X = pd.DataFrame({"day": day, "weekday": day.day_name(), "temperature": warm.round(1)})
    mean = 300 + 120 * market - 3 * np.maximum(warm - 15, 0)
    return X, np.maximum(0, np.round(mean + rng.normal(size=n) * np.where(market, 70, 18)))


class Weekdays(HistGradientBoostingRegressor):
    """A boosting on the weekday's number and the temperature."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(self._seen(X), y, sample_weight)

    def predict(self, X):
        return super().predict(self._seen(X))

    def _seen(self, X):
        return np.column_stack([X["day"].dt.day_of_week, X["temperature"]])


def main(out: Path) -> None:
    X, y = bakery()
    X, new, y, demand = X[:1700], X[1700:], y[:1700], y[1700:]
    forecasts = {
        "the mean": Weekdays(max_iter=60),
        "five in six": Weekdays(max_iter=60, loss="quantile", quantile=5 / 6),
    }
    said = {}
    for name, forecast in forecasts.items():
        model = LossQuantifier(forecast, loss=cost, cv=TimeSeriesSplit(8)).fit(X, y)
        said[name] = model.predict_uncertainty(new)
        ratio = loss_calibration(demand, said[name].prediction, said[name].expected_loss, cost).ratio
        print(f"baking {name:12s} expected cost {said[name].expected_loss.mean():6.1f} euros a day, "
              f"realised {cost(demand, said[name].prediction).mean():6.1f} (ratio {ratio:.2f})")  # fmt: skip
    by_day = pd.DataFrame({name: told.expected_loss for name, told in said.items()}).groupby(new["weekday"].to_numpy())
    print("\nexpected cost by day of the week:")
    print(by_day.mean().round(1).to_string())

    out.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    few = slice(0, 28)
    told = said["five in six"]
    lower, upper = model.predict_interval(new[few], coverage=0.9)
    left.vlines(new["day"][few], lower, upper, color=plots.BLUE, alpha=0.25, lw=7, label="nine days in ten")
    left.plot(new["day"][few], told.prediction[few], "_", color=plots.BLUE, ms=11, mew=2, label="baked")
    left.plot(new["day"][few], demand[few], "o", color=plots.ORANGE, ms=4, label="demanded")
    left.set(ylabel="loaves", title="equally dear ends: short where bread would be missing")
    left.tick_params(axis="x", rotation=30)
    left.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, ncols=3, loc="upper left")
    left.set_ylim(top=1.15 * upper.max())
    plots.calibration(demand, told.prediction, told.expected_loss, cost, n_bins=5, ax=right)
    figure.savefig(out / "asymmetric_cost.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo"))
