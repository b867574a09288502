"""Plots, the demo and the command."""

import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge

from aleator import LossQuantifier, PairEnsemble, PairRegressor, datasets, plots
from aleator.cli import commands

matplotlib.use("Agg")

DATA = datasets.smooth(300)
MODEL = PairEnsemble(n_members=2, epochs=10, rescale=False).fit(DATA.X, DATA.y)
SAID = MODEL.predict_uncertainty(DATA.X)


def cost(y, y_pred):
    return np.where(y > y_pred, 5 * (y - y_pred), y_pred - y)


DRAWINGS = {
    "band": lambda ax: plots.band(DATA.X, SAID, DATA.X, DATA.y, ax=ax),
    "rejection": lambda ax: plots.rejection(DATA.y, SAID.prediction, SAID.expected_loss, ax=ax),
    "rejection of a loss": lambda ax: plots.rejection(DATA.y, SAID.prediction, SAID.expected_loss, "huber", ax=ax),
    "calibration": lambda ax: plots.calibration(DATA.y, SAID.prediction, SAID.expected_loss, ax=ax),
    "automation": lambda ax: plots.automation(DATA.y, SAID.prediction, SAID.expected_loss, limit=0.5, ax=ax),
    "automation by a cost": lambda ax: plots.automation(DATA.y, SAID.prediction, SAID.expected_loss, cost, ax=ax),
    "history of quantifiers": lambda ax: plots.history(LossQuantifier(Ridge(), n_members=1).fit(DATA.X, DATA.y), ax=ax),
    "history": lambda ax: plots.history(MODEL, ax=ax),
    "history with held-out rows": lambda ax: plots.history(PairRegressor().fit(DATA.X, DATA.y).history_, ax=ax),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_draws_on_the_axes_given_and_returns_them(name):
    figure = Figure()
    ax = figure.subplots()
    assert DRAWINGS[name](ax) is ax
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert ax.get_legend()
    figure.canvas.draw()
    assert ax.get_lines()


def test_makes_axes_if_none_are_given():
    from matplotlib import pyplot as plt

    ax = plots.history(MODEL)
    assert ax.get_lines()
    plt.close(ax.figure)


def test_band_is_two_deviations_or_a_level_of_the_loss():
    figure = Figure()
    ends = plots.band(DATA.X, SAID, ax=figure.subplots()).collections[0].get_paths()[0].vertices
    assert ends[:, 1].max() == pytest.approx((SAID.prediction + 2 * SAID.std).max(), rel=1e-6)
    absolute = PairRegressor(loss="absolute", epochs=5, rescale=False).fit(DATA.X, DATA.y).predict_uncertainty(DATA.X)
    ends = plots.band(DATA.X, absolute, ax=figure.subplots()).collections[0].get_paths()[0].vertices
    assert ends[:, 1].max() == pytest.approx((absolute.prediction + 2 * absolute.expected_loss).max(), rel=1e-6)


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(ValueError, match="x has 20 values, the prediction is for 300 rows"):
        plots.band(np.linspace(0, 1, 20), SAID, ax=Figure().subplots())
    with pytest.raises(ValueError, match="band draws what predict_uncertainty returns, got a ndarray"):
        plots.band(DATA.X, SAID.prediction, ax=Figure().subplots())
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.calibration(DATA.y, DATA.y, np.zeros(300), ax=Figure().subplots())
    with pytest.raises(ValueError, match="not fitted"):
        plots.history(PairRegressor(), ax=Figure().subplots())


def test_synthetic_data_are_the_papers():
    smooth = datasets.smooth(200_000, random_state=1)
    middle = np.abs(smooth.X[:, 0] - 0.6) < 0.005
    assert smooth.y[middle].mean() == pytest.approx(3 * 0.6 + np.sin(1.2 * np.pi), abs=0.1)
    assert smooth.y[middle].std() == pytest.approx(1 + np.sin(2.4 * np.pi), rel=0.1)
    strips = datasets.two_strips(200_000, noisy=0.8, random_state=1)
    noisy = strips.std > 0
    assert noisy.mean() == pytest.approx(0.8, abs=0.01)
    assert sorted(set(strips.std)) == [0.0, 1.0, 5.0]
    for level in (1.0, 5.0):
        inside = strips.std == level
        assert strips.y[inside].mean() == pytest.approx(-2, abs=0.1)
        assert strips.y[inside].std() == pytest.approx(level, rel=0.02)
        assert np.ptp(strips.X[inside]) == pytest.approx(0.1, abs=1e-3)
    x = strips.X[~noisy, 0]
    np.testing.assert_allclose(strips.y[~noisy], 3 * x + np.sin(2 * np.pi * x))
    assert np.array_equal(datasets.two_strips(50).X, datasets.two_strips(50).X)
    with pytest.raises(ValueError, match="noisy must be a share"):
        datasets.two_strips(noisy=80)
    with pytest.raises(ValueError, match="n must be a positive whole number"):
        datasets.smooth(0)


def test_demo(tmp_path):
    out = tmp_path / "new" / "demo"
    result = CliRunner().invoke(commands, ["demo", "--out", str(out)])
    assert result.exit_code == 0, result.output
    for text in ("two strips", "diabetes", "houses", "RMSE", "MAE", "AUC"):
        assert text in result.output
    table = pd.read_csv(out / "diabetes_predictions.csv")
    assert list(table) == ["row", "target", "prediction", "expected_loss", "std", "aleatoric", "epistemic"]
    assert len(table) == 442
    ratio = table["expected_loss"].mean() / ((table["target"] - table["prediction"]) ** 2).mean()
    assert 0.8 < ratio < 1.25
    for name in ("two_strips.png", "diabetes.png", "houses.png"):
        assert (out / name).stat().st_size > 20_000


def test_the_share_accepted_is_the_one_with_the_expected_loss_asked_for():
    limit = float(np.mean([np.sort(SAID.expected_loss)[:n].mean() for n in (150, 151)]))
    ax = plots.automation(DATA.y, SAID.prediction, SAID.expected_loss, limit=limit, ax=Figure().subplots())
    share = ax.get_lines()[-1].get_xdata()[0] / 100
    accepted = np.sort(SAID.expected_loss)[: round(share * 300)]
    assert accepted.mean() <= limit < np.sort(SAID.expected_loss)[: round(share * 300) + 1].mean()
    assert ax.get_ylabel() == "their mean squared loss"
    assert (
        plots.automation(DATA.y, SAID.prediction, SAID.expected_loss, cost, ax=Figure().subplots()).get_ylabel()
        == "their mean cost"
    )


def test_houses_are_made_as_told():
    X, y = datasets.houses(20_000, random_state=1)
    assert X["size"].isna().any()
    assert (y > 0).all()
    per_metre = np.log(y / X["size"])
    plain = (X["district"] == "Garden City") & (X["year"] > 1950) & ~X["remarks"].str.contains("as seen")
    assert per_metre[plain].std() < 0.1
    assert per_metre[X["remarks"].str.contains("as seen")].std() > 0.4


def test_an_error_of_the_command_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "aleator", "demo", "--out", str(tmp_path / "file" / "x")], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("aleator: ")
    assert done.stderr.count("\n") == 1


def test_help_imports_nothing_heavy():
    script = (
        "import sys, aleator.cli; print([m for m in ('numba', 'sklearn', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    done = subprocess.run([sys.executable, "-m", "aleator", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in done.stdout
