"""Benchmarks run for minutes, so they are not run here; but what they import must be there."""

import ast
import importlib
from pathlib import Path

import pytest

SCRIPTS = sorted(
    path for folder in ("benchmarks", "examples") for path in (Path(__file__).parents[1] / folder).glob("*.py")
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_script_imports_of_aleator_is_there(script):
    pytest.importorskip("torch", reason="`make test-python` has none; `make test` installs it")
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "aleator":
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
