"""The page to play with lambda: what is in it, and what a browser makes of it."""

import os
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from playwright.sync_api import sync_playwright

from aleator import theory
from aleator.cli import commands
from aleator.paper import playground
from aleator.paper.playground import COUPLINGS, LAMS, NUMBERS, POINTS, STAGES, STEP
from aleator.paper.synthetic import Setting

RUNS = playground.kept()
CURVES, TOLD = playground.restored(RUNS["differences"]) * STEP, RUNS["numbers"]
RUN = {setting: k for k, setting in enumerate(playground.settings())}
CHROMIUM = next(
    (path for name in (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome") if name
     and (path := shutil.which(name))),
    None,
)  # fmt: skip
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here, and `make test` could not install one")


# ---------------------------------------------------------------- what is in it


def test_runs_are_those_of_the_settings():
    assert len(RUN) == len(playground.settings()) == len(CURVES) == len(TOLD)
    assert CURVES.shape == (len(RUN), len(STAGES), 2, len(POINTS))
    assert TOLD.shape == (len(RUN), len(STAGES), len(NUMBERS))
    assert np.isfinite(TOLD[..., 1:]).all()
    diverged = np.isnan(TOLD[..., 0])
    assert {setting.coupling for setting, k in RUN.items() if diverged[k].any()} <= {"softplus"}
    assert (np.diff(diverged.astype(int), axis=1) >= 0).all()  # once and for all
    np.testing.assert_allclose(TOLD[..., 3:].sum(axis=2), 1, rtol=1e-5)  # weights of the regions are shares
    assert (CURVES[:, :, 1] >= 0).all()


def test_differences_come_back():
    curves = np.random.default_rng(0).integers(-(2**15), 2**15, size=(3, 4, 2, 7)).astype(np.int16)
    np.testing.assert_array_equal(playground.restored(playground.differences(curves)), curves)


@pytest.mark.parametrize(
    "setting", [Setting(0.8, "sigmoid", 0.05), Setting(None, "softplus", 1.0), Setting(0.2, None, 1.0)]
)
def test_a_run_is_what_the_library_gives(setting):
    """Stages up to 300 epochs again, with the estimators themselves. (On another machine rounding may grow to 1e-4.)"""
    data, k = setting.data(), RUN[setting]
    first = [stage for stage in STAGES if stage <= 310]
    for place, model in enumerate(setting.model().fit_staged(data.X, data.y, first)):
        said = playground.said(model, POINTS)
        np.testing.assert_allclose(CURVES[k, place, 0], said[0], atol=1e-3)
        if setting.coupling:
            np.testing.assert_allclose(CURVES[k, place, 1], said[1], atol=1e-3)
            mean, std = playground.said(model, data.X[:, 0])
            loss = (data.y - mean) ** 2 / data.y.var()
            weight = theory.regressor_speed(std**2 / data.y.var(), setting.lam, setting.coupling)
            region = np.searchsorted(setting.edges, data.X[:, 0], side="right")
            clean = ~setting.is_noisy[region]
            told = dict(zip(NUMBERS, TOLD[k, place], strict=True))
            assert told["L1"] == pytest.approx(loss[clean].mean(), abs=1e-3)
            assert told["L2"] == pytest.approx(loss[~clean].mean(), abs=1e-3)
            assert told["weight_2"] == pytest.approx(weight[region == 1].sum() / weight.sum(), abs=1e-3)


def test_the_page_needs_nothing_from_elsewhere():
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+\.\w+[^\s\"'<>]*", playground.page()))
    assert addresses <= {"http://www.w3.org/2000/svg"}, addresses


def test_the_command_writes_the_page(tmp_path):
    path = tmp_path / "page.html"
    result = CliRunner().invoke(commands, ["playground", "--no-open", "--out", str(path)])
    assert result.exit_code == 0, result.output
    assert result.output.split() == [str(path)]
    assert path.read_text() == playground.page()


# ---------------------------------------------------------------- what a browser makes of it


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as starter:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        started = starter.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return playground.write(tmp_path_factory.mktemp("page") / "playground.html")


class Visit:
    """The page in a tab, with all that it asked for and complained about."""

    def __init__(self, browser, path, anchor="", width=1200, scheme="light"):
        self.tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.requests, self.complaints = [], []
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.address = path.as_uri() + anchor
        self.tab.goto(self.address)
        self.tab.wait_for_selector("body[data-ready=yes]")

    def line(self, picture, kind):
        return self.tab.get_attribute(f"#{picture} .{kind}", "d")

    def number(self, name):
        return float(self.tab.get_attribute(f"#{name}", "data-value"))

    def epoch(self):
        return int(self.tab.inner_text("#epoch-value").replace(",", ""))

    def slide(self, slider, place):
        self.tab.evaluate(
            "([id, v]) => { const e = document.getElementById(id); e.value = v; e.dispatchEvent(new Event('input')); }",
            [slider, place],
        )


@pytest.fixture
def visit(browser, path):
    visits = []

    def go(**settings):
        visits.append(Visit(browser, path, **settings))
        return visits[-1]

    yield go
    for each in visits:
        assert each.complaints == []
        assert set(each.requests) == {each.address.split("#")[0]} or set(each.requests) == {each.address}
        each.tab.close()


@in_browser
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", ["strips-20", "strips-80", "smooth"])
def test_numbers_on_the_page_are_the_librarys(visit, name, coupling):
    page = visit(anchor=f"#{name},{coupling},0.5")
    noisy = None if name == "smooth" else int(name[-2:]) / 100
    pair, plain = RUN[Setting(noisy, coupling, 0.5)], RUN[Setting(noisy, None, 1.0)]
    for place in (0, len(STAGES) // 2, len(STAGES) - 1):
        page.slide("frame", place)
        told = dict(zip(NUMBERS, TOLD[pair, place].astype(float), strict=True))
        assert page.epoch() == STAGES[place]
        assert page.number("pair-error") == pytest.approx(told["error"], rel=1e-3)
        assert page.number("plain-error") == pytest.approx(TOLD[plain, place, 0], rel=1e-3)
        L1, L2 = told["L1"], told["L2"]
        assert page.number("L1") == pytest.approx(L1, rel=1e-3)
        assert page.number("R") == pytest.approx(theory.regressor_ratio(0.5, L1, L2, coupling), rel=1e-3)
        assert page.number("Q") == pytest.approx(theory.quantifier_ratio(0.5, L1, L2, coupling), rel=1e-3)
        for run, which, values in ((pair, 0, CURVES[pair, place, 0]), (pair, 1, CURVES[pair, place, 1]), (plain, 0, CURVES[plain, place, 0])):  # fmt: skip
            got = page.tab.evaluate("([run, which, frame]) => curve(run, which, frame)", [run, which, place])
            np.testing.assert_allclose(got, values, atol=1e-3)


@in_browser
def test_curves_are_drawn_where_they_belong(visit):
    page = visit(anchor="#strips-80,sigmoid,0.05")
    places = np.array(re.findall(r"[\d.]+", page.line("fit", "pair-line")), float).reshape(-1, 2)
    values = CURVES[RUN[Setting()], -1, 0]
    assert len(places) == len(POINTS)
    # linear in the value: fit the two ends of the scale, and look at all points
    slope, start = np.polyfit(values, places[:, 1], 1)
    assert slope < 0  # up is more
    np.testing.assert_allclose(places[:, 1], start + slope * values, atol=0.2)


@in_browser
def test_sliders_change_the_picture(visit):
    page = visit(anchor="#strips-80,sigmoid,0.05")
    assert page.tab.inner_text("#lam-value") == "0.05"
    before = page.line("fit", "pair-line"), page.line("spread", "std-line"), page.tab.inner_text("#story")
    plain = page.line("fit", "plain-line")
    page.slide("lam", LAMS.index(2.0))
    assert page.tab.inner_text("#lam-value") == "2"
    after = page.line("fit", "pair-line"), page.line("spread", "std-line"), page.tab.inner_text("#story")
    assert all(a != b for a, b in zip(before, after, strict=True))
    assert page.line("fit", "plain-line") == plain  # the standard network has no lam
    page.slide("share", 0)
    assert page.tab.inner_text("#share-value") == "10 %"
    assert page.line("fit", "plain-line") != plain
    page.tab.check("[name=coupling][value=softplus]")
    assert page.line("fit", "pair-line") != after[0]
    page.tab.check("[name=kind][value=smooth]")
    assert page.tab.is_hidden("#share")
    assert page.tab.url.endswith("#smooth,softplus,2")
    page.tab.uncheck("#standard")
    assert page.tab.query_selector("#fit .plain-line") is None


@in_browser
def test_play_trains_to_the_end_and_pauses(visit):
    page = visit()
    assert page.epoch() == STAGES[-1]
    page.tab.click("#play")
    page.tab.wait_for_function("state.frame > 2")
    assert 1 < page.epoch() < STAGES[-1]
    page.tab.click("#play")
    paused = page.epoch()
    page.tab.wait_for_timeout(300)
    assert page.epoch() == paused
    page.tab.click("#play")
    page.tab.wait_for_function("!state.playing", timeout=30_000)
    assert page.epoch() == STAGES[-1]


@in_browser
def test_presets_show_what_they_say(visit):
    page = visit()
    for button in page.tab.query_selector_all("[data-preset]"):
        name, coupling, lam = button.get_attribute("data-preset").split(" ")
        button.click()
        assert page.tab.url.endswith(f"#{name},{coupling},{lam}")
        assert page.tab.inner_text("#lam-value") == lam
        assert page.tab.evaluate("state.playing")


@in_browser
def test_all_of_it_by_keyboard(visit):
    page = visit()
    keys = page.tab.keyboard
    keys.press("Space")
    assert page.tab.evaluate("state.playing")
    keys.press("Space")
    assert not page.tab.evaluate("state.playing")
    reached = []
    for _ in range(30):
        keys.press("Tab")
        reached.append(page.tab.evaluate("document.activeElement.id || document.activeElement.name || ''"))
    assert {"kind", "share", "coupling", "lam", "play", "standard", "frame"} <= set(reached)
    page.tab.focus("#lam")
    lam = page.tab.inner_text("#lam-value")
    keys.press("ArrowRight")
    assert float(page.tab.inner_text("#lam-value")) > float(lam)


@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_no_sideways_scrolling_and_both_schemes(visit, width, scheme):
    page = visit(width=width, scheme=scheme)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
    paper, ink = page.tab.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    light = [sum(map(int, re.findall(r"\d+", color)[:3])) / 3 for color in (paper, ink)]
    assert (light[0] > 200 and light[1] < 60) if scheme == "light" else (light[0] < 60 and light[1] > 200)


@in_browser
def test_a_bad_address_shows_the_usual_setting(visit):
    page = visit(anchor="#nonsense,%00,-1")
    assert page.tab.inner_text("#lam-value") == "0.05"
