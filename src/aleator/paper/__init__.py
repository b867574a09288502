"""The paper's experiments: what was done, as data; figures and tables, computed. `aleator reproduce` runs it.

`published("boston")` is an unfitted model with the paper's settings.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aleator.paper.protocol import published

__all__ = ["published"]


def __getattr__(name: str) -> Any:
    """Import `published` when it is first used; `import aleator.paper` needs no estimators."""
    if name == "published":
        return import_module("aleator.paper.protocol").published
    raise AttributeError(f"module 'aleator.paper' has no attribute {name!r}")
