"""Files with tables: `source` reads them strictly, `schema` tells what columns hold, `target` writes them."""

from aleator.tables.schema import Column, Schema, infer
from aleator.tables.source import Block, Source, opened
from aleator.tables.target import writing

__all__ = ["Block", "Column", "Schema", "Source", "infer", "opened", "writing"]
