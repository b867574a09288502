"""Numbers and cells formatted for people."""

import math
from datetime import datetime
from typing import Any

import pandas as pd


def formatted(value: Any) -> str:
    """A number with three or four significant digits: 0.0123, 2.40, 56,040; anything else as it is."""
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):
        return "(missing)"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}" if (value.hour, value.minute) == (0, 0) else f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    size = abs(value)
    if size == 0 or (isinstance(value, int) and size < 1000):
        return str(int(value))
    if 1000 <= size < 1e12:
        return f"{value:,.0f}"
    return f"{value:.1f}" if 100 <= size < 1000 else f"{value:#.3g}" if 1e-4 <= size < 100 else f"{value:.2e}"


def cell(value: Any) -> str:
    """A cell of the user's table: numbers without thousands separators, so that a year is not 1,984."""
    if isinstance(value, float) and value == value and abs(value) < 1e15:
        return f"{value:.0f}" if value == int(value) else f"{value:.6g}"
    return formatted(value)


def shortened(name: str, longest: int = 40) -> str:
    """A name, shortened to fit into a figure."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def isolated(name: str) -> str:
    """A name with its writing direction isolated, so that it cannot reorder the sentence around it."""
    return f"\u2068{name}\u2069"


def plain(facts: Any) -> Any:
    """Values as strict JSON: numbers that are not finite become null."""
    if isinstance(facts, dict):
        return {str(name): plain(value) for name, value in facts.items()}
    if isinstance(facts, (list, tuple)):
        return [plain(value) for value in facts]
    if isinstance(facts, float):
        return float(facts) if math.isfinite(facts) else None
    return facts


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.0f} %"
