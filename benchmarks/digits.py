"""By how much was this digit turned? A convolutional pair that knows which digits it cannot tell.

scikit-learn's handwritten digits, turned by up to 60 degrees; the angle is to be predicted. Whoever wrote the angles down
was careless with some digits: the noise depends on the digit, which nobody tells the networks. The quantifier has to find
out from the images, and the regressor, freed of what is noisy, is better where it is clean.

Usage: python examples/torch_digits.py [--seeds 0 1 2 3 4] [--out directory for the picture]
"""

import argparse
import functools
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.ndimage import rotate
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import nn

from aleator.torch import JointLoss, Pair, fit_pair

NOISE = np.array([2, 55, 7, 28, 36, 11, 4, 45, 22, 16])  # degrees, for the digits 0 to 9
CLEAN = np.flatnonzero(NOISE <= 7)
EPOCHS, TURNS = 12, 20


def rotated(seed, turns=TURNS):
    """Images (n, 1, 8, 8), the angles as noted, the true ones, the digits; the last sixth are images of their own."""
    rng = np.random.default_rng(seed)
    images, digits = load_digits(return_X_y=True)
    images, digits = np.repeat(images.reshape(-1, 8, 8) / 16, turns, 0), np.repeat(digits, turns)
    angles = rng.uniform(-60, 60, len(digits))
    turned = [rotate(image, angle, reshape=False, order=1) for image, angle in zip(images, angles, strict=True)]
    noted = angles + NOISE[digits] * rng.normal(size=len(digits))
    return np.stack(turned).astype(np.float32)[:, None], noted.astype(np.float32), angles, digits


def convolutional(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0),
    )  # fmt: skip


class Alone(nn.Module):
    """No quantifier: xi stays where f(xi) = 1, so that the joint loss is the squared loss."""

    def forward(self, x):
        return torch.full((len(x),), float(np.log(np.e - 1)))


def compared(seed):
    """The same network with and without a quantifier: what they say of the images of the last sixth."""
    images, noted, angles, digits = rotated(seed)
    learn = np.arange(len(digits)) < len(digits) * 5 // 6
    steps = EPOCHS * -(-learn.sum() // 64)
    settings = {
        "epochs": EPOCHS, "batch_size": 64, "standardise": True, "seed": seed, "verbose": True,
        "optimizer": functools.partial(torch.optim.AdamW, lr=2e-3, weight_decay=0.05),
        "scheduler": functools.partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=steps), "scheduler_step": "batch",
    }  # fmt: skip
    pair = Pair(convolutional(seed), criterion=JointLoss("squared", lam=0.1))
    alone = Pair(convolutional(seed), Alone())
    said, plain = (
        fit_pair(each, (images[learn], noted[learn]), **settings).predict(images[~learn]) for each in (pair, alone)
    )
    return images[~learn], angles[~learn], digits[~learn], said, plain


def main(seeds, out):
    rows = []
    for seed in seeds:
        images, angles, digits, said, plain = compared(seed)
        clean = np.isin(digits, CLEAN)
        with_one, without = (np.sqrt(np.mean((each.prediction - angles)[clean] ** 2)) for each in (said, plain))
        by_digit = [np.sqrt(said.expected_loss[digits == digit].mean()) for digit in range(10)]
        ranks = spearmanr(said.expected_loss, NOISE[digits]).statistic, spearmanr(by_digit, NOISE).statistic
        rows.append((with_one, without, *ranks))
        print(f"seed {seed}: error on the clean digits {with_one:.2f} degrees, without a quantifier {without:.2f};")
        print(
            f"  rank correlation of expected loss and true noise {ranks[0]:.3f} over images, {ranks[1]:.3f} over digits"
        )
    if len(rows) > 1:
        print("medians: {:.2f}, {:.2f}; {:.3f}, {:.3f}".format(*np.median(rows, axis=0)))
    out.mkdir(parents=True, exist_ok=True)
    picture(images, digits, said, by_digit, rows[-1]).savefig(out / "torch_digits.png", dpi=150)


def picture(images, digits, said, by_digit, row):
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.1, 1])
    left.suptitle(
        "an image of each digit, and by how much\nthe quantifier expects its angle to be off",
        fontsize="medium",
    )
    for digit, ax in zip(np.argsort(NOISE), left.subplots(2, 5).flat, strict=True):
        of_it = np.flatnonzero(digits == digit)
        shown = of_it[np.argsort(said.expected_loss[of_it])[len(of_it) // 2]]
        ax.imshow(images[shown, 0], cmap="gray_r")
        ax.set_title(f"{digit}: ±{said.std[shown]:.0f}°", fontsize="medium")
        ax.axis("off")
    ax = right.subplots()
    ax.plot([0, 60], [0, 60], color="0.7", lw=1)
    ax.text(44, 46, "equal", color="0.5", rotation=38)
    for digit in range(10):
        ax.annotate(f"{digit}", (NOISE[digit], by_digit[digit]), ha="center", va="center", fontsize=14, color="C0")
    ax.set(
        xlabel="true noise of the angle (degrees), by digit",
        ylabel="expected error (degrees)",
        xlim=(0, 60),
        ylim=(0, 60),
    )
    ax.set_title(
        f"nobody told it which digits are noisy\n(clean ones: off by {row[0]:.1f}°, the same network alone {row[1]:.1f}°)",
        fontsize="medium",
    )
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=Path())
    args = parser.parse_args()
    main(args.seeds, args.out)
