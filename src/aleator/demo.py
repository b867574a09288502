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
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from aleator import plots, report, tabular
from aleator.datasets import houses, two_strips, two_strips_truth
from aleator.estimators import LossQuantifier, PairEnsemble, Prediction
from aleator.metrics import loss_calibration, rejection_auc, rejection_curve
from aleator.tabular.importance import strongest
from aleator.tabular.io import opened

# Two strips have sharp edges, so a deeper network and, as in the paper, a small lam; the table needs no settings.
STRIPS_MODEL = PairEnsemble(n_members=3, lam=0.05, hidden=(50, 50), l2=0.0, epochs=300, rescale=False)
DIABETES_MODEL = PairEnsemble()
FOLDS = 5
ERRORS = {"squared": "rmse", "absolute": "mae"}


@dataclass(frozen=True)
class Learned:
    """Predictions of a model for rows it had not seen."""

    name: str
    y: NDArray[np.float64]
    prediction: Prediction

    def summary(self) -> tuple[str, ...]:
        error = ERRORS[self.prediction.loss.name]
        curve = rejection_curve(self.y, self.prediction.prediction, self.prediction.expected_loss, error)
        auc = rejection_auc(self.y, self.prediction.prediction, self.prediction.expected_loss, error)
        ratio = loss_calibration(
            self.y, self.prediction.prediction, self.prediction.expected_loss, self.prediction.loss
        ).ratio
        fifth = curve[round(0.2 * len(curve))]
        whole = f"{error.upper()} {curve[0]:.3g}"
        return self.name, f"{len(self.y)}", whole, f"{fifth:.3g}", f"{auc:.3g}", f"{ratio:.2f}"


def run(out: Path) -> None:
    """Fit, print a table, write figures and a CSV to `out`."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    steps: list[Callable[[Path], Learned]] = [_strips, _diabetes, _houses]
    console.print("aleator: pairs of a regressor and a network that predicts how wrong it will be.")
    console.print("The first run on a machine compiles for about 15 seconds.\n")
    learned = [step(out) for step in track(steps, description="fitting", console=console, transient=True)]
    table = Table(
        "rows not seen\nin training",
        "rows",
        "error",
        "error, 20 % least\ncertain refused",
        "AUC",
        "predicted /\nrealised loss",
    )
    for result in learned:
        table.add_row(*result.summary())
    console.print(table)
    console.print(
        "Two strips, diabetes: pairs, trained together. Houses: a boosting that was already there, quantified."
    )
    console.print("AUC: area under the curve of the error against the share refused; less is better.")
    for name in ("two_strips.png", "diabetes.png", "diabetes_predictions.csv", "houses.png", "houses_to_look_at.csv"):
        console.print(f"  {out / name}")
    console.print(f"\nThe same without programming: aleator fit {out / 'houses.csv'} --target price --report ... made")
    for path in _command(out):
        console.print(f"  {path}")


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
    prediction = Prediction(
        *(table[name].to_numpy() for name in ("prediction", "expected_loss", "aleatoric", "epistemic"))
    )
    table.insert(0, "target", y)
    table.to_csv(out / "diabetes_predictions.csv", index_label="row", float_format="%.6g")

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    plots.rejection(y, prediction.prediction, prediction.expected_loss, ax=left)
    left.set_title("does it know where it is wrong?", fontsize="medium")
    plots.calibration(y, prediction.prediction, prediction.expected_loss, n_bins=6, ax=middle)
    plots.history(model, ax=right)
    right.set_title("training", fontsize="medium")
    figure.suptitle("diabetes: every row predicted by an ensemble that did not see it")
    figure.savefig(out / "diabetes.png", dpi=150)
    return Learned("diabetes", y, prediction)


def _command(out: Path) -> tuple[Path, Path]:
    """What `aleator fit` does with a table in a file: a model, and a page about it."""
    X, y = houses(3000)
    table = out / "houses.csv"
    X.assign(price=y).to_csv(table, index=False)
    fitted = tabular.fit(tabular.Request(opened(table), "price", model="ensemble"))
    model, page = out / "houses.aleator", out / "houses.html"
    fitted.model.save(model)
    assert fitted.judged is not None  # a fifth of the rows
    report.write(page, fitted.model, fitted.judged, fitted.warnings, strongest(fitted.model, fitted.judged.frame))
    return model, page


def _houses(out: Path) -> Learned:
    """Which houses should not be priced automatically: a boosting that is already there, and sees part of the table."""
    X, y = houses(3000)
    X, new, y, price = train_test_split(X, y, test_size=1000, random_state=0)
    columns = make_column_transformer(
        (OrdinalEncoder(), ["district", "kind"]), ("passthrough", ["size", "year"]), remainder="drop"
    )
    model = LossQuantifier(make_pipeline(columns, HistGradientBoostingRegressor()), loss="absolute").fit(X, y)
    prediction = model.predict_uncertainty(new)
    table = new.assign(
        price=price, predicted=prediction.prediction.round(1), expected_error=prediction.expected_loss.round(1)
    )
    worst = table.sort_values("expected_error", ascending=False)
    worst.to_csv(out / "houses_to_look_at.csv", index_label="house")

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    limit = float(np.mean(prediction.expected_loss)) / 2
    plots.automation(price, prediction.prediction, prediction.expected_loss, "absolute", limit=limit, ax=left)
    left.set_title(f"to be wrong by {limit:.0f} thousand on average", fontsize="medium")
    plots.calibration(price, prediction.prediction, prediction.expected_loss, "absolute", ax=right)
    figure.suptitle("houses: a boosting, and how far each of its prices can be trusted (1,000 sales it did not see)")
    figure.savefig(out / "houses.png", dpi=150)
    return Learned("houses", price.to_numpy(np.float64), prediction)
