"""Errors about tables: what is wrong, where, and which settings would help."""

from typing import Any


class TableError(ValueError):
    """A table that cannot be read with these settings.

    Attributes
    ----------
    settings : names of settings and their values, any of which would help; a value of True is a switch, and None has to
        be chosen. The command shows them as options.
    """

    def __init__(self, message: str, **settings: Any) -> None:
        super().__init__(message)
        self.settings = settings
