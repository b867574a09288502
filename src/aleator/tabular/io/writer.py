"""Write a table with further columns; its own cells stay as they are, and the file appears whole or not at all."""

import csv
import gzip
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aleator import atomic_write
from aleator.tabular.io.errors import TableError
from aleator.tabular.io.reader import Block, Source
from aleator.tabular.io.schema import Schema

Answers = dict[str, NDArray[np.float64]]
Write = Callable[[Block, Answers], None]
DIGITS = "%.9g"  # format of an answer in text
ENDS = "\r\n"  # of a line
ENDINGS = [".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq", ""]


@contextmanager
def writing(path: Path, source: Source, schema: Schema, names: list[str]) -> Iterator[Write]:
    """A function that writes blocks of `source`, followed by the columns `names`.

    The path says how: .parquet, .tsv, .csv, the latter two perhaps with .gz; "-" is the standard output. Encoding, line
    ends, delimiter and decimal mark stay those of the table.
    """
    for name in names:
        if name in source.names:
            raise TableError(f"{source.path} has a column {name!r} already; the new ones need a prefix.", prefix=None)
    if str(path) == "-":
        yield _text(sys.stdout, source, schema, names, ",")
        sys.stdout.flush()
        return
    if path.resolve() == source.path.resolve():
        raise ValueError(f"{path} is the table itself; choose another place for the predictions.")
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending not in ENDINGS:
        raise ValueError(f"{path}: tables are written as {', '.join(filter(None, ENDINGS))}, not as {ending}.")
    with atomic_write.whole(path, "table") as beside:
        if ending in (".parquet", ".pq"):
            with _parquet(beside, source, schema) as write:
                yield write
            return
        zipped = path.suffix.lower() == ".gz"
        delimiter = (
            "\t" if ending in (".tsv", ".tab") else source.delimiter if source.delimiter in (",", ";", "|") else ","
        )
        encoding = "utf-8-sig" if source.has_mark else source.encoding
        # neither name nor time in the gzip header: equal tables are equal bytes
        with (
            beside.open("wb") as file,
            gzip.GzipFile("", "wb", 6, file, mtime=0) if zipped else file as packed,
            io.TextIOWrapper(packed, encoding, newline="") as text,
        ):
            yield _text(text, source, schema, names, delimiter)


def _text(file: IO[str], source: Source, schema: Schema, names: list[str], delimiter: str) -> Write:
    """Line ends and decimal mark of the table."""
    end = source.line_end
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end)
    quoting = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow([*source.names, *names])
    form = delimiter.join([DIGITS] * len(names))
    swaps = schema.decimal != "." and delimiter != schema.decimal

    def write(block: Block, answers: Answers) -> None:
        cells_by_row = [form % row for row in zip(*(column.tolist() for column in answers.values()), strict=True)]
        cells_by_row = [row.replace(".", schema.decimal) for row in cells_by_row] if swaps else cells_by_row
        if block.lines is not None and block.delimiter == delimiter:
            lines = zip(block.lines, cells_by_row, strict=True)
            file.writelines([f"{line.rstrip(ENDS)}{delimiter}{new}{end}" for line, new in lines])
        else:
            rows = [[*cells, *new.split(delimiter)] for cells, new in zip(_cells(block), cells_by_row, strict=True)]
            careful = any("\r" in str(cell) for row in rows for cell in row)  # which the csv module does not quote
            (quoting if careful else writer).writerows(rows)

    return write


def _cells(block: Block) -> Iterator[Any]:
    if not isinstance(block.rows, pd.DataFrame):
        return iter(block.cells)
    columns = [block.rows[name] for name in block.names]
    texts = [column.astype(object).where(column.notna(), "").tolist() for column in columns]
    return zip(*texts, strict=True)


@contextmanager
def _parquet(path: Path, source: Source, schema: Schema) -> Iterator[Write]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'aleator[parquet]'.") from None
    kinds = {column.name: column.kind for column in schema.columns}
    writers: list[Any] = []

    def write(block: Block, answers: Answers) -> None:
        if isinstance(block.rows, pd.DataFrame):
            frame = block.rows.assign(**answers)
        else:
            typed = schema.frame(source, block).reset_index(drop=True)
            own = {
                name: typed[name] if kinds.get(name) in ("number", "date") else block.column(name)
                for name in block.names
            }
            frame = pd.DataFrame(own | answers)
        table = pyarrow.Table.from_pandas(frame, schema=writers[0].schema if writers else None, preserve_index=False)
        table = table.replace_schema_metadata(None)  # pandas could not read its own names of such types
        if not writers:
            writers.append(parquet.ParquetWriter(path, table.schema))
        writers[0].write_table(table)

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()
