"""`aleator report`: one page about a model, for someone who has to decide how far to trust it.

One HTML file with everything in it: it sends no requests, and can be read without JavaScript, and printed. Its content
is gathered in ``content.py``, pictures are drawn as SVG in ``charts.py``; the script (``page.js``) only moves a marker
and hides rows. Every text from the user's table goes through the autoescape of Jinja and MarkupSafe.
"""

from importlib.metadata import version
from os import PathLike
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from aleator import atomic_write
from aleator.report.content import findings
from aleator.tabular import Evaluation, TableModel

HERE = Path(__file__).parent


def write(
    path: str | PathLike[str], model: TableModel, judged: Evaluation, warnings: list[str], strongest: dict[str, float]
) -> None:
    """Write the page about a model and rows it was judged by."""
    text = page(model, judged, warnings, strongest)
    with atomic_write.whole(path, "report") as beside:
        beside.write_text(text, encoding="utf-8")


def page(model: TableModel, judged: Evaluation, warnings: list[str], strongest: dict[str, float]) -> str:
    """The page as a text."""
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string((HERE / "page.html").read_text(encoding="utf-8"))
    found = findings(model, judged, strongest)
    style, script = (Markup((HERE / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    return template.render(
        style=style,
        script=script,
        version=version("aleator"),
        warnings=[text for text in warnings if text != found["verdict"].text],  # which has a place of its own
        **found,
    )
