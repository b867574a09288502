"""Options that commands share: each has one name and one meaning."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

FEWEST_BYTES = 16  # of a key
Command = TypeVar("Command", bound=Callable[..., Any])


def out_option(default: str | None, text: str, *, folder: bool) -> Callable[[Command], Command]:
    """Where to write: a folder or a file."""
    place = click.Path(file_okay=not folder, dir_okay=folder, path_type=Path)
    return click.option(
        "--out",
        type=place,
        default=None if default is None else Path(default),
        show_default=default is not None,
        help=text,
    )


def choice(name: str, known: list[str], text: str) -> Callable[[Command], Command]:
    """An option that takes one of some words, the first if none is given."""
    return click.option(name, type=click.Choice(known), default=known[0], show_default=True, help=text)


def table_options(command: Command) -> Command:
    """How a table is written."""
    for option in (
        click.option("--delimiter", metavar="C", help="Between cells.  [default: a comma; in .tsv a tab]"),
        click.option("--encoding", default="utf-8", show_default=True, help="Of a text file, as latin-1 or utf-16."),
    ):
        command = option(command)
    return command


def _key(context: click.Context, parameter: click.Parameter, path: Path | None) -> bytes | None:
    if path is None:
        return None
    key = path.read_bytes()
    if len(key) < FEWEST_BYTES:
        raise click.BadParameter(f"{path} has {len(key)} bytes; a key has at least {FEWEST_BYTES}, all random.")
    return key


def key_option(text: str) -> Callable[[Command], Command]:
    """A secret that signs model files, in a file of its own."""
    place = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option("--key-file", "key", type=place, callback=_key, metavar="FILE", help=text)


reading_key = key_option("A secret: the model must have been signed with it.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
