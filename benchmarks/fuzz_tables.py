"""Mutated tables against two other readers: `make fuzz-tables ARGS="--tables 20000 --seed 0"`.

A table of numbers, money, percentages, dates and texts is made, its bytes or cells are changed at random, and aleator reads
it. What it does not refuse is compared with Python's csv module and float(), and with pyarrow, cell by cell. Counted:
differences, and errors of another type than ValueError. A difference prints its seed and is written to --keep, if given.
"""

import argparse
import collections
import csv
import io
import math
import re
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from aleator.tabular.io import infer, opened
from aleator.tabular.io.schema import MISSING

CELLS = [
    "", "NA", "NaN", "null", "?", "-", "0", "-0.0", "1e5", "1E-3", "+7", ".5", "5.", "1,234.5", "1,23", "1_000", "0x1F", "inf",
    "1e400", "1e-400", "007", "TRUE", "false", "$5", "€7", "5 %", "5%", "$1,200", "--5", "1 2", " 3 ", "\t4", "1e", "e5", "nan(1)",
    "0.1000000000000000055511151231257827", "0.0000000000000000000011362", "9007199254740993", "123456789012345678901234567890",
    "2024-05-17", "2024-02-30", "17.05.2024", "01/02/2024", "2024-05-17T10:00", "a", "ä", "naïve", "#N/A", "None", "\u00a05", "5\u00a0",
    "٣", "１２", "−5", "1.5.2", "1e5.5", "Infinity", "-nan", "0.1e+03", "1,000,000", "12,34", "'5'", '"', '""', '"5"', "5,6",
]  # fmt: skip
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


def made(rng: np.random.Generator) -> list[list[str]]:
    """A clean table as texts."""
    n = int(rng.integers(3, 30))
    values = rng.normal(size=n) * 10.0 ** rng.integers(-30, 30)
    columns = {
        "plain": [repr(float(v)) for v in values],
        "long": [f"{v:.{int(rng.integers(1, 30))}f}" for v in rng.normal(size=n) * 10.0 ** rng.integers(-20, 6)],
        "whole": [str(v) for v in rng.integers(-(10**6), 10**6, n)],
        "money": [f"${abs(v):,.2f}" for v in values % 1e7],
        "share": [f"{v:.1f} %" for v in rng.uniform(0, 100, n)],
        "day": [f"20{rng.integers(10, 30)}-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}" for _ in range(n)],
        "word": [str(w) for w in rng.choice(["Ulm", "Bonn", "São Paulo", "a, b", 'say "x"', ""], n)],
    }
    names = [str(name) for name in rng.permutation(list(columns))[: rng.integers(2, 8)]]
    return [names, *map(list, zip(*(columns[name] for name in names), strict=True))]


def mutated(rows: list[list[str]], rng: np.random.Generator) -> bytes:
    """The table with some of its cells, and then some of its bytes, changed."""
    for _ in range(rng.integers(0, 4)):
        row = rows[rng.integers(1, len(rows))]
        row[rng.integers(len(row))] = str(rng.choice(CELLS))
    text = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL
    csv.writer(text, lineterminator=str(rng.choice(["\n", "\r\n"])), quoting=quoting).writerows(rows)
    content = bytearray(text.getvalue().encode())
    for _ in range(rng.integers(0, 3) if rng.random() < 0.5 else 0):
        at = int(rng.integers(len(content)))
        new = bytes(rng.choice(list(b'0123456789.,-+eE$% \n\r"\0\xffaN;\t')) for _ in range(1))
        change = rng.integers(3)
        content[at : at + (change != 0)] = b"" if change == 2 else new
    return bytes(content)


UNITS = (
    "%",
    "$",
    "€",
    "£",
    "¥",
    "USD",
    "EUR",
    "GBP",
    "JPY",
    "CHF",
    "CNY",
    "INR",
)  # a unit, before or behind the number


def as_python(cell: str) -> float | None:
    """The number in a cell: float(), with the currency, percent and thousands signs that the documentation names."""
    text = cell.strip()
    if text in MISSING:
        return math.nan
    ends = [
        (text.removeprefix(name).lstrip() if name != "%" else text, text.removesuffix(name).rstrip()) for name in UNITS
    ]
    without = [part for pair in ends for part in pair if part != text]
    text = without[0] if len(without) == 1 else text
    if "," in text:
        text = text.replace(",", "") if GROUPED.fullmatch(text) else "no number"
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def same(mine: float, other: float) -> bool:
    return mine == other or (math.isnan(mine) and math.isnan(other))


def differences(content: bytes, path: Path) -> list[str]:
    """What aleator reads otherwise than Python or pyarrow; nothing if it refuses the table."""
    path.write_bytes(content)
    source = opened(path)
    schema = infer(source)
    frame = schema.read(source)
    found = []
    text = content.decode("utf-8-sig")
    header, *rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    names = [name.strip() for name in header]
    if len(rows) != len(frame):
        return [f"{len(frame)} rows, Python has {len(rows)}"]
    arrow = by_arrow(content, names)
    if arrow is not None and arrow.num_rows != len(rows):
        arrow = None  # a difference of pyarrow and Python, not ours
    for column in schema.columns:
        k = names.index(column.name)
        cells = [row[k] for row in rows]
        theirs = None if arrow is None else arrow.column(k).to_pylist()
        for row, cell in enumerate(cells):
            mine = frame[column.name].iloc[row]
            if theirs is not None and theirs[row] != cell:
                found.append(f"{column.name} {row}: pyarrow has {theirs[row]!r}, Python {cell!r}")
            if column.kind == "number":
                other = as_python(cell)
                if other is None or not same(float(mine), other):
                    found.append(f"{column.name} {row}: {mine!r} for {cell!r}, Python {other!r}")
            elif column.kind == "category":
                text = "" if cell.strip() in MISSING else cell.strip()
                if (mine or "") != (text.capitalize() if text.lower() in ("true", "false") else text):
                    found.append(f"{column.name} {row}: {mine!r} for {cell!r}")
            elif column.date == "year-month-day" and cell.strip() not in MISSING:
                other_day = datetime.fromisoformat(cell.strip())
                other_day = other_day.replace(tzinfo=UTC) if other_day.tzinfo is None else other_day
                if pd.Timestamp(mine) != pd.Timestamp(other_day):
                    found.append(f"{column.name} {row}: {mine!r} for {cell!r}")
        if column.kind == "number" and arrow is not None:
            found += against_arrow(arrow.column(k), frame[column.name].to_numpy(float), column.name)
    return found


def by_arrow(content: bytes, names: list[str]) -> "pa.Table | None":
    """The cells as texts, if pyarrow reads the table."""
    if len(set(names)) < len(names):
        return None
    convert = arrow_csv.ConvertOptions(
        column_types={name: pa.string() for name in names}, strings_can_be_null=False, quoted_strings_can_be_null=False
    )
    options = arrow_csv.ReadOptions(column_names=names, skip_rows=1)
    try:
        return arrow_csv.read_csv(
            io.BytesIO(content), options, arrow_csv.ParseOptions(newlines_in_values=True), convert
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None


def against_arrow(texts: "pa.ChunkedArray", mine: np.ndarray, name: str) -> list[str]:
    """Plain numbers as pyarrow converts them."""
    found = []
    for row, text in enumerate(texts.to_pylist()):
        if re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", text):
            other = pa.scalar(text).cast(pa.float64()).as_py()
            if not same(float(mine[row]), other):
                found.append(f"{name} {row}: {mine[row]!r}, pyarrow {other!r}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for tables that are read otherwise")
    asked = parser.parse_args()
    count: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for k in range(asked.tables):
            rng = np.random.default_rng([asked.seed, k])
            content = mutated(made(rng), rng)
            try:
                found = differences(content, Path(folder) / "table.csv")
                count["read"] += 1
            except ValueError:
                count["refused"] += 1
                continue
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
                count["another error"] += 1
            if found:
                count["differences"] += 1
                print(f"seed {asked.seed} {k}: {found[:3]}", file=sys.stderr)
                if asked.keep:
                    asked.keep.mkdir(exist_ok=True)
                    (asked.keep / f"{asked.seed}-{k}.csv").write_bytes(content)
    print(f"pandas {pd.__version__}, pyarrow {pa.__version__}, seed {asked.seed}: {dict(count)}")
    sys.exit(bool(count["differences"]))


if __name__ == "__main__":
    main()
