"""
Several outputs
===============

A position has two coordinates. One quantifier can predict the expected loss of both
together, or one each. The loss may also be the distance, which is no sum over the
coordinates.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from aleator import LossQuantifier, plots

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(3000, 3))
noise = np.column_stack(
    [np.full(3000, 0.1), 0.05 + 0.5 * np.abs(X[:, 2])]
)  # the second coordinate is noisy for large x2
Y = np.column_stack([np.sin(3 * X[:, 0]), X[:, 0] * X[:, 1]]) + noise * rng.normal(
    size=(3000, 2)
)
X_train, X_test, Y_train, Y_test = X[:2000], X[2000:], Y[:2000], Y[2000:]
trees = ExtraTreesRegressor(100, min_samples_leaf=5, random_state=0)

# %%
# One expected loss for each output
# ---------------------------------
model = LossQuantifier(trees, loss="absolute", per_output=True).fit(X_train, Y_train)
result = model.predict_uncertainty(X_test)
print("expected", result.expected_loss.mean(axis=0).round(3))
print("realised", np.abs(Y_test - result.prediction).mean(axis=0).round(3))
result.to_frame().head(3).round(2)


# %%
# The distance between two points
# -------------------------------
# A plain function of rows of targets and predictions, one loss a row.
def distance(y, prediction):
    return np.linalg.norm(y - prediction, axis=1)


model = LossQuantifier(trees, loss=distance).fit(X_train, Y_train)
result = model.predict_uncertainty(X_test)
realised = distance(Y_test, result.prediction)
certain = result.expected_loss <= np.median(result.expected_loss)
print(
    f"all rows:          expected {result.expected_loss.mean():.3f}, realised {realised.mean():.3f}"
)
print(
    f"more certain half: expected {result.expected_loss[certain].mean():.3f}, realised {realised[certain].mean():.3f}"
)
print(
    f"the other half:    expected {result.expected_loss[~certain].mean():.3f}, realised {realised[~certain].mean():.3f}"
)

# %%
figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(X_test[:, 2], realised, ".", ms=3, color=plots.GREY, label="distance")
ax.plot(
    X_test[:, 2],
    result.expected_loss,
    ".",
    ms=3,
    color=plots.BLUE,
    label="expected distance",
)
ax.set(xlabel="third column", ylabel="distance")
ax.legend(frameon=False, markerscale=3)
