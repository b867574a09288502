"""The page about a model: what it says is what the metrics say, in a browser, for anyone, and without asking anyone."""

import json
import os
import re
import shutil
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from playwright.sync_api import sync_playwright

from aleator import metrics
from aleator.cli import commands
from aleator.tabular import Request, fitting
from aleator.tabular.formatting import formatted
from aleator.tabular.importance import dependence, strongest
from aleator.tabular.io import opened

pytestmark = pytest.mark.usefixtures("short_training")

CHROMIUM = next(
    (path for name in (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome") if name
     for path in [shutil.which(name)] if path), None
)  # fmt: skip
browsing = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install one, or set CHROMIUM")
EVIL = "<script>alert(1)</script>"
QUOTES = "\"'><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with names and cells that would like to be a program, and noise that depends on two columns."""
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame({
        "size": rng.uniform(10, 100, n).round(2),
        EVIL: rng.choice(["</script><b>bold</b>", "{{ 7 * 7 }}", "plain"], n),
        QUOTES: rng.normal(size=n).round(3),
        "day": pd.date_range("2020-01-01", periods=n).astype(str),
        "note": [f"</td><h1>{k}</h1>" for k in range(n)],
    })  # fmt: skip
    noise = np.where(frame[EVIL] == "plain", 20.0, 2.0)
    frame["pri<ce>"] = (3 * frame["size"] + noise * rng.normal(size=n)).round(3)
    path = tmp_path_factory.mktemp("page") / "evil.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def fitted(table):
    return fitting.fit(Request(opened(table), "pri<ce>", model="forest", test_fraction=0.4))


@pytest.fixture(scope="module")
def path(table):
    page = table.with_name("report.html")
    arguments = ["fit", table, "--target", "pri<ce>", "--model", "forest", "--test-fraction", 0.4, "--report", page]
    done = CliRunner().invoke(commands, [*map(str, arguments), "--out", str(table.with_name("m"))])
    assert done.exit_code == 0, done.output
    return page


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as starter:
        started = starter.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser, path):
    """Opens the page; at the end there was no request but the file, no message, no dialog."""
    opened_pages = []

    def go(width=1280, **settings):
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        page = context.new_page()
        page.seen = {"requests": [], "messages": []}
        page.on("request", lambda request: page.seen["requests"].append(request.url))
        page.on("console", lambda message: page.seen["messages"].append(message.text))
        page.on("pageerror", lambda error: page.seen["messages"].append(str(error)))
        page.on("dialog", lambda dialog: (page.seen["messages"].append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        opened_pages.append((context, page))
        return page

    yield go
    for context, page in opened_pages:
        assert page.seen == {"requests": [path.as_uri()], "messages": []}
        context.close()


@browsing
@pytest.mark.parametrize("width", [1280, 390])
def test_the_slider_tells_what_the_metrics_tell(visit, fitted, width):
    page, judged = visit(width), fitted.judged
    curve = metrics.rejection_curve(judged.y, judged.prediction.prediction, judged.prediction.expected_loss, "mae")
    n = len(judged.y)
    for share in (0, 1, 17, 20, 50, 95):
        page.locator("#share").fill(str(share))
        refused = round(share / 100 * n)
        assert page.locator("#percent").inner_text() == f"{share} %"
        assert page.locator("#error").inner_text() == formatted(float(curve[refused]))
        assert page.locator("#kept").inner_text() == f"{n - refused:,}"
        assert page.locator("#refused").inner_text() == f"{refused:,}"
        assert page.locator("#refused-rows tbody tr:visible").count() == min(refused, 200)
        assert page.locator("#dots circle.out").count() == refused
        circle = page.locator("#marker circle")
        left, right, bottom, top = map(float, page.locator("svg:has(#marker)").get_attribute("data-ends").split())
        high = float(page.locator("svg:has(#marker)").get_attribute("data-y").split()[1])
        assert float(circle.get_attribute("cx")) == pytest.approx(left + share / 100 * (right - left))
        assert float(circle.get_attribute("cy")) == pytest.approx(bottom - curve[refused] / high * (bottom - top))
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # no sideways scrolling


@browsing
def test_the_refused_rows_are_the_least_certain(visit, fitted, table):
    page, judged = visit(), fitted.judged
    page.locator("#share").fill("10")
    rows = [int(text) for text in page.locator("#refused-rows tbody tr:visible td:first-child").all_inner_texts()]
    order = np.argsort(-judged.prediction.expected_loss, kind="stable")[: len(rows)]
    assert rows == judged.frame.index[order].tolist()
    table = pd.read_csv(table)
    actual = page.locator("#refused-rows tbody tr:visible td:nth-child(2)").all_inner_texts()
    assert actual == [
        formatted(float(table["pri<ce>"][row - 2])) for row in rows
    ]  # numbers of rows as in a spreadsheet


@browsing
def test_dots_are_where_they_belong(visit, fitted):
    page, judged = visit(), fitted.judged
    picture = page.locator("svg:has(#dots)")
    left, right, bottom, top = map(float, picture.get_attribute("data-ends").split())
    low, high = map(float, picture.get_attribute("data-x").split())
    rank = np.argsort(-judged.prediction.expected_loss, kind="stable")
    for place in (0, 17, len(rank) - 1):
        dot, row = page.locator(f'#dots circle[data-rank="{place}"]'), rank[place]
        across = left + (judged.prediction.prediction[row] - low) / (high - low) * (right - left)
        down = bottom - (judged.y[row] - low) / (high - low) * (bottom - top)
        assert float(dot.get_attribute("cx")) == pytest.approx(across, abs=0.06)
        assert float(dot.get_attribute("cy")) == pytest.approx(down, abs=0.06)
    assert "c9" in page.locator('#dots circle[data-rank="0"]').get_attribute("class")


@browsing
def test_names_and_cells_are_texts(visit):
    page = visit()
    text = page.inner_text("body")
    for word in (EVIL, QUOTES, "</script><b>bold</b>", "{{ 7 * 7 }}", "pri<ce>"):
        assert word in text, word
    assert page.locator("section b >> text=bold").count() == 0
    assert page.locator("img").count() == 0
    assert page.locator("h1").count() == 1
    assert page.locator("script").count() == 2


@browsing
def test_by_keyboard(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "share"
    before = page.locator("#error").inner_text()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert page.locator("#percent").inner_text() == "50 %"
    assert page.locator("#error").inner_text() != before
    assert "50 % refused, error" in page.locator("#share").get_attribute("aria-valuetext")
    page.keyboard.press("Home")
    assert page.locator("#percent").inner_text() == "0 %"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "region"  # tables scroll by keyboard


@browsing
def test_without_javascript(visit, fitted):
    page = visit(java_script_enabled=False)
    text = page.inner_text("body")
    assert "Refuse the least certain" not in text  # no slider that does nothing
    assert page.locator("#marker").is_hidden()
    rows = page.locator(".shares").first.locator("tbody tr").all_inner_texts()
    half = fitted.judged.after_refusing(0.5)
    assert rows[-1].split("\t") == ["50 %", "120", formatted(half)]
    assert page.locator("svg").count() >= 3


@browsing
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_and_print(visit, scheme):
    page = visit(390, color_scheme=scheme)
    paper, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    bright = [sum(map(int, re.findall(r"\d+", color)[:3])) for color in (paper, ink)]
    assert (bright[0] > bright[1]) == (scheme == "light")
    page.emulate_media(media="print")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    assert page.locator("#share").is_hidden()
    assert len(page.pdf()) > 10_000 if scheme == "light" else True


@browsing
def test_it_opens_soon_and_is_small(browser, tmp_path):
    """With a hundred thousand rows to judge by."""
    rng = np.random.default_rng(0)
    n = 100_000
    frame = pd.DataFrame(rng.normal(size=(n, 6)).round(4), columns=list("abcdef"))
    frame["y"] = (frame["a"] + rng.normal(size=n) * np.exp(frame["b"])).round(4)
    frame[:2000].to_csv(tmp_path / "train.csv", index=False)
    frame.to_csv(tmp_path / "test.csv", index=False)
    arguments = ["fit", tmp_path / "train.csv", "--target", "y", "--model", "pair", "--test", tmp_path / "test.csv",
                 "--out", tmp_path / "m", "--report", tmp_path / "r.html"]  # fmt: skip
    done = CliRunner().invoke(commands, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "r.html").stat().st_size < 6e6
    page = browser.new_page()
    began = time.monotonic()
    page.goto((tmp_path / "r.html").as_uri())
    assert page.locator("#refused").inner_text() == "20,000"
    took = time.monotonic() - began
    page.close()
    assert took < 10  # two seconds by the clock of an idle machine


def test_numbers_for_people():
    cases = {0.0: "0", 2.456: "2.46", 6.0: "6.00", 35.04: "35.0", 56_040.4: "56,040", 0.01234: "0.0123", 123.44: "123.4",
             -1500: "-1,500", 3: "3", 0.00001234: "1.23e-05", 1e20: "1.00e+20", 999.96: "1000.0", 100.0: "100.0"}  # fmt: skip
    for value, text in cases.items():
        assert formatted(value) == text
    assert formatted(None) == formatted(float("nan")) == formatted(pd.NaT) == "(missing)"
    assert formatted(pd.Timestamp("2024-05-17")) == "2024-05-17"
    assert formatted("a") == "a"


def test_columns_that_count_are_found(fitted):
    """The noise depends on the column of categories; shuffling any other changes the expected loss less."""
    found = strongest(fitted.model, fitted.judged.frame)
    assert next(iter(found)) == EVIL
    assert list(found.values()) == sorted(found.values(), reverse=True)
    told_by = dependence(fitted.model, fitted.judged.frame, EVIL)
    by_value = dict(zip(told_by.values, told_by.expected_loss, strict=True))
    assert by_value["plain"] > 3 * by_value["{{ 7 * 7 }}"]
    assert sum(told_by.share) == pytest.approx(1)
    over = dependence(fitted.model, fitted.judged.frame, "size")
    assert over.ordered
    assert over.values == sorted(over.values)
    assert over.prediction[-1] > over.prediction[0] + 150  # 3 * size


def test_a_dependence_is_the_mean_over_rows_with_that_value(fitted):
    frame = fitted.judged.frame.iloc[:50]
    found = dependence(fitted.model, frame, "size")
    by_hand = fitted.model.estimator.predict_loss(frame.assign(size=found.values[3])).mean()
    assert found.expected_loss[3] == pytest.approx(by_hand)


def test_report_of_another_table(path, table, fitted):
    page = table.with_name("again.html")
    done = CliRunner().invoke(commands, ["report", str(table.with_name("m")), str(table), "--out", str(page)])
    assert done.exit_code == 0, done.output
    text = " ".join(page.read_text().split())
    assert "600 rows, 360 of them equal to rows the model learned from" in text
    assert "360 of the 600 rows it was judged by are equal to rows it learned from" in text
    assert "240 rows that the model did not learn from" in " ".join(path.read_text().split())
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text()).group(1))
    assert data["n"] == 600
    assert len(data["exact"]) == 100
