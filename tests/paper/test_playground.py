"""The page to play with lambda: what is in it, and what a browser makes of it."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from playwright.sync_api import sync_playwright

from aleator import theory
from aleator.cli import commands
from aleator.paper import playground
from aleator.paper.playground import COUPLINGS, LAMS, NUMBERS, POINTS, STAGES, STEP
from aleator.paper.synthetic import Setting


def restored(differences):
    """The curves again, as the page does it."""
    for axis in (3, 3, 1):
        differences = np.cumsum(differences, axis, dtype=np.int16)
    return differences


RUNS = playground.kept()
CURVES, TOLD = restored(RUNS["differences"]) * STEP, RUNS["numbers"]
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
    np.testing.assert_array_equal(restored(playground.differences(curves)), curves)


@pytest.mark.parametrize(
    "setting", [Setting(0.8, "sigmoid", 0.05), Setting(None, "softplus", 1.0), Setting(0.2, None, 1.0)]
)
def test_a_run_is_what_the_library_gives(setting):
    """Stages up to 300 epochs again, with the estimators themselves. (On another machine rounding may grow to 1e-4.)"""
    data, k = setting.data(), RUN[setting]
    first = [stage for stage in STAGES if stage <= 310]
    for place, model in enumerate(setting.model().fit_staged(data.X, data.y, first)):
        said = playground.predicted(model, POINTS)
        np.testing.assert_allclose(CURVES[k, place, 0], said[0], atol=1e-3)
        if setting.coupling:
            np.testing.assert_allclose(CURVES[k, place, 1], said[1], atol=1e-3)
            mean, std = playground.predicted(model, data.X[:, 0])
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
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
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
        assert page.number("L2") == pytest.approx(L2, rel=1e-3)
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


def places(page, picture, kind):
    """Where the points of a line are drawn, (n, 2)."""
    return np.array(re.findall(r"-?[\d.]+", page.line(picture, kind)), float).reshape(-1, 2)


@in_browser
def test_errors_and_bands_are_drawn_where_they_belong(visit):
    page, setting = visit(anchor="#strips-80,sigmoid,0.05"), Setting()
    mean, std = CURVES[RUN[setting], -1]
    truth, noise = setting.truth(POINTS)
    scale = np.poly1d(np.polyfit(std, places(page, "spread", "std-line")[:, 1], 1))
    np.testing.assert_allclose(places(page, "spread", "true-line")[:, 1], scale(noise), atol=0.3)
    np.testing.assert_allclose(
        places(page, "spread", "real-line")[:, 1], scale(np.hypot(noise, mean - truth)), atol=0.3
    )
    scale = np.poly1d(np.polyfit(mean, places(page, "fit", "pair-line")[:, 1], 1))
    np.testing.assert_allclose(places(page, "fit", "true-line")[:, 1], scale(truth), atol=0.3)
    ends = np.concatenate([mean + std, (mean - std)[::-1]])
    np.testing.assert_allclose(places(page, "fit", "pair-band")[:, 1], scale(ends), atol=0.3)
    plain = CURVES[RUN[Setting(0.8, None, 1.0)], -1, 0]
    np.testing.assert_allclose(places(page, "fit", "plain-line")[:, 1], scale(plain), atol=0.3)
    across = np.poly1d(np.polyfit(POINTS, places(page, "fit", "pair-line")[:, 0], 1))
    shaded = page.tab.eval_on_selector_all(
        "#fit .strip", "all => all.map((e) => [+e.getAttribute('x'), +e.getAttribute('width')])"
    )
    np.testing.assert_allclose(
        shaded, [[across(0.2), across(0.3) - across(0.2)], [across(0.6), across(0.7) - across(0.6)]], atol=0.3
    )
    for kind in ("pair-line", "plain-line", "true-line"):
        stroke = f"getComputedStyle(document.querySelector('#fit .{kind}')).stroke"
        assert page.tab.evaluate(stroke) != "none"


@in_browser
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_theory_is_drawn_where_it_belongs(visit, coupling):
    page = visit(anchor=f"#strips-80,{coupling},0.2")
    L1, L2 = TOLD[RUN[Setting(0.8, coupling, 0.2)], -1, 1:3].astype(float)
    for picture, kind, values in (
        ("ratios", "regressor", lambda lam: theory.regressor_ratio(lam, L1, L2, coupling)),
        ("ratios", "std", lambda lam: theory.quantifier_ratio(lam, L1, L2, coupling)),
        ("speeds", "regressor", lambda lam: theory.regressor_speed(L1, lam, coupling)),
        ("speeds", "std", lambda lam: theory.quantifier_speed(L1, lam, coupling)),
    ):
        x, y = places(page, picture, f"{kind}-line").T
        lams = np.geomspace(LAMS[0], LAMS[-1], len(x))
        top, height = (float(page.tab.get_attribute(f"#{picture}-box rect", name)) for name in ("y", "height"))
        np.testing.assert_allclose(np.diff(x), np.diff(x)[0], atol=0.2)  # logarithmic
        want = np.log(values(lams))
        if np.ptp(want) > 1e-9:
            slope = np.polyfit(want, y, 1)[0]
            np.testing.assert_allclose(y - y[0], slope * (want - want[0]), atol=0.3)
            assert slope < 0
        assert top < y.min() + 1
        assert y.max() - 1 < top + height
        circle = [float(page.tab.get_attribute(f"#{picture} .on-{kind}", name)) for name in ("cx", "cy")]
        assert circle[0] == pytest.approx(np.interp(np.log(0.2), np.log(lams), x), abs=0.3)
        assert circle[1] == pytest.approx(np.interp(np.log(0.2), np.log(lams), y), abs=0.3)


@in_browser
def test_between_two_stages_curves_are_between(visit):
    page, k = visit(), RUN[Setting(0.2, "sigmoid", 0.05)]
    got = page.tab.evaluate("([run, frame]) => curve(run, 0, frame)", [k, 10.25])
    np.testing.assert_allclose(got, 0.75 * CURVES[k, 10, 0] + 0.25 * CURVES[k, 11, 0], atol=1e-6)


@in_browser
@pytest.mark.parametrize("width", [1200, 360])
def test_pictures_follow_the_window(visit, width):
    page = visit(width=width)
    page.tab.set_viewport_size({"width": width + 200, "height": 800})
    page.tab.wait_for_function(
        "Math.abs(+at('fit').getAttribute('viewBox').split(' ')[2] - at('fit').getBoundingClientRect().width) < 1"
    )


@in_browser
def test_another_address_shows_another_setting(visit):
    page = visit()
    page.tab.evaluate("location.hash = '#strips-60,softplus,0.1'")
    page.tab.wait_for_function("at('lam-value').textContent === '0.1'")
    assert page.tab.inner_text("#share-value") == "60 %"


def test_facts_are_those_of_the_settings():
    facts = playground._facts()
    assert [data["name"] for data in facts["data"]] == [*(f"strips-{s}" for s in (10, 20, 40, 60, 80, 90)), "smooth"]
    plain = [setting for setting in playground.settings() if setting.coupling is None]
    for data, setting in zip(facts["data"], plain, strict=True):
        mean, std = setting.truth(POINTS)
        np.testing.assert_allclose(data["mean"], mean, atol=1e-3)
        np.testing.assert_allclose(data["std"], std, atol=1e-3)
        assert data["noisy"] == setting.is_noisy.tolist()
        assert sum(data["shares"]) == pytest.approx(1)
        if setting.noisy is not None:
            assert sum(np.array(data["shares"])[setting.is_noisy]) == pytest.approx(setting.noisy, abs=0.05)


def test_a_training_that_diverges_keeps_its_last_stage(monkeypatch):
    monkeypatch.setattr(playground, "STAGES", [1, 2, 3])
    whole, stages = Setting.model, []

    def breaking(setting):
        model = whole(setting)

        class Breaking:
            def fit_staged(self, *given):
                yield from zip_until(2, model.fit_staged(*given))
                raise playground.DivergenceError("member 0")

        return Breaking()

    def zip_until(n, generator):
        for _, stage in zip(range(n), generator, strict=False):
            stages.append(stage)
            yield stage

    monkeypatch.setattr(Setting, "model", breaking)
    found = playground.computed([Setting(0.2, "sigmoid", 0.05)])
    curves, numbers = restored(found["differences"])[0] * STEP, found["numbers"][0]
    assert np.isnan(numbers[:, 0]).tolist() == [False, False, True]
    np.testing.assert_array_equal(curves[2], curves[1])
    np.testing.assert_array_equal(numbers[2, 1:], numbers[1, 1:])
    for stage, curve in zip(stages, curves, strict=False):
        np.testing.assert_allclose(curve, playground.predicted(stage, POINTS), atol=STEP)


def test_the_page_does_not_depend_on_the_locale(tmp_path):
    path = tmp_path / "page.html"
    environment = os.environ | {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "aleator", "playground", "--no-open", "--out", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert path.read_text(encoding="utf-8") == playground.page()


def test_the_page_is_opened(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or False)
    result = CliRunner().invoke(commands, ["playground", "--out", str(tmp_path / "page.html")])
    assert opened == [(tmp_path / "page.html").as_uri()]
    assert "no browser was found" in result.output


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
@pytest.mark.parametrize("anchor", ["#nonsense,%00,-1", "#%", "#strips-80,sigmoid,0.07"])
def test_a_bad_address_shows_the_usual_setting(visit, anchor):
    page = visit(anchor=anchor)
    assert page.tab.inner_text("#lam-value") == "0.05"
    assert page.tab.url.endswith("#strips-20,sigmoid,0.05")


@in_browser
def test_only_one_training_plays_at_a_time(visit):
    page = visit()
    for _ in range(4):
        page.tab.click("[data-preset='strips-80 sigmoid 0.05']")
    page.tab.evaluate("window.draws = 0; draw = ((old) => () => { draws++; old(); })(draw)")
    frames = page.tab.evaluate(
        "new Promise((done) => { let n = 0; const t = () => (++n < 15 ? requestAnimationFrame(t) : done(n)); t(); })"
    )
    assert page.tab.evaluate("draws") <= 2 * frames  # four at a time would be sixty


@in_browser
def test_the_story_is_that_of_the_bars(visit):
    """How much more a clean sample counts: share of the weight over share of the samples, clean over noisy."""
    page = visit(anchor="#strips-80,sigmoid,0.05")
    setting = Setting()
    weight = TOLD[RUN[setting], -1, 3:]
    share = np.bincount(setting.data().region, minlength=6)[1:] / 2000
    noisy = setting.is_noisy
    more = (weight[~noisy].sum() / share[~noisy].sum()) / (weight[noisy].sum() / share[noisy].sum())
    said = page.tab.inner_text("#story")
    assert f"a clean sample counts {more:.2g} times as much as a noisy one" in said
    gain = TOLD[RUN[Setting(0.8, None, 1.0)], -1, 0] / TOLD[RUN[setting], -1, 0]
    assert f"The pair is {gain:.2g} times nearer the truth in the clean regions" in said
    bars = [int(text) for text in page.tab.locator("#weights .bar").all_text_contents()]
    np.testing.assert_allclose(bars[::2], 100 * weight, atol=0.51)
    np.testing.assert_allclose(bars[1::2], 100 * share, atol=0.51)


@in_browser
def test_every_state_tells_something_sound(visit):
    page = visit()
    told = page.tab.evaluate("""() => {
      const all = new Set();
      facts.data.forEach((data, d) => facts.couplings.forEach((_, c) => facts.lams.forEach((_, l) => facts.epochs.forEach((_, f) => {
        Object.assign(state, { data: d, coupling: c, lam: l, frame: f });
        all.add(sentences(data, numbersOf(pairRun()), numbersOf(plainRun())).join(" "));
      }))));
      return [...all];
    }""")
    assert len(told) > 1000
    for text in told:
        assert not re.search(r"NaN|Infinity|undefined|e[+-]\d|\d{5}", text), text


@in_browser
def test_a_broken_training_says_so(visit):
    diverged = [setting for setting, k in RUN.items() if np.isnan(TOLD[k, -1, 0])]
    for setting in diverged:
        page = visit(anchor=f"#strips-{100 * setting.noisy:.0f},softplus,{setting.lam:g}")
        assert "left the finite numbers" in page.tab.inner_text("#story")
        assert page.tab.inner_text("#pair-error") == "diverged"
    assert diverged  # there is one to show it with
