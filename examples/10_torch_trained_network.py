"""
A trained torch network
=======================

A convolutional network predicts by how many degrees a handwritten digit is turned. It
is trained and will not be touched. :class:`~aleator.torch.Quantifier` learns the error
of each prediction from what the network computes in a hidden layer.
"""

# %%
# A trained network
# -----------------
# Digits of scikit-learn, turned by up to 60 degrees. The angles of some digits were
# written down carelessly.
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from torch import nn

from aleator import plots
from aleator.metrics import coverage
from aleator.torch import Quantifier

NOISE = np.array(
    [2, 55, 7, 28, 36, 11, 4, 45, 22, 16]
)  # degrees, for the digits 0 to 9
rng = np.random.default_rng(0)
pictures, digits = load_digits(return_X_y=True)
pictures, digits = (
    np.repeat(pictures.reshape(-1, 8, 8) / 16, 9, 0),
    np.repeat(digits, 9),
)
angles = rng.uniform(-60, 60, len(digits))
turned = [
    rotate(picture, angle, reshape=False, order=1)
    for picture, angle in zip(pictures, angles, strict=True)
]
images = torch.tensor(np.stack(turned)[:, None], dtype=torch.float32)
noted = torch.tensor(
    angles + NOISE[digits] * rng.normal(size=len(digits)), dtype=torch.float32
)
train, held_out, test = torch.arange(len(noted)).chunk(3)

torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0),
)  # fmt: skip
optimizer = torch.optim.Adam(network.parameters(), 3e-3)
for _ in range(10):
    for rows in train[torch.randperm(len(train))].split(64):
        optimizer.zero_grad()
        (network(images[rows]) - noted[rows]).abs().mean().backward()
        optimizer.step()
network = network.eval()

# %%
# Quantify it
# -----------
# ``features="6"`` names the layer whose output the quantifier reads. The rows must be
# new to the network.
quantifier = Quantifier(network, features="6", loss="absolute").fit(
    (images[held_out], noted[held_out])
)
result = quantifier.predict(images[test])
truth = noted[test].numpy().astype(float)
error = np.abs(result.prediction - truth)
print(
    f"mean error {error.mean():.1f} degrees, expected {result.expected_loss.mean():.1f}"
)
lower, upper = quantifier.predict_interval(images[test], coverage=0.9)
print(f"90 % intervals contain {coverage(truth, lower, upper):.1%}")

# %%
# The quantifier was not told which digits are noisy.
expected = [result.expected_loss[digits[test] == digit].mean() for digit in range(10)]
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for digit in range(10):
    left.annotate(
        str(digit), (NOISE[digit], expected[digit]), fontsize=14, color=plots.BLUE
    )
left.set(
    xlabel="true noise of the angle (degrees), by digit",
    ylabel="expected error (degrees)",
    xlim=(0, 60),
    ylim=(0, 60),
)
plots.automation(truth, result.prediction, result.expected_loss, "absolute", ax=right)
