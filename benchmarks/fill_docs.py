"""Put what is generated into pages of docs/, between `<!-- begin NAME -->` and `<!-- end -->`. Usage: make docs.

NAME is the path of a file, or `layouts`: what model files hold.
"""

import re
from pathlib import Path

from aleator.model_files import layout, scikit_learn

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / name for name in ("reproduction.md", "automatic-lambda.md", "model-files.md")]
BLOCK = re.compile(r"<!-- begin (\S+?)(?: lines (\d+)-(\d+))? -->\n(.*?)<!-- end -->", re.S)


def filled(text):
    """The page with every block replaced by its file; lines a to b of it, if these are given."""

    def block(match):
        path, first, last, _ = match.groups()
        if path == "layouts":
            return f"<!-- begin layouts -->\n{layouts()}<!-- end -->"
        lines = (ROOT / path).read_text(encoding="utf-8").rstrip().splitlines()
        chosen = lines[int(first) - 1 : int(last)] if first else lines
        content = "\n".join(chosen)
        if not path.endswith(".md"):
            content = f"```\n{content}\n```"
        objective = match.group(0).split("\n", 1)[0]
        return f"{objective}\n{content}\n<!-- end -->"

    return BLOCK.sub(block, text)


def layouts():
    """The tables of all kinds of files, and the types of scikit-learn that a file can hold."""
    parts = []
    for each in layout.LAYOUTS:
        title = each.about[0].upper() + each.about[1:]
        beside = None if each in (layout.EVERY, layout.ENCODER, layout.TABLE) else layout.EVERY
        beside = layout.NETWORK if each is layout.DROPOUT else beside
        also = {None: "", layout.EVERY.about: "as every estimator, and:", layout.NETWORK.about: "as pairs, and:"}
        lead = also[beside.about if beside else None]
        parts.append(f"## {title}\n\n{lead[:1].upper()}{lead[1:]}\n\n" if lead else f"## {title}\n\n")
        parts.append(layout.markdown(each, beside) + "\n")
        if each is layout.ENCODER:
            parts.append(
                "And for each column of categories, k its place: `columns k` (int64), the column that each category sets, behind them that "
                "of a new one, -1 for none; or `told k` (float64), what each category stands for.\n\n"
            )
    kinds = scikit_learn.KINDS.items()
    names = sorted((name for name, kind in kinds if kind.type.__module__.startswith("sklearn")), key=str.lower)
    parts.append(
        "## Types of scikit-learn\n\n"
        f"A regressor or an encoder of one of these {len(names)} types is stored with its parameters and what it learned, as values and "
        "arrays; pipelines and other compositions of them too. CatBoost, LightGBM and XGBoost models are stored in their own formats. "
        "For any other regressor, keep it in its own way and call `load(path, estimator=...)`.\n\n"
        + ", ".join(f"`{name}`" for name in names)
        + ".\n\nWhat each type holds beside its parameters is in `aleator.model_files.scikit_learn`, as arrays with types, shapes and "
        "ranges.\n"
    )
    return "".join(parts)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
