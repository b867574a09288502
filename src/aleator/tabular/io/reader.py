"""Read tables strictly: CSV and TSV, gzipped or not, and Parquet, in blocks of rows.

A malformed table is refused with the place of the first error; nothing is guessed, skipped or filled in.
Rows are counted as in a spreadsheet: the header is row 1.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from aleator.tabular.io.errors import TableError

ROWS = 10_000  # in a block
MOST_COLUMNS = 2_000
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SHOWN = 40  # characters of a cell in a message
TRUTH = ("rue", "RUE", "alse", "ALSE")  # pandas reads such cells as truth values, and then as 1 and 0
_VERSION = tuple(int(part) for part in pd.__version__.split(".")[:2])
PRECISE: dict[str, Any] = {} if _VERSION >= (3, 1) else {"float_precision": "round_trip"}  # parse to the nearest float


@dataclass(frozen=True)
class Block:
    """Some rows of a table; the first of them is row `first` of the file.

    The rows are text or a typed frame. Where no cell is quoted they are whole lines, which are faster to parse and to
    write again.
    """

    first: int
    names: list[str]
    rows: list[list[str]] | pd.DataFrame | None
    lines: list[str] | None = None
    delimiter: str | None = None
    numbers_of_rows: list[int] | None = None  # set if there are empty lines between the rows

    def row(self, k: int) -> int:
        """The number in the file of the k-th row of the block."""
        return self.first + k if self.numbers_of_rows is None else self.numbers_of_rows[k]

    def __len__(self) -> int:
        return len(self.lines) if self.lines is not None else len(self.rows)  # type: ignore[arg-type]

    @cached_property
    def cells(self) -> list[list[str]]:
        """The cells, row by row."""
        if isinstance(self.rows, list):
            return self.rows
        return [line.rstrip("\r\n").split(self.delimiter) for line in self.lines or []]

    def column(self, name: str) -> "list[str] | pd.Series[Any]":
        """The cells of a column."""
        if isinstance(self.rows, pd.DataFrame):
            return self.rows[name]
        k = self.names.index(name)
        return [row[k] for row in self.cells]

    def numbers(self, names: list[str], missing: Iterable[str]) -> "pd.DataFrame | None":
        """Columns of numbers at once, if the block is lines and all cells are plainly numbers or missing."""
        if self.lines is None or not names:
            return None
        text = "".join(self.lines)
        if any(letters in text for letters in TRUTH):
            return None
        try:
            read: pd.DataFrame = pd.read_csv(
                io.StringIO(text),
                sep=self.delimiter,
                header=None,
                names=self.names,
                usecols=names,
                index_col=False,
                dtype=np.float64,
                na_values=list(missing),
                keep_default_na=False,
                quoting=csv.QUOTE_NONE,
                **PRECISE,
            )
            return read[names]
        except ValueError:
            return None  # `Schema` reads them one by one and names the cell


@dataclass(frozen=True)
class Source:
    """A file with a table in it: text with a delimiter, or Parquet (delimiter None)."""

    path: Path
    names: list[str]
    delimiter: str | None
    encoding: str = "utf-8"
    has_mark: bool = False  # a byte order mark
    line_end: str = "\n"

    def blocks(self) -> Iterator[Block]:
        """Iterate over the table in blocks."""
        return _text_blocks(self, ROWS) if self.delimiter is not None else _parquet_blocks(self, ROWS)

    def place(self, row: int, column: str | None = None) -> str:
        """A position in the file, for messages."""
        return f"{self.path}: row {row}" + ("" if column is None else f", column {column!r}")


def opened(path: str | PathLike[str], delimiter: str | None = None, encoding: str = "utf-8") -> Source:
    """Open a table. Its first bytes tell the format, its name whether commas or tabs are expected.

    Parameters
    ----------
    path : str or PathLike
        A CSV, TSV or Parquet file; text may be gzipped.
    delimiter : str, default=None
        Delimiter of the columns; None is a comma, or a tab in .tsv.
    encoding : str, default="utf-8"
        Encoding of the text.

    Returns
    -------
    Source
        The table, to be read in blocks.

    Raises
    ------
    TableError
        If the file is not a table.

    Examples
    --------
    See `aleator.tabular.fit`.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a directory, not a table.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is not a file that can be read twice; save it to one first.")
    start = _start(path)
    if not start:
        raise ValueError(f"{path} is empty.")
    if start.startswith(b"PAR1"):
        return _checked(Source(path, _parquet_names(path), None))
    if path.suffix.lower() in (".parquet", ".pq"):
        raise ValueError(f"{path} is named like Parquet, but is none.")
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise ValueError(f"{path} is a zip archive or an Excel file, not CSV; save the sheet as CSV first.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) and "16" not in encoding:
        raise TableError(f"{path} is UTF-16; save it as UTF-8, or name its encoding.", encoding="utf-16")
    if delimiter is None:
        delimiter = "\t" if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")) else ","
    source = Source(path, [], delimiter, encoding)
    names, line_end = _header(source)
    return _checked(replace(source, names=names, line_end=line_end, has_mark=start.startswith(b"\xef\xbb\xbf")))


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"\x1f\x8b"):
        with _plain(path) as unpacked:
            try:
                return unpacked.read(8)
            except (OSError, EOFError, zlib.error) as error:
                raise ValueError(f"{path} is a damaged gzip file: {error}.") from None
    return start


@contextmanager
def _plain(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if it is gzipped."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not zipped:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked  # type: ignore[misc]


def _checked(source: Source) -> Source:
    """Raise an error unless every column has a unique name."""
    path, names = source.path, source.names
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"{path} has {len(names):,} columns; at most {MOST_COLUMNS:,} are taken.")
    if len(names) == 1:
        others = [d for d in DELIMITERS if d != source.delimiter and d in names[0]]
        expected = DELIMITERS.get(source.delimiter or "", repr(source.delimiter))
        only = f"{path} has only one column, {short(names[0])}"
        if others:
            question = f"are its cells divided by the {DELIMITERS[others[0]]}, not the {expected}?"
            raise TableError(f"{only}: {question}", delimiter=others[0])
        raise ValueError(f"{only}.")
    if all(_is_number(name) for name in names):
        raise ValueError(f"{path}: row 1 holds numbers only, {short(names[0])} and so on: the header is missing.")
    for k, name in enumerate(names):
        if not name:
            raise ValueError(
                f"{path}: row 1: column {k + 1} has no name. Give it one, or write the file without row numbers."
            )
        if name in names[:k]:
            raise ValueError(
                f"{path}: row 1: columns {names.index(name) + 1} and {k + 1} are both named {short(name)}."
            )
    return source


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def short(cell: str) -> str:
    """A cell for a message: printable, quoted, short, on one line."""
    return repr(cell if len(cell) <= SHOWN else cell[: SHOWN - 3] + "...")


# ---------------------------------------------------------------- text


def _text_blocks(source: Source, size: int) -> Iterator[Block]:
    with _read(source) as text:
        next(csv.reader(text, delimiter=source.delimiter or ",", strict=True))
        first = 2
        while lines := list(islice(text, size)):
            if _is_plain(lines, source):
                yield Block(first, source.names, None, lines, source.delimiter)
                first += len(lines)
            else:
                first = yield from _carefully(source, text, lines, first)


def _is_plain(lines: list[str], source: Source) -> bool:
    """Whether each line is a row of plain cells."""
    together, delimiter, n = "".join(lines), source.delimiter or ",", len(source.names)
    return (
        '"' not in together
        and "\0" not in together
        and all(line.count(delimiter) == n - 1 for line in lines)
        and max(map(len, lines)) < csv.field_size_limit()
    )


def _carefully(source: Source, text: IO[str], lines: list[str], first: int) -> Generator[Block, None, int]:
    """The rows that begin in these lines. Quoted cells may continue on further lines of the text.

    Returns the number of the row that comes next.
    """
    reader = csv.reader(chain(lines, text), delimiter=source.delimiter or ",", strict=True)
    rows: list[list[str]] = []
    numbers: list[int] = []
    number, n = first, len(source.names)
    while reader.line_num < len(lines):
        try:
            cells = next(reader)
        except csv.Error as error:
            raise ValueError(f"{source.place(number)}: {_explained(error)}.") from None
        if any("\0" in cell for cell in cells):
            raise TableError(f"{source.place(number)} has a NUL byte: not text, or UTF-16.", encoding="utf-16")
        if cells and len(cells) != n:
            raise ValueError(f"{source.place(number)} has {len(cells)} cells, the header has {n}.")
        if cells:  # skip empty lines
            rows.append(cells)
            numbers.append(number)
        number += 1
    if rows:
        yield Block(numbers[0], source.names, rows, numbers_of_rows=numbers)
    return number


@contextmanager
def _read(source: Source) -> Iterator[IO[str]]:
    """Read the text of a file line by line."""
    encoding = "utf-8-sig" if source.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else source.encoding
    try:
        with _plain(source.path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
            yield text
    except UnicodeError:
        raise TableError(_undecodable(source, encoding), encoding="latin-1") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{source.path} is a damaged gzip file: {error}.") from None


def _header(source: Source) -> tuple[list[str], str]:
    """The names of the columns, and how lines end."""
    with _read(source) as text:
        try:
            lines = list(islice(text, 1))
            cells = next(csv.reader(chain(lines, text), delimiter=source.delimiter or ",", strict=True), [])
        except csv.Error as error:
            raise ValueError(f"{source.place(1)}: {_explained(error)}.") from None
    if any("\0" in cell for cell in cells):
        raise TableError(f"{source.place(1)} has a NUL byte: not text, or UTF-16.", encoding="utf-16")
    if not cells:
        raise ValueError(f"{source.path}: row 1 is empty, and should be the header.")
    return [name.strip() for name in cells], "\r\n" if lines[0].endswith("\r\n") else "\n"


def _explained(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end of data" in text:
        return "a quotation mark is opened here and never closed"
    if "expected after" in text:
        return "text follows a closing quotation mark; a mark inside of a cell is written twice"
    return "a cell is too long, or a quotation mark before it is left open" if "field larger" in text else text


def _undecodable(source: Source, encoding: str) -> str:
    with _plain(source.path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeError as error:
                what = f" (byte 0x{line[error.start]:02x})" if isinstance(error, UnicodeDecodeError) else ""
                return (
                    f"{source.path}: line {number} is not {source.encoding.upper()}{what}; save the file as UTF-8, or "
                    "name its encoding."
                )
    return f"{source.path} is not {source.encoding.upper()}."


# ---------------------------------------------------------------- Parquet


def _parquet_names(path: Path) -> list[str]:
    parquet = _parquet()
    try:
        schema = parquet.read_schema(path)
        nested = next(
            (field for field in schema if field.type.num_fields and "dictionary" not in str(field.type)), None
        )
        if nested is None:
            return [str(name) for name in schema.names]
    except Exception as error:  # damaged files raise errors of many types
        raise ValueError(f"{path} is a damaged Parquet file: {str(error).splitlines()[0]}.") from None
    raise ValueError(f"{path}: column {nested.name!r} holds {nested.type}, not numbers, dates or texts.")


def _parquet_blocks(source: Source, size: int) -> Iterator[Block]:
    parquet = _parquet()
    first = 2
    try:
        with parquet.ParquetFile(source.path) as file:
            for batch in file.iter_batches(batch_size=size):
                frame = batch.to_pandas(
                    types_mapper=pd.ArrowDtype, ignore_metadata=True
                )  # an index is read as a column
                frame.columns = source.names
                yield Block(first, source.names, frame)
                first += len(frame)
    except OSError as error:
        raise ValueError(f"{source.path} is a damaged Parquet file: {str(error).splitlines()[0]}.") from None


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'aleator[parquet]'.") from None
    return parquet
