"""
Which houses should we not price automatically?
===============================================

A gradient boosting model prices houses. It stays as it is.
:class:`~aleator.LossQuantifier` adds the expected error of each price, in thousands.
Because the expected errors are right in scale, we can choose how many houses to price
automatically *before* we know the true prices.
"""

# %%
# A table and a model
# -------------------
# The table has text, categories, dates and missing cells. The model uses only four of
# the columns.
import matplotlib.pyplot as plt
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from aleator import LossQuantifier, plots
from aleator.datasets import houses
from aleator.metrics import coverage

X, y = houses(3000)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=1000, random_state=0
)
columns = make_column_transformer(
    (OrdinalEncoder(), ["district", "kind"]), ("passthrough", ["size", "year"])
)
pricing = make_pipeline(columns, HistGradientBoostingRegressor(random_state=0))
X.head()

# %%
# Quantify it
# -----------
# ``LossQuantifier`` cross-fits the model and learns its out-of-fold errors from the
# whole table, including the date and the remarks, which the model itself never sees.
model = LossQuantifier(pricing, loss="absolute").fit(X_train, y_train)
result = model.predict_uncertainty(X_test)
table = (
    result.to_frame()[["prediction", "expected_loss"]]
    .join(X_test)
    .sort_values("expected_loss")
)
table.drop(columns="sold").tail(5).round(0)

# %%
# These are the five least certain prices: large old houses, and remarks such as "sold
# as seen".
#
# How many can we automate?
# -------------------------
# Suppose that automatic prices may be off by 50 thousand on average. We accept the
# most certain houses until their mean *expected* error reaches 50, and compare with
# what was realised.
LIMIT = 50.0
automatic = table["expected_loss"].expanding().mean() <= LIMIT
error = (y_test - result.prediction).abs()
print(f"{automatic.mean():.0%} of the houses are priced automatically")
for name, chosen in {"automatic": automatic, "the others": ~automatic}.items():
    expected, realised = (
        table["expected_loss"][chosen].mean(),
        error[table.index[chosen]].mean(),
    )
    print(f"{name:10s} expected error {expected:.1f}, realised {realised:.1f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
plots.automation(
    y_test, result.prediction, result.expected_loss, "absolute", limit=LIMIT, ax=left
)
left.set_title("mean error of the houses priced automatically")
plots.calibration(y_test, result.prediction, result.expected_loss, "absolute", ax=right)

# %%
# On the left, expected and realised error agree for every share of the houses. On the
# right, each dot is a group of houses with about the same expected error.
#
# Intervals
# ---------
lower, upper = model.predict_interval(X_test, coverage=0.9)
print(f"90 % intervals contain {coverage(y_test, lower, upper):.1%} of the prices")
