"""What the columns of a table hold: numbers, dates or categories. Inferred once, then required of every other table.

| kind | cells |
| --- | --- |
| number | 12, -3.5, 1e6, and as people write them: 1,234.50, $12, 7 % |
| date | 2024-05-17 with or without a time, 17.05.2024, 5/17/2024 |
| category | anything else: words, truth values, whole sentences, codes, also those of digits that begin with 0 |

Two currency signs in one column, or percentages beside plain numbers, are refused. So are dates such as 01/02/2024 if
no row tells whether the day or the month comes first.

A cell is missing if it is empty or a sign for missing (NA, NaN, null, ?, ...). A column of numbers with a few other
cells is refused, and the error names the first of them: reading the column as text, or the cell as missing, would lose
data.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator.suggestions import suggestion
from aleator.tabular.io.errors import TableError
from aleator.tabular.io.reader import Block, Source, short

Floats = NDArray[np.float64]

MISSING = frozenset(
    [
        "",
        "#N/A",
        "#NA",
        "-NaN",
        "-nan",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "na",
        "nan",
        "null",
        "?",
        "-",
    ]
)
CURRENCIES = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "CHF": "CHF", "CNY": "CNY", "INR": "INR"}
TRUTH = {"true": "True", "false": "False"}  # as Python and Parquet write them
MOSTLY = 0.9  # a column with at least this share of numbers is numeric
DATES = {  # as shown, as parsed
    "year-month-day": "ISO8601",
    "day.month.year": "%d.%m.%Y",
    "month/day/year": "%m/%d/%Y",
    "day/month/year": "%d/%m/%Y",
    "year/month/day": "%Y/%m/%d",
}
_CURRENCY = "|".join(map(re.escape, sorted({*CURRENCIES, *CURRENCIES.values()})))
_AMOUNT = re.compile(rf"(?P<before>{_CURRENCY})?\s*(?P<number>.*?)\s*(?P<after>%|{_CURRENCY})?", re.DOTALL)
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
_CODES = re.compile(r"^\s*0\d+\s*$", re.MULTILINE)
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


@dataclass(frozen=True)
class Column:
    """A column: its name, its kind, for dates how they are written, and the unit of numbers that have one ($, %).

    A unit of None is unknown, as in files of earlier versions.
    """

    name: str
    kind: str
    date: str = ""
    unit: str | None = ""

    def __str__(self) -> str:
        more = self.date or self.unit
        return f"{self.kind} ({more})" if more else self.kind

    def takes(self, unit: str) -> bool:
        """Whether numbers in this unit fit the column: a currency sign may be left out, a percent sign may not."""
        known = (unit, self.unit)
        return self.unit is None or unit == self.unit or ("%" not in known and "" in known)


@dataclass(frozen=True)
class Schema:
    """The columns that a model reads, and how cells are written."""

    columns: tuple[Column, ...]
    missing: frozenset[str] = MISSING
    decimal: str = "."

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def of(self, names: Iterable[str]) -> "Schema":
        """The schema of some of the columns."""
        by_name = {column.name: column for column in self.columns}
        return Schema(tuple(by_name[name] for name in names), self.missing, self.decimal)

    def check(self, source: Source) -> None:
        """Raise an error unless the table has all columns."""
        for name in self.names:
            if name not in source.names:
                raise ValueError(f"{source.path} has no column {name!r}{suggestion(name, source.names)}")

    def frame(self, source: Source, block: Block) -> pd.DataFrame:
        """The columns with their types: float64, datetime64 or object, None where missing; numbers of rows as index."""
        rows = pd.Index([block.row(k) for k in range(len(block))], name="row")
        numbers = [column.name for column in self.columns if column.kind == "number" and column.takes("")]
        plain = block.numbers(numbers, self.missing) if self.decimal == "." else None
        fine = plain is not None and not np.isinf(plain.to_numpy()).any()
        known = (
            {name: self._without_marks(plain[name].to_numpy()) for name in numbers}
            if plain is not None and fine
            else {}
        )
        cells = {c.name: known[c.name] if c.name in known else self._typed(c, source, block) for c in self.columns}
        return pd.DataFrame(cells).set_index(rows)

    def read(self, source: Source) -> pd.DataFrame:
        """Read a whole table."""
        frames = [self.frame(source, block) for block in source.blocks()]
        if not frames:
            raise ValueError(f"{source.path} has a header and no rows.")
        return pd.concat(frames)

    def _typed(self, column: Column, source: Source, block: Block) -> Any:
        cells = block.column(column.name)
        if not isinstance(cells, list):
            if column.kind == "number" and _kind_of(cells) in ("number", "truth value"):
                cells = cells.dt.total_seconds() if cells.dtype.kind == "m" else cells
                values = self._without_marks(cells.to_numpy(np.float64, na_value=np.nan))
                return _finite(values, cells, column, source, block)
            if column.kind == "date" and _kind_of(cells) == "date":
                return _typed_dates(cells, column, source, block)
            cells = _texts(cells)
        if column.kind == "number":
            values = self._without_marks(self._numbers(cells, column, source, block))
            return _finite(values, cells, column, source, block)
        if column.kind == "date":
            return self._dates(cells, column, source, block)
        texts = [None if c in self.missing else TRUTH.get(c.lower(), c) for c in map(str.strip, cells)]
        return pd.Series(texts, dtype=object)

    @cached_property
    def _marks(self) -> list[float]:
        return _numeric(self.missing, self.decimal)

    def _without_marks(self, values: Floats) -> Floats:
        """Replace numbers that mark missing values, such as -999, however they are written."""
        return np.where(np.isin(values, self._marks), np.nan, values) if self._marks else values

    def _numbers(self, cells: list[str], column: Column, source: Source, block: Block) -> Floats:
        values = _plain_numbers(cells) if self.decimal == "." and column.takes("") else None
        if values is not None:
            return values
        values = np.empty(len(cells))
        for k, cell in enumerate(cells):
            value = np.nan if cell.strip() in self.missing else number(cell, self.decimal)
            if value is None:
                raise ValueError(f"{source.place(block.row(k), column.name)}: {short(cell)} is not a number.")
            if not (np.isnan(value) or value in self._marks) and not column.takes(unit(cell)):
                was = f"in {column.unit}" if column.unit else "without a unit"
                where = source.place(block.row(k), column.name)
                raise ValueError(f"{where}: {short(cell)} cannot be compared with the numbers learned from, {was}.")
            values[k] = value
        return values

    def _dates(self, cells: list[str], column: Column, source: Source, block: Block) -> "pd.Series[Any]":
        present = pd.Series([None if c in self.missing else c for c in map(str.strip, cells)], dtype=object)
        moments = _moments(present, DATES[column.date])
        bad = moments.isna() & present.notna()
        if bad.any():
            k = int(np.argmax(bad))
            where = source.place(block.row(k), column.name)
            raise ValueError(f"{where}: {short(cells[k])} is not a date ({column.date}).")
        return moments

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "missing": sorted(self.missing),
            "decimal": self.decimal,
        }

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "Schema":
        """The inverse of `facts`."""
        columns = tuple(
            Column(
                str(column["name"]),
                str(column["kind"]),
                str(column["date"]),
                None if column.get("unit") is None else str(column["unit"]),
            )
            for column in facts["columns"]
        )
        if not all(c.kind in ("number", "date", "category") and (c.kind != "date" or c.date in DATES) for c in columns):
            raise ValueError("corrupt model file: a column is of an unknown kind.")
        return cls(columns, frozenset(map(str, facts["missing"])), str(facts["decimal"]))


# ---------------------------------------------------------------- finding out


@dataclass
class _Seen:
    """What is known of a column so far."""

    name: str
    typed: str | None = None  # the kind, if the file states it
    present: int = 0
    numbers: int = 0
    strange: tuple[int, str] | None = None  # row and text of the first cell that is not a number
    units: dict[str, tuple[int, str]] = field(default_factory=dict)  # row and text of the first number in each unit
    dates: list[str] = field(default_factory=lambda: list(DATES))
    codes: bool = False  # whether some cells begin with 0, such as 007


def infer(
    source: Source,
    *,
    exclude: Iterable[str] = (),
    categories: Iterable[str] = (),
    numbers: Iterable[str] = (),
    missing: Iterable[str] = (),
    decimal: str = ".",
    day_first: bool | None = None,
) -> Schema:
    """The kinds of the columns, from all rows, but for those to `exclude`.

    `categories` are columns of categories whatever they hold, `numbers` those that must be numbers. `day_first` says
    what 01/02/2024 means; without it such a column is refused, unless a row of it tells.
    """
    marks, exclude, categories, numbers = MISSING | set(missing), set(exclude), set(categories), set(numbers)
    for name in [*numbers, *categories, *exclude]:
        if name not in source.names:
            raise ValueError(f"{source.path} has no column {name!r}{suggestion(name, source.names)}")
    seen = [_Seen(name, "category" if name in categories else None) for name in source.names if name not in exclude]
    rows = 0
    for block in source.blocks():
        for column in seen:
            _look(column, block, marks, decimal)
        rows += len(block)
    if not rows:
        raise ValueError(f"{source.path} has a header and no rows.")
    columns = tuple(_decided(column, source, column.name in numbers, day_first) for column in seen)
    return Schema(columns, frozenset(marks), decimal)


def _look(seen: _Seen, block: Block, marks: frozenset[str] | set[str], decimal: str) -> None:
    cells = block.column(seen.name)
    if not isinstance(cells, list):
        if seen.typed is None and cells.notna().any():
            seen.typed = _kind_of(cells)
        if seen.typed in ("number", "date") and _kind_of(cells) == seen.typed:
            seen.present += int(cells.notna().sum())
            return
        cells = _texts(cells)
    seen.codes = seen.codes or _CODES.search("\n".join(cells)) is not None
    if seen.typed is None and decimal == ".":
        values = _plain_numbers(cells)
        if values is not None:
            n = int((~np.isnan(values)).sum())
            counted = ~(np.isnan(values) | np.isin(values, _numeric(marks, decimal)))
            if counted.any() and "" not in seen.units:
                k = int(np.argmax(counted))
                seen.units[""] = block.row(k), cells[k]
            seen.present, seen.numbers, seen.dates = seen.present + n, seen.numbers + n, seen.dates if n == 0 else []
            return
    present = [(k, cell) for k, cell in enumerate(map(str.strip, cells)) if cell not in marks]
    seen.present += len(present)
    if seen.typed is not None or not present:
        return
    meant = _numeric(marks, decimal)
    for k, cell in present:
        value = number(cell, decimal)
        if value is not None:
            seen.numbers += 1
            if value not in meant:
                seen.units.setdefault(unit(cell), (block.row(k), cell))
        elif seen.strange is None:
            seen.strange = block.row(k), cell
    texts = pd.Series([cell for _, cell in present], dtype=object)
    seen.dates = [date for date in seen.dates if _moments(texts, DATES[date]).notna().all()]


def _decided(seen: _Seen, source: Source, must_be_number: bool, day_first: bool | None) -> Column:
    if must_be_number and not seen.present:
        raise ValueError(f"{source.path}: column {seen.name!r}, the target, is empty in all rows.")
    if must_be_number and seen.typed != "number" and seen.numbers < seen.present:
        if seen.strange is None:
            what = "truth values: write 1 and 0" if seen.typed == "truth value" else f"a {seen.typed}"
            raise ValueError(f"{source.path}: column {seen.name!r}, the target, must be numbers, not {what}.")
        row, cell = seen.strange
        raise ValueError(f"{source.place(row, seen.name)}: {short(cell)} is not a number, and the target must be one.")
    if not seen.present:
        raise TableError(f"{source.path}: column {seen.name!r} is empty in all rows.", exclude=seen.name)
    if seen.typed is not None:
        kind = "category" if seen.typed == "truth value" else seen.typed
        return Column(seen.name, kind, "year-month-day" if kind == "date" else "")
    if seen.numbers == seen.present:
        if seen.codes and not must_be_number:
            return Column(seen.name, "category")
        settings = {} if must_be_number else {"category": seen.name, "exclude": seen.name}
        return Column(seen.name, "number", unit=_unit_of(seen, source, settings))
    if seen.dates and not seen.numbers:
        return Column(seen.name, "date", _form(seen, source, day_first))
    if seen.numbers >= MOSTLY * seen.present and seen.strange is not None:
        row, cell = seen.strange
        raise TableError(
            f"{source.place(row, seen.name)}: {short(cell)} is not a number, and {seen.numbers:,} of {seen.present:,} "
            "cells are; correct it, declare it missing, or declare the column a category.",
            missing=cell,
            category=seen.name,
        )
    return Column(seen.name, "category")


def _unit_of(seen: _Seen, source: Source, settings: dict[str, Any]) -> str:
    """The one unit of a column of numbers; refuses two that cannot be compared."""
    name = next(filter(None, seen.units), "")
    column = Column(seen.name, "number", unit=name)
    for other, (row, cell) in seen.units.items():
        if not column.takes(other):
            before, example = seen.units[name]
            raise TableError(
                f"{source.place(row, seen.name)}: {short(cell)} cannot be compared with {short(example)} in row "
                f"{before}; write all of them in one unit.",
                **settings,
            )
    return name


def _form(seen: _Seen, source: Source, day_first: bool | None) -> str:
    """How the dates of a column are written; refuses those that can be read in two ways."""
    both = ["day/month/year", "month/day/year"]
    if not set(both) <= set(seen.dates):
        return seen.dates[0]
    if day_first is None:
        row, cell = seen.strange or (2, "")
        raise TableError(
            f"{source.place(row, seen.name)}: {short(cell)} may be day/month/year or month/day/year, and no row shows "
            "which.",
            dayfirst=True,
            monthfirst=True,
            category=seen.name,
        )
    return both[0] if day_first else both[1]


def _kind_of(cells: "pd.Series[Any]") -> str | None:
    """The kind of a typed column; None for text."""
    if pd.api.types.is_bool_dtype(cells):
        return "truth value"
    if pd.api.types.is_numeric_dtype(cells) or cells.dtype.kind == "m":
        return "number"
    return "date" if cells.dtype.kind == "M" or str(cells.dtype).startswith("date") else None


# ---------------------------------------------------------------- cells


def number(cell: str, decimal: str = ".") -> float | None:
    """The number in a cell, or None."""
    text, _ = _amount(cell)
    if decimal != ".":
        text = text.translate(str.maketrans(".,", ",."))
    if "," in text:
        text = text.replace(",", "") if _GROUPED.fullmatch(text) else "no"
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _numeric(marks: Iterable[str], decimal: str) -> list[float]:
    """Those signs for missing values that are numbers."""
    return [value for value in (number(mark, decimal) for mark in marks) if value is not None and value == value]


def unit(cell: str) -> str:
    """The currency or percent sign of a number in a cell, or ""."""
    return _amount(cell)[1]


def _amount(cell: str) -> tuple[str, str]:
    """The number in a cell, as text, and its unit, before or behind it; all of the cell if it has two units."""
    found = _AMOUNT.fullmatch(cell.strip())
    assert found is not None  # matches anything
    if found["before"] and found["after"]:
        return cell, ""
    name = found["before"] or found["after"] or ""
    return found["number"], CURRENCIES.get(name, name)


def _plain_numbers(cells: Sequence[str]) -> Floats | None:
    """All cells as numbers if each is a plain number or empty; None otherwise."""
    try:
        if "" in cells:
            values = np.array([float(cell) if cell else np.nan for cell in cells])
        else:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    return None if "_" in "".join(cells) else values


def _finite(values: Floats, cells: Any, column: Column, source: Source, block: Block) -> Floats:
    infinite = np.isinf(values)
    if infinite.any():
        k = int(np.argmax(infinite))
        text = short(str(cells[k] if isinstance(cells, list) else cells.iloc[k]))
        raise ValueError(f"{source.place(block.row(k), column.name)}: {text} is not a finite number.")
    return values


def _moments(texts: "pd.Series[Any]", form: str) -> "pd.Series[Any]":
    """Parse dates in a given form, with or without a time; NaT where that fails."""
    present = texts.dropna()
    if form == "ISO8601":
        fits = present.str.fullmatch(_ISO.pattern)
        moments = pd.to_datetime(present.where(fits), format=form, errors="coerce", utc=True)
    else:
        moments = pd.to_datetime(present, format=form, errors="coerce", utc=True)
        for time in (" %H:%M", " %H:%M:%S"):
            if moments.isna().any():
                moments = moments.fillna(pd.to_datetime(present, format=form + time, errors="coerce", utc=True))
    return moments.reindex(texts.index)


def _typed_dates(cells: "pd.Series[Any]", column: Column, source: Source, block: Block) -> "pd.Series[Any]":
    """Dates of a typed column; years beyond the range of Python's dates are refused."""
    try:
        return pd.to_datetime(cells, utc=True)
    except (OverflowError, ValueError):
        for k in range(len(cells)):
            try:
                pd.to_datetime(cells.iloc[k : k + 1], utc=True)
            except (OverflowError, ValueError):
                where = source.place(block.row(k), column.name)
                raise ValueError(f"{where}: the date is not between the years 1 and 9999.") from None
        raise


def _texts(cells: "pd.Series[Any]") -> list[str]:
    """Cells of a typed column as text; whole numbers stay whole where other cells are missing."""
    return ["" if missing else str(cell) for cell, missing in zip(cells, cells.isna(), strict=True)]
