"""The README's lines run as they stand there."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_lines_run(capsys):
    given, together = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    for code in (given, together):
        names = {}
        exec(code, names)
        assert "expected_loss" in capsys.readouterr().out
    inside = (names["lower"] <= names["y_new"][100:]) & (names["y_new"][100:] <= names["upper"])
    assert 0.8 < inside.mean() <= 1


def test_pictures_and_pages_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target
