"""Is the API reference complete? Every public name is in it, every name in it imports, and every docstring is whole.

Usage: python docs/reference_check.py, part of `make check`. Docstrings are validated by numpydoc.
"""

import importlib
import inspect
import re
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

PAGES = Path(__file__).parent / "reference"
MODULES = ("", ".baselines", ".couplings", ".datasets", ".losses", ".metrics", ".mixtures", ".objectives", ".onnx", ".paper",
           ".plots", ".tabular", ".theory", ".torch")  # fmt: skip
MENTIONED = {"plots": {"BLUE", "GREY", "ORANGE", "RED"}, "tabular": {"ANSWERS"}, "datasets": {"NAMES"},
             "torch": {"export_onnx"}, "onnx": {"export_onnx"}}  # fmt: skip
# Called by other modules of aleator only, and not in the reference.
INTERNAL = {"answers", "check", "extra_repr", "level_of", "measure", "measure_by", "mixed", "onnx_outputs",
            "scaled_like", "to_estimator", "to_onnx", "is_exponential", "width", "inputs", "keep"}  # fmt: skip
# Findings of numpydoc that are not asked for: extended summaries and "See Also" everywhere, full stops and capitals in short
# descriptions, the order of keyword-only parameters, and parameters that a signature has as **settings (PR02).
NOT_ASKED = {"ES01", "EX02", "GL01", "GL02", "GL03", "GL07", "GL09", "PR02", "PR03", "PR05", "PR06", "PR08", "PR09",
             "RT02", "RT03", "RT04", "RT05", "SA01", "SA02", "SA03", "SA04", "SS03", "SS05", "SS06"}  # fmt: skip


def public_names() -> set[str]:
    """The names in `__all__` of the public modules."""
    names = set()
    for module in MODULES:
        for name in importlib.import_module(f"aleator{module}").__all__:
            if name not in MENTIONED.get(module[1:], ()):
                names.add(f"aleator{module}.{name}")
    return names


def listed_names() -> set[str]:
    """The names in the tables of the reference."""
    names = set()
    for page in PAGES.glob("*.md"):
        parts = re.findall(r"currentmodule:: (\S+)\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
        for module, text in parts:
            names |= {f"{module}.{name}" for name in re.findall(r"(?m)^   (\w+)$", text)}
    return names


def function_of(member: object) -> object:
    """The function behind a method or a property."""
    return getattr(member, "fget", None) or getattr(member, "__func__", None) or getattr(member, "func", member)


def members(cls: type) -> list[str]:
    """Public methods and properties of a class that aleator defines."""
    found = []
    for name in dir(cls):
        if (name.startswith("_") and name != "__call__") or name in INTERNAL:
            continue
        member = inspect.getattr_static(cls, name)
        function = function_of(member)
        if inspect.isfunction(function) and function.__module__.startswith("aleator"):
            found.append(name)
    return found


def attributes(cls: type) -> set[str]:
    """The names in the section Attributes."""
    return {name for each in NumpyDocString(inspect.getdoc(cls))["Attributes"] for name in each.name.split(", ")}


def problems(name: str) -> list[str]:
    """What numpydoc finds in the docstring of a public object and its methods."""
    module, attribute = name.rsplit(".", 1)
    found = getattr(importlib.import_module(module), attribute)
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        return []
    place = f"{found.__module__}.{found.__qualname__}"
    errors = validate(place)["errors"]
    if is_dataclass(found) and all(field.name in attributes(found) for field in fields(found)):
        errors = [each for each in errors if each[0] != "PR01"]  # a result, whose fields are its attributes
    shown = [f"{name} {code}: {text}" for code, text in errors if code not in NOT_ASKED]
    for member in members(found) if inspect.isclass(found) else ():
        owner = next(base for base in found.__mro__ if member in vars(base))
        errors = validate(f"{owner.__module__}.{owner.__qualname__}.{member}")["errors"]
        shown += [f"{name}.{member} {code}: {text}" for code, text in errors if code not in NOT_ASKED | {"EX01"}]
    return shown


def main() -> int:
    public, listed = public_names(), listed_names()
    found = [f"{name} is not in the reference" for name in sorted(public - listed)]
    found += [f"{name} is in the reference, and not public" for name in sorted(listed - public)]
    for name in sorted(public):
        found += problems(name)
    print("\n".join(found) or f"reference: {len(public)} public names, all of them documented")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
