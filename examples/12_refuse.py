"""
How much does refusing help?
============================

A model that may refuse its least certain predictions makes a smaller error on the
others. The rejection curve shows how much smaller, and the area under it is a single
number to compare methods by (section 8 of the paper).
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold

from aleator import LossQuantifier, PairEnsemble, plots
from aleator.metrics import rejection_auc

X, y = load_diabetes(return_X_y=True)
models = {
    "forest with a quantifier": LossQuantifier(
        RandomForestRegressor(random_state=0), loss="absolute"
    ),
    "ensemble of pairs": PairEnsemble(loss="absolute"),
}

# %%
# Predictions of held-out rows
# ----------------------------
# Each row is predicted by a model that has not seen it.
answers = {name: np.empty((2, len(y))) for name in models}
for train, test in KFold(4, shuffle=True, random_state=0).split(X):
    for name, model in models.items():
        result = model.fit(X[train], y[train]).predict_uncertainty(X[test])
        answers[name][:, test] = result.prediction, result.expected_loss

# %%
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
for ax, (name, (prediction, expected)) in zip(axes, answers.items(), strict=True):
    plots.rejection(y, prediction, expected, "absolute", ax=ax)
    ax.set_title(
        f"{name}\nerror {np.abs(y - prediction).mean():.1f}, area {rejection_auc(y, prediction, expected, 'mae'):.1f}"
    )

# %%
# The curve falls from left to right: the more rows are refused, the smaller the error
# of the rest. "Oracle" refuses the rows with the largest realised errors, which
# nobody can know in advance.
