"""Docstrings of estimators: a parameter or an attribute is described once, in the class that has it."""

import inspect
import re
from dataclasses import MISSING, fields
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
_SECTION = r"(?ms)^{}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}\n|\Z)"


def documented(cls: Class) -> Class:
    """Complete the docstring of a dataclass by parameters and attributes that its base classes describe.

    Its own entries come first; the types of parameters are followed by their defaults.
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    defaults = {field.name: field.default for field in fields(cls) if field.init}
    parameters = {name: entry for name, entry in _inherited(cls, "Parameters").items() if name in defaults}
    entries = [_with_default(entry, defaults[name]) for name, entry in parameters.items()]
    sections = {"Parameters": entries, "Attributes": list(_inherited(cls, "Attributes").values())}
    first = re.search(r"(?m)^\S[^\n]*\n-{3,}$", text)
    lead, rest = (text[: first.start()], text[first.start() :]) if first else (text + "\n\n", "")
    for name in sections:
        rest = re.sub(_SECTION.format(name), "", rest)
    new = [
        f"{name}\n{'-' * len(name)}\n" + "\n".join(entries) + "\n\n" for name, entries in sections.items() if entries
    ]
    cls.__doc__ = (lead + "".join(new) + rest).rstrip() + "\n"
    return cls


def _inherited(cls: type, section: str) -> dict[str, str]:
    """The entries of a section of a class and its bases, each from the class that is nearest."""
    found: dict[str, str] = {}
    for each in cls.__mro__:
        if each.__module__.startswith("aleator."):
            for name, entry in _entries(each.__dict__.get("__doc__") or "", section).items():
                found.setdefault(name, entry)
    return found


def _entries(doc: str, section: str) -> dict[str, str]:
    match = re.search(_SECTION.format(section), inspect.cleandoc(doc))
    parts = re.split(r"(?m)^(?=\S)", match[1].rstrip()) if match else []
    return {re.split(r"[ :]", part, maxsplit=1)[0]: part.rstrip() for part in parts if part}


def _with_default(entry: str, default: Any) -> str:
    if default is MISSING or "default=" in entry.split("\n", 1)[0]:
        return entry
    head, _, tail = entry.partition("\n")
    return f"{head}, default={default!r}\n{tail}"
