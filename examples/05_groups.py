"""
Rows that belong together
=========================

Patients are measured several times. If rows of one patient are on both sides of a
split, the model has already seen the patient, and the expected loss is too small for
*new* patients. Pass ``groups`` to ``fit``.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from aleator import LossQuantifier, plots

rng = np.random.default_rng(0)
n_patients, visits = 150, 8
patient = np.repeat(np.arange(n_patients), visits)
base = rng.normal(size=(n_patients, 4))
X = pd.DataFrame(
    base[patient] + 0.02 * rng.normal(size=(len(patient), 4)),
    columns=["age", "weight", "dose", "pressure"],
)
y = (
    X["age"]
    + 0.5 * X["dose"]
    + rng.normal(size=n_patients)[patient]
    + 0.2 * rng.normal(size=len(patient))
)

# %%
# New patients, not new visits
# ----------------------------
known = patient < 100
forest = RandomForestRegressor(100, random_state=0)
rows = {}
for name, groups in {
    "rows held out one by one": None,
    "patients held out together": patient[known],
}.items():
    model = LossQuantifier(forest, loss="absolute").fit(
        X[known], y[known], groups=groups
    )
    result = model.predict_uncertainty(X[~known])
    rows[name] = {
        "expected": result.expected_loss.mean(),
        "realised": np.abs(y[~known] - result.prediction).mean(),
    }
table = pd.DataFrame(rows).T
table.round(2)

# %%
figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
table.plot.barh(ax=ax, color=[plots.ORANGE, plots.BLUE])
ax.set(xlabel="mean absolute error on new patients")

# %%
# Without groups the expected error is that of another visit of a known patient. With
# groups it is that of a new one.
