"""What to say when a name is not known."""

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known name, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), known, n=1)
    if near:
        return f": did you mean {near[0]!r}?"
    return f"; known: {', '.join(known)}."
