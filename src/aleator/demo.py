"""`aleator demo`: the main job on data that needs no download."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

from aleator import plots
from aleator.datasets import two_strips, two_strips_truth
from aleator.estimators import PairEnsemble, Prediction
from aleator.metrics import loss_calibration, rejection_auc, rejection_curve

# Two strips have sharp edges, so a deeper network and, as in the paper, a small lam; the table needs no settings.
STRIPS_MODEL = PairEnsemble(3, lam=0.05, hidden=(50, 50), l2=0.0, epochs=300)
DIABETES_MODEL = PairEnsemble()
FOLDS = 5


@dataclass(frozen=True)
class Learned:
    """What a model said about rows it had not seen."""

    name: str
    y: NDArray[np.float64]
    said: Prediction

    def summary(self) -> tuple[str, ...]:
        curve = rejection_curve(self.y, self.said.mean, self.said.expected_loss)
        auc = rejection_auc(self.y, self.said.mean, self.said.expected_loss)
        ratio = loss_calibration(self.y, self.said.mean, self.said.expected_loss).ratio
        fifth = curve[round(0.2 * len(curve))]
        return self.name, f"{len(self.y)}", f"{curve[0]:.3g}", f"{fifth:.3g}", f"{auc:.3g}", f"{ratio:.2f}"


def run(out: Path) -> None:
    """Fit, print a table, write figures and a CSV to `out`."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    steps: list[Callable[[Path], Learned]] = [_strips, _diabetes]
    console.print("aleator: pairs of a regressor and a network that predicts how wrong it will be.")
    console.print("The first run on a machine compiles for about 15 seconds.\n")
    learned = [step(out) for step in track(steps, description="fitting", console=console, transient=True)]
    table = Table(
        "rows not seen\nin training",
        "rows",
        "RMSE",
        "RMSE, 20 % least\ncertain refused",
        "AUC",
        "predicted /\nrealised loss",
    )
    for result in learned:
        table.add_row(*result.summary())
    console.print(table)
    console.print("AUC: area under the curve of the error against the share refused; less is better.")
    for name in ("two_strips.png", "diabetes.png", "diabetes_predictions.csv"):
        console.print(f"  {out / name}")


def _strips(out: Path) -> Learned:
    """The paper's data with two noisy strips that hold 80 % of the samples."""
    train, test = two_strips(3000, random_state=0), two_strips(3000, random_state=1)
    model = clone(STRIPS_MODEL).fit(train.X, train.y)
    grid = np.linspace(0, 1, 801)[:, None]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    ax = figure.subplots()
    plots.band(grid, model.predict_uncertainty(grid), train.X, train.y, ax=ax)
    clean = np.where(two_strips_truth(grid[:, 0])[1] == 0, two_strips_truth(grid[:, 0])[0], np.nan)
    ax.plot(grid, clean, color=plots.ORANGE, lw=1.5, ls=(0, (4, 2)), label="truth where there is no noise", zorder=4)
    ax.set(ylim=(-15, 11), title="80 % of the samples are noise, in two strips; the pair finds out where")
    ax.legend(frameon=False, loc="lower left")
    figure.savefig(out / "two_strips.png", dpi=150)
    return Learned("two strips", test.y, model.predict_uncertainty(test.X))


def _diabetes(out: Path) -> Learned:
    """scikit-learn's diabetes table, every row predicted by a model that did not see it."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    parts = []
    for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(X):
        model = clone(DIABETES_MODEL).fit(X.iloc[train], y.iloc[train])
        parts.append(model.predict_uncertainty(X.iloc[test]).to_frame(index=X.index[test]))
    table = pd.concat(parts).sort_index()
    y = y.to_numpy(np.float64)
    said = Prediction(*(table[name].to_numpy() for name in ("mean", "expected_loss", "aleatoric", "epistemic")))
    table.insert(0, "target", y)
    table.to_csv(out / "diabetes_predictions.csv", index_label="row", float_format="%.6g")

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    plots.rejection(y, said.mean, said.expected_loss, ax=left)
    left.set_title("does it know where it is wrong?", fontsize="medium")
    plots.calibration(y, said.mean, said.expected_loss, n_bins=6, ax=middle)
    plots.history(model, ax=right)
    right.set_title("training", fontsize="medium")
    figure.suptitle("diabetes: every row predicted by an ensemble that did not see it")
    figure.savefig(out / "diabetes.png", dpi=150)
    return Learned("diabetes", y, said)
