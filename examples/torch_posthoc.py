"""A torch module that is trained and will not be touched: which of its answers can be trusted?

A convolutional network was trained to tell by how much a digit is turned (see torch_digits.py). It stays as it is; a
`Quantifier` learns from what it computes in a hidden layer, on images it was not trained on, how far off it will be.

Usage: python examples/torch_posthoc.py [directory for the picture]
"""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn
from torch_digits import convolutional, rotated

from aleator import plots
from aleator.metrics import coverage
from aleator.torch import Quantifier


def trained(images, angles):
    """Somebody's network, by somebody's loop."""
    net = nn.Sequential(convolutional(0), nn.Unflatten(0, (-1, 1)), Degrees(), nn.Flatten(0))
    steps = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(8):
        for rows in torch.randperm(len(angles)).split(64):
            steps.zero_grad()
            (net(images[rows]) - angles[rows]).abs().mean().backward()
            steps.step()
    return net.eval()


class Degrees(nn.Module):
    def forward(self, x):
        return 60 * x


def main(out):
    images, noted, _, _ = rotated(0, turns=12)
    images, noted = torch.from_numpy(images), torch.from_numpy(noted)
    third = len(noted) // 3
    torch.manual_seed(0)
    net = trained(images[:third], noted[:third])
    before = [values.clone() for values in net.state_dict().values()]

    quantifier = Quantifier(net, features="0.6", loss="absolute").fit(
        (images[third : 2 * third], noted[third : 2 * third])
    )
    new, truth = images[2 * third :], noted[2 * third :].numpy().astype(float)
    said = quantifier.predict(new)
    low, high = quantifier.predict_interval(new, coverage=0.9)

    assert all(torch.equal(a, b) for a, b in zip(before, net.state_dict().values(), strict=True))
    off_by = np.abs(said.prediction - truth)
    trusted = said.expected_loss <= np.median(said.expected_loss)
    print(
        f"{len(truth)} new images: off by {off_by.mean():.1f} degrees on average, expected {said.expected_loss.mean():.1f};"
    )
    print(
        f"the more trusted half {off_by[trusted].mean():.1f} (expected {said.expected_loss[trusted].mean():.1f}), ",
        end="",
    )
    print(f"the other {off_by[~trusted].mean():.1f} (expected {said.expected_loss[~trusted].mean():.1f})")
    print(f"90 % intervals hold {coverage(truth, low, high):.1%}; the network is as it was, to the bit")
    out.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.automation(truth, said.prediction, said.expected_loss, "absolute", ax=left)
    plots.calibration(truth, said.prediction, said.expected_loss, "absolute", ax=right)
    figure.suptitle("a trained network that was not touched, and how far to trust it (degrees)")
    figure.savefig(out / "torch_posthoc.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
