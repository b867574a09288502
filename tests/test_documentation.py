"""README and pages: their code runs, their numbers are those of the records, their links lead somewhere."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aleator.paper import compact_results, real_data_tables

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if not {"_build", "generated"} & set(page.parts))
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "DESIGN.md", "SECURITY.md", "llms.txt")]
GENERATED = {"generated", "gallery"}  # folders that only a build makes


def relative(page):
    return str(page.relative_to(ROOT))


def run(code, names):
    """Run a cell as Jupyter does: lines with ! go to the shell, lines with % set up pictures."""
    lines = [line for line in code.splitlines() if not line.startswith("%")]
    for line in filter(lambda line: line.startswith("!"), lines):
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(line[1:], shell=True, check=True, capture_output=True, env=environment)
    exec("\n".join(line for line in lines if not line.startswith("!")), names)


def test_the_readme_prints_what_it_shows():
    text = README.read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, flags=re.DOTALL).groups()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    numbers = [[float(n) for n in re.findall(r"\d+\.\d+", out)] for out in (printed.getvalue(), shown)]
    assert len(numbers[1]) == 16
    assert numbers[0][::4] == pytest.approx(numbers[1][::4], rel=0.05)  # predictions
    assert numbers[0] == pytest.approx(numbers[1], rel=0.25, abs=20)  # versions of scikit-learn cross-fit differently


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").split()) <= 500


def test_the_numbers_of_the_readme_are_those_of_the_record():
    record = (ROOT / "results" / "auto" / "compared.md").read_text(encoding="utf-8")

    def cells(title):
        table = record.split(f"| {title} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
        rows = [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in table]
        return {row[0]: row[1:] for row in rows}

    error, area = cells("RMSE, error"), cells("AUC of the RMSE")
    for name, values in error.items():
        columns = [f"{values[k]} / {area[name][k]}" for k in (0, 4, 5)]  # ours, EnsML tuned, the paper's best
        assert f"| {name.capitalize()} | {' | '.join(columns)} |" in README.read_text(encoding="utf-8")


WITH_CODE = [page for page in PAGES if "{code-cell}" in page.read_text(encoding="utf-8")]


@pytest.mark.usefixtures("short_training")
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("page", WITH_CODE, ids=relative)
def test_the_cells_of_a_page_run(page, tmp_path, monkeypatch):
    """`make docs` executes them too, and shows what they print."""
    monkeypatch.chdir(tmp_path)  # some write files
    names = {"__name__": "page"}
    cells = re.findall(
        r"```\{code-cell\} python\n((?::tags:.*\n)?)(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    assert cells
    with contextlib.redirect_stdout(io.StringIO()):
        for _, code in cells:
            run(code, names)


@pytest.mark.parametrize("name", ["01_houses", "05_groups"])
def test_examples_run(name, tmp_path):
    """The quick ones; `make docs` runs all."""
    command = [sys.executable, "-W", "error", ROOT / "examples" / f"{name}.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_reference_is_complete():
    pytest.importorskip("torch", reason="`make test-python` has none; `make test` installs it")
    command = [sys.executable, ROOT / "docs" / "reference_check.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", [*ROOT_PAGES, *PAGES], ids=relative)
def test_links_pictures_and_records_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#:\s]+)[^)]*\)", text) + re.findall(r"\{include\} (\S+)", text)
    for target in targets:
        if not (GENERATED & set(Path(target).parts) or target.startswith("http")):
            assert (page.parent / target).exists(), target
    for record in re.findall(r"generated/(\w+)\.inc\.md", text):
        made = {"layouts", "command-reference", "contributing", "design", "changelog", "security"}
        assert record in made or (ROOT / "benchmarks" / f"{record}.txt").exists(), record
    for source in re.findall(r"\{source\}`(?:[^`<]*<)?([^`>]+)>?`", text):
        assert (ROOT / source).exists(), source


def test_published_tables_follow_from_the_results():
    """The tables that are shown are those of the measures that are kept beside them."""
    for folder in ("published", "tuned"):
        found = compact_results.read(ROOT / "results" / folder)
        table = real_data_tables.cells(found)
        shown = (ROOT / "results" / folder / "tables.md").read_text(encoding="utf-8")
        assert real_data_tables.errors(table) in shown
        assert real_data_tables.failures(table) == []
        assert set(table["folds"]) == {50}
