"""The README's lines run as they stand there."""

import importlib.util
import re
from pathlib import Path

import pytest

from aleator.paper import compact_results, real_data_tables

README = Path(__file__).parent.parent / "README.md"
PAGES = sorted((README.parent / "docs").glob("*.md"))


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Pages name files as seen from there."""
    monkeypatch.chdir(README.parent)


def test_the_lines_run(capsys):
    given, together = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    for code in (given, together):
        names = {}
        exec(code, names)
        assert "expected_loss" in capsys.readouterr().out
    inside = (names["lower"] <= names["y_new"][100:]) & (names["y_new"][100:] <= names["upper"])
    assert 0.8 < inside.mean() <= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_lines_of_the_pages_run(page, capsys, tmp_path, monkeypatch):
    """... one block after the other, and print what the page says they print, if it does: numbers within 5 %."""
    text, names = page.read_text(encoding="utf-8"), {}
    (tmp_path / "results").symlink_to(README.parent / "results")
    monkeypatch.chdir(tmp_path)  # some write files
    for code, shown in re.findall(r"```python\n(.*?)```\n(?:\n```\n(.*?)```)?", text, flags=re.DOTALL):
        exec(code, names)
        printed = capsys.readouterr().out
        assert printed.strip() or "print(" not in code
        if shown:
            numbers = [[float(n) for n in re.findall(r"\d+\.\d+", said)] for said in (printed, shown)]
            assert numbers[0] == pytest.approx(numbers[1], rel=0.05, abs=0.03)  # processors round differently


def test_tables_of_pages_are_the_files():
    """`make docs` puts generated files into the page; it has been run since they were written."""
    spec = importlib.util.spec_from_file_location("fill_docs", README.parent / "benchmarks" / "fill_docs.py")
    fill_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fill_docs)
    texts = [page.read_text(encoding="utf-8") for page in fill_docs.PAGES]
    assert [len(fill_docs.BLOCK.findall(text)) for text in texts] == [6, 2, 1]
    assert [fill_docs.filled(text) for text in texts] == texts


def test_published_tables_follow_from_the_results(tmp_path):
    """The tables that are shown are those of the measures that are kept beside them."""
    for folder in ("published", "tuned"):
        found = compact_results.read(Path("results") / folder)
        table = real_data_tables.cells(found)
        assert real_data_tables.errors(table) in (Path("results") / folder / "tables.md").read_text(encoding="utf-8")
        assert real_data_tables.failures(table) == []
        assert set(table["folds"]) == {50}


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_pictures_and_pages_exist(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
