"""Section 7 and the figures: what the experiments are, what is drawn, and that nothing old slips in."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from aleator import theory
from aleator.cli import commands
from aleator.paper import figure_files, figures, synthetic
from aleator.paper.synthetic import GRID, Curve, Setting


@pytest.mark.parametrize("noisy", [None, 0.2, 0.8])
def test_settings_know_their_data(noisy):
    setting = Setting(noisy)
    data = setting.data()
    mean, std = setting.truth(data.X[:, 0])
    np.testing.assert_array_equal(mean, data.mean)
    np.testing.assert_array_equal(std, data.std)
    region = np.searchsorted(setting.edges, data.X[:, 0], side="right")
    if noisy is None:
        np.testing.assert_array_equal(setting.is_noisy[region], std >= 1)
    else:
        np.testing.assert_array_equal(setting.is_noisy[region], std > 0)
        np.testing.assert_array_equal(region + 1, data.region)
    assert setting.model().get_params()["hidden"] == (10, 10)
    assert not hasattr(Setting(coupling=None).model(), "coupling")


def test_errors_of_curves():
    mean, std = Setting(0.8).truth(GRID)
    off = Curve(Setting(0.8), 1, mean + np.where(std > 0, 100.0, 0.5), std)
    assert off.error == pytest.approx(0.5)  # noisy regions do not count
    mean, std = Setting(None).truth(GRID)
    bent = Curve(Setting(None), 1, mean + np.where(GRID < 0.02, 9.0, 0.25), std - np.where(GRID > 0.98, 9.0, 0.125))
    assert bent.largest_deviations == pytest.approx((0.25, 0.125))  # ends do not count
    assert bent.error > 0.25


def test_smooth_data_are_learned():
    """Sec. 7.1 with lam = 0.1: mean and standard deviation along x. (`make synthetic` has three seeds.)"""
    curve = next(synthetic.curves(Setting(None, lam=0.1), [synthetic.EPOCHS]))
    mean, std = curve.largest_deviations
    assert mean < 0.25
    assert std < 0.35


def test_a_small_lam_keeps_noise_out_of_the_clean_regions():
    """Sec. 7.2, 20 % noise, the same training for all. (`make synthetic` has ten seeds, and 80 %.)"""
    epochs = [synthetic.ENOUGH[0.2]]
    small, large, standard = (
        next(synthetic.curves(setting, epochs)).error
        for setting in (Setting(0.2, lam=0.05), Setting(0.2, lam=2.0), Setting(0.2, coupling=None))
    )
    assert small < standard / 5
    assert small < large < standard


# ---------------------------------------------------------------- figures


@pytest.fixture
def known(monkeypatch):
    """In place of trained networks, the truth with a bend that tells the settings apart."""

    def learned(setting):
        mean, std = setting.truth(GRID)
        bend = 0.0 if setting.coupling is None else setting.lam
        return {epoch: Curve(setting, epoch, mean + bend + epoch / 1e6, std + bend) for epoch in figures.WANTED}

    monkeypatch.setattr(figures, "learned", learned)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_figures_are_drawn(known, name):
    figure = figures.FIGURES[name]()
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    panels = {
        "speeds": 4,
        "surfaces": 2,
        "smooth_fit": 2,
        "sharp_interfaces": 4,
        "learning_stages": 6,
        "softplus_sharp": 2,
    }
    assert len(figure.axes) == panels.get(name, 1)


def drawn(ax, label):
    (line,) = [line for line in ax.lines if str(line.get_label()).startswith(label)]
    return line.get_xdata(), line.get_ydata()


@pytest.mark.parametrize(("row", "coupling"), [(0, "sigmoid"), (1, "softplus")])
def test_speeds_are_those_of_the_theory(row, coupling):
    left, right = figures.speeds().axes[2 * row : 2 * row + 2]
    lam, y = drawn(left, "regressor")
    np.testing.assert_array_equal(y, theory.regressor_speed(1.0, lam, coupling))
    (level,) = {line.get_ydata()[0] for line in left.lines if len(line.get_ydata()) == 2}
    assert level == {"sigmoid": 1.0, "softplus": theory.LARGEST_SOFTPLUS_SPEED}[coupling]
    lam, y = drawn(left, "quantifier")
    np.testing.assert_array_equal(y, theory.quantifier_speed(1.0, lam, coupling))
    lam, y = drawn(right, "regressor")
    np.testing.assert_array_equal(y, theory.regressor_ratio(lam, figures.L1, figures.L2, coupling))
    lam, y = drawn(right, "quantifier")
    np.testing.assert_array_equal(y, theory.quantifier_ratio(lam, figures.L1, figures.L2, coupling))


def test_the_joint_loss_is_least_near_the_clean_minimum_only_for_small_lam():
    least = []
    for ax in figures.surfaces().axes[:2]:
        at = {name: drawn(ax, name) for name in ("clean", "noisy", "joint")}
        minimum = {name: x[np.argmin(y)] for name, (x, y) in at.items()}
        assert minimum["clean"] == pytest.approx(0, abs=0.01)
        assert minimum["noisy"] == pytest.approx(2, abs=0.01)
        least.append(minimum["joint"])
    assert abs(least[0]) < 0.05
    assert 0.5 < least[1] < 2


def test_stages_show_both_lams_at_every_stage(known):
    figure = figures.learning_stages()
    mean, std = Setting().truth(GRID)
    for row, epoch in enumerate(synthetic.STAGES.values()):
        left, right = figure.axes[2 * row : 2 * row + 2]
        for lam in (0.05, 2.0):
            np.testing.assert_allclose(drawn(left, f"lam = {lam:g}")[1], mean + lam + epoch / 1e6)
            np.testing.assert_allclose(drawn(right, f"lam = {lam:g}")[1], std + lam)
    ends = synthetic.EPOCHS
    left, right = figures.softplus_sharp().axes
    np.testing.assert_allclose(drawn(left, "lam = 0.03")[1], mean + 0.03 + ends / 1e6)
    np.testing.assert_allclose(drawn(right, "lam = 1")[1], std + 1)
    panels = figures.sharp_interfaces().axes
    for (left, right), epochs in zip((panels[:2], panels[2:]), synthetic.ENOUGH.values(), strict=True):
        np.testing.assert_allclose(drawn(left, "standard network")[1], mean + epochs / 1e6)
        np.testing.assert_allclose(drawn(left, "regressor of the pair")[1], mean + 0.05 + epochs / 1e6)
        np.testing.assert_allclose(drawn(right, "expected error")[1], std + 0.05)
        np.testing.assert_allclose(drawn(right, "noise alone")[1], std)
        np.testing.assert_allclose(drawn(right, "real error")[1], np.hypot(std, 0.05 + epochs / 1e6))
    left, right = figures.smooth_fit().axes
    mean, std = Setting(None).truth(GRID)
    np.testing.assert_allclose(drawn(left, "regressor")[1], mean + 0.1 + ends / 1e6)
    np.testing.assert_allclose(drawn(right, "quantifier")[1], std + 0.1)
    np.testing.assert_allclose(drawn(right, "truth")[1], std)


def test_the_film_moves(known):
    film = figures.learning_animation()
    film._draw_was_started = True  # otherwise matplotlib complains that it was never shown
    left, right = film._fig.axes
    mean, std = Setting().truth(GRID)
    for epoch in (figures.FRAMES[5], figures.FRAMES[-1]):
        film._func(epoch)
        for k, lam in enumerate((0.05, 2.0)):
            np.testing.assert_allclose(left.lines[1 + k].get_ydata(), mean + lam + epoch / 1e6)
            np.testing.assert_allclose(right.lines[1 + k].get_ydata(), std + lam)
            error = figures.learned(Setting(lam=lam))[epoch].error
            assert f"{error:.3f}" in left.get_legend().get_texts()[1 + k].get_text()
        assert f"{epoch:,}" in left.get_title()


def test_the_picture_of_the_table_is_the_table():
    cells = figures.contributions().axes[0].tables[0].get_celld()
    said = [[cells[row, column].get_text().get_text() for column in (-1, 0, 1, 2, 3)] for row in (1, 2)]
    assert said[0] == ["small lam", "clean > noisy", "clean = noisy", "clean > noisy", "clean = noisy"]
    assert said[1] == ["large lam", "clean = noisy", "clean < noisy", "clean > noisy", "clean ≪ noisy"]


# ---------------------------------------------------------------- the command


def invoke(*arguments):
    return CliRunner().invoke(commands, ["reproduce", "figures", *map(str, arguments)])


def test_every_figure_becomes_files_and_no_old_one_stays(known, monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "FRAMES", figures.FRAMES[::30])
    out = tmp_path / "new" / "figures"
    result = invoke("--out", out)
    assert result.exit_code == 0, result.output
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    expected = {f"{name}.{kind}" for name in figures.FIGURES for kind in ("png", "svg")}
    assert set(files) == expected | {"contributions.csv", "learning_animation.gif"}
    assert sorted(map(str, out.iterdir())) == sorted(result.output.split())
    assert files["speeds.png"].startswith(b"\x89PNG")
    assert b"<svg" in files["speeds.svg"][:2000]
    assert files["learning_animation.gif"].startswith(b"GIF8")
    assert files["contributions.csv"].decode().count("clean << noisy") == 1

    for path in out.iterdir():  # as if an older version had written them
        path.write_bytes(b"stale")
    again = invoke("contributions", "smooth_fit", "learning_animation", "--out", out)
    assert len(again.output.split()) == 6
    for path in map(Path, again.output.split()):
        assert path.read_bytes() == files[path.name]


def test_help_names_every_figure():
    said = CliRunner().invoke(commands, ["reproduce", "figures", "--help"]).output
    assert all(name in said for name in figure_files.FILES)


def test_only_those_named(tmp_path):
    result = invoke("speeds", "flowchart", "--out", tmp_path)
    assert result.exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "flowchart.png",
        "flowchart.svg",
        "speeds.png",
        "speeds.svg",
    ]


def test_an_unknown_figure_is_refused_before_anything_is_written(tmp_path):
    result = invoke("speeds", "flowchrat", "--out", tmp_path / "out")
    assert isinstance(result.exception, ValueError)
    assert "there is no figure 'flowchrat': did you mean 'flowchart'?" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_figure_that_fails_leaves_no_half_of_a_file(monkeypatch, tmp_path):
    def broken(path):
        path.write_bytes(b"half")
        raise RuntimeError("disk")

    monkeypatch.setitem(figure_files.FILES, "speeds", {"speeds.png": broken})
    assert isinstance(invoke("speeds", "--out", tmp_path).exception, RuntimeError)
    assert list(tmp_path.iterdir()) == []


def test_networks_are_those_the_figures_ask_for(monkeypatch, tmp_path):
    """What `reproduce` trains beforehand is all that drawing needs."""
    monkeypatch.setattr(figures, "FRAMES", figures.FRAMES[::40])
    for name, settings in figures.NETWORKS.items():
        asked = []

        def learned(setting, asked=asked):
            asked.append(setting)
            mean, std = setting.truth(GRID)
            return {epoch: Curve(setting, epoch, mean, std) for epoch in figures.WANTED}

        monkeypatch.setattr(figures, "learned", learned)
        if name == "learning_animation":
            figure_files.FILES[name]["learning_animation.gif"](tmp_path / "film.gif")
        else:
            figures.FIGURES[name]()
        assert set(asked) == set(settings)
