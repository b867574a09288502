"""Put generated files into pages of docs/, between `<!-- begin PATH -->` and `<!-- end -->`. Usage: make docs."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / name for name in ("reproduction.md", "automatic-lambda.md")]
BLOCK = re.compile(r"<!-- begin (\S+?)(?: lines (\d+)-(\d+))? -->\n(.*?)<!-- end -->", re.S)


def filled(text):
    """The page with every block replaced by its file; lines a to b of it, if these are given."""

    def block(match):
        path, first, last, _ = match.groups()
        lines = (ROOT / path).read_text(encoding="utf-8").rstrip().splitlines()
        chosen = lines[int(first) - 1 : int(last)] if first else lines
        content = "\n".join(chosen)
        if not path.endswith(".md"):
            content = f"```\n{content}\n```"
        head = match.group(0).split("\n", 1)[0]
        return f"{head}\n{content}\n<!-- end -->"

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
