"""What the site shows but nobody writes by hand: records of benchmarks, the reference of command and files, two pages to play with."""

import hashlib
import importlib
import inspect
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import nbformat
from nbclient import NotebookClient
from sphinx.application import Sphinx

import reference_check
from aleator.cli import commands
from aleator.model_files import layout, scikit_learn

ROOT = Path(__file__).parent.parent
RESULTS = ("published/tables", "published/further", "tuned/best", "auto/compared")


def write(folder: Path) -> None:
    """Write all generated files; those that have not changed keep their time, so that Sphinx does not read them again."""
    pages = {f"{record.stem}.inc.md": record_page(record) for record in sorted((ROOT / "benchmarks").glob("*.txt"))}
    pages |= {
        f"results-{name.replace('/', '-')}.inc.md": record_page(ROOT / "results" / f"{name}.md") for name in RESULTS
    }
    pages |= {"layouts.inc.md": layouts(), "command-reference.inc.md": command_reference()}
    pages |= {
        f"{name[:-3].lower()}.inc.md": at_site(ROOT / name)
        for name in ("CONTRIBUTING.md", "DESIGN.md", "CHANGELOG.md", "SECURITY.md")
    }
    folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    demo_pages(folder / "extra")


def at_site(page: Path) -> str:
    """A page of the repository with its links as they are on the site, seen from docs/development."""
    text = page.read_text(encoding="utf-8").replace("](docs/", "](../")
    return re.sub(r"\]\(([A-Z]+)\.md", lambda match: f"]({match[1].lower()}.md", text)


def record_page(record: Path) -> str:
    """The text of a record, with the day on which it was committed."""
    git = ["git", "log", "-1", "--format=%cs", "--", str(record)]
    day = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    text = record.read_text(encoding="utf-8").rstrip()
    shown = text if record.suffix == ".md" else f"```text\n{text}\n```"
    return f"*{record.relative_to(ROOT)}, {day or 'date unknown'}*\n\n{shown}\n"


def layouts() -> str:
    """The tables of all kinds of model files, and the types of scikit-learn that a file can hold."""
    parts = []
    for each in layout.LAYOUTS:
        title = each.about[0].upper() + each.about[1:]
        beside = None if each in (layout.EVERY, layout.ENCODER, layout.TABLE) else layout.EVERY
        beside = layout.NETWORK if each is layout.DROPOUT else beside
        also = {None: "", layout.EVERY.about: "As every estimator, and:", layout.NETWORK.about: "As pairs, and:"}
        lead = also[beside.about if beside else None]
        parts.append(f"## {title}\n\n{lead}\n\n" if lead else f"## {title}\n\n")
        parts.append(layout.markdown(each, beside) + "\n")
        if each is layout.ENCODER:
            parts.append(
                "And for each column k of categories: `columns k` (int64), the column that each category sets, followed by that of a new "
                "category, -1 for none; or `means k` (float64), the encoded target of each category.\n\n"
            )
    kinds = scikit_learn.KINDS.items()
    names = sorted((name for name, kind in kinds if kind.type.__module__.startswith("sklearn")), key=str.lower)
    listed = ", ".join(f"`{name}`" for name in names)
    parts.append(
        f"## Types of scikit-learn\n\nRegressors and encoders of these {len(names)} types, and compositions of them, are stored as "
        f"parameters, values and arrays: {listed}.\n\nWhat each type holds beside its parameters is described in "
        "`aleator.model_files.scikit_learn`.\n"
    )
    return "".join(parts)


def command_reference() -> str:
    """The help of each command."""
    parts = []
    for name, each in commands.commands.items():
        parts.append(help_of(f"aleator {name}", each, "##"))
        if isinstance(each, click.Group):
            parts += [help_of(f"aleator {name} {inner}", each.commands[inner], "###") for inner in each.commands]
    return "".join(parts)


def help_of(name: str, command: click.Command, level: str) -> str:
    context = click.Context(command, info_name=name, max_content_width=100)
    return f"{level} {name}\n\n```text\n{command.get_help(context)}\n```\n\n"


def source_hash() -> str:
    """Changes with the code of the package, so that what it printed before is not shown any more."""
    digest = hashlib.sha256()
    for file in sorted((ROOT / "src").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def demo_pages(folder: Path) -> None:
    """The report of a table of houses, and the playground, as files beside the site; and the page for language models."""
    report, playground, made = folder / "houses-report.html", folder / "playground.html", folder.parent / "made-by"
    folder.mkdir(exist_ok=True)
    run = [sys.executable, "-m", "aleator"]
    shutil.copy(ROOT / "llms.txt", folder / "llms.txt")
    if not made.exists() or made.read_text() != source_hash():
        report.unlink(missing_ok=True)
        playground.unlink(missing_ok=True)
    if not report.exists():
        from aleator.datasets import houses

        with tempfile.TemporaryDirectory() as place:
            X, y = houses(3000)
            X.assign(price=y).to_csv(f"{place}/houses.csv", index=False)
            out = ["--out", f"{place}/houses.aleator", "--report", str(report)]
            subprocess.run(
                [*run, "fit", f"{place}/houses.csv", "--target", "price", *out], check=True, capture_output=True
            )
    if not playground.exists():
        subprocess.run([*run, "playground", "--no-open", "--out", str(playground)], check=True, capture_output=True)
    made.write_text(source_hash())


def keep_outputs(app: Sphinx, error: Exception | None) -> None:
    """Replace the notebooks of the gallery by executed ones, which show their outputs when they are opened."""
    if error or app.builder.name != "html" or not app.config.sphinx_gallery_conf["plot_gallery"]:
        return
    kept = Path(app.outdir).parent / f"notebooks-{source_hash()}"
    kept.mkdir(exist_ok=True)
    for source in sorted((Path(app.srcdir) / "gallery").glob("[0-9]*.ipynb")):
        notebook = nbformat.read(source, as_version=4)
        executed = kept / f"{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}-{source.name}"
        if not executed.exists():
            with tempfile.TemporaryDirectory() as place:
                NotebookClient(notebook, timeout=600, resources={"metadata": {"path": place}}).execute()
            nbformat.write(notebook, executed)
        for target in Path(app.outdir, "_downloads").rglob(source.name):
            shutil.copy(executed, target)


def source_of(module: str, name: str) -> tuple[str, int] | None:
    """File and first line of a public object."""
    found = importlib.import_module(module)
    try:
        for part in name.split("."):
            found = getattr(found, part)
        found = inspect.unwrap(reference_check.function_of(found))
        file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
        return str(Path(file).relative_to(ROOT)), line
    except (AttributeError, TypeError, OSError, ValueError):
        return None
