"""
Noise that hides the signal
===========================

Two strips of this data set are mostly noise. A standard network spends its effort on
them and misses the clean rest. A pair of a regressor and a quantifier, trained
together, finds the strips, gives them a small weight, and fits the clean regions. This
is Figure 1 of Gurevich and Stuke.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from aleator import PairEnsemble, plots
from aleator.baselines import PlainRegressor
from aleator.datasets import two_strips, two_strips_truth

data = two_strips(2000, noisy=0.8, random_state=0)
x = np.linspace(0, 1, 1001)
mean, noise = two_strips_truth(x)
clean = noise == 0

# %%
# A network alone, and an ensemble of pairs with default settings
# ---------------------------------------------------------------
network = PlainRegressor(hidden=(50, 50), epochs=300, l2=0).fit(data.X, data.y)
pairs = PairEnsemble(hidden=(50, 50), random_state=0).fit(data.X, data.y)
result = pairs.predict_uncertainty(x[:, None])
for name, prediction in {
    "network": network.predict(x[:, None]),
    "pairs": result.prediction,
}.items():
    print(
        f"{name:8s} error in the clean regions {np.sqrt(np.mean((prediction - mean)[clean] ** 2)):.3f}"
    )

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.2), sharey=True, layout="constrained"
)
left.plot(data.X[:, 0], data.y, ".", color="0.75", ms=2)
left.plot(x, network.predict(x[:, None]), color=plots.RED)
left.set(title="a network alone", xlabel="x", ylabel="y")
plots.band(x, result, data.X, data.y, ax=right)
right.set(title="pairs: prediction ± expected error", xlabel="x")

# %%
# The band is wide in the strips, where the pairs expect large errors, and vanishes
# elsewhere. ``gave_up_`` says that the fit decided to give the strips up. It does so
# only where held-out rows prove that this helps.
print(pairs.gave_up_)
