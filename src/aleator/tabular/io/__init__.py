"""Files with tables: `reader` reads them strictly, `schema` finds what columns hold, `writer` writes them."""

from aleator.tabular.io.errors import TableError
from aleator.tabular.io.reader import Block, Source, opened
from aleator.tabular.io.schema import Column, Schema, infer
from aleator.tabular.io.writer import writing

__all__ = ["Block", "Column", "Schema", "Source", "TableError", "infer", "opened", "writing"]
