"""What to say when a name is not known."""

import difflib
from collections.abc import Iterable

MOST = 12  # names that are listed


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known name, or all of them."""
    known = list(known)
    by_lower = {each.lower(): each for each in reversed(known)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if near:
        return f": did you mean {by_lower[near[0]]!r}?"
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"; known: {', '.join(known[:MOST])}{more}."
