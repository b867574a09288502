"""The README's lines run as they stand there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
PAGES = sorted((README.parent / "docs").glob("*.md"))


def test_the_lines_run(capsys):
    given, together = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    for code in (given, together):
        names = {}
        exec(code, names)
        assert "expected_loss" in capsys.readouterr().out
    inside = (names["lower"] <= names["y_new"][100:]) & (names["y_new"][100:] <= names["upper"])
    assert 0.8 < inside.mean() <= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_lines_of_the_pages_run(page, capsys):
    """... and print what the page says they print, if it does: numbers within 5 %."""
    text = page.read_text(encoding="utf-8")
    for code, shown in re.findall(r"```python\n(.*?)```\n(?:\n```\n(.*?)```)?", text, flags=re.DOTALL):
        exec(code, {})
        printed = capsys.readouterr().out
        assert printed.strip()
        if shown:
            numbers = [[float(n) for n in re.findall(r"\d+\.\d+", said)] for said in (printed, shown)]
            assert numbers[0] == pytest.approx(numbers[1], rel=0.05)


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_pictures_and_pages_exist(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
