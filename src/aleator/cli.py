"""The command `aleator`. Imports what a command needs only when it runs, so that help is immediate."""

import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="aleator")
def commands() -> None:
    """Pair any regressor with a network that predicts how wrong it will be."""


def _out(default: str, text: str, *, folder: bool) -> Callable[[Command], Command]:
    """The option that says where to write: to a folder or to a file."""
    place = click.Path(file_okay=not folder, dir_okay=folder, path_type=Path)
    return click.option("--out", type=place, default=Path(default), show_default=True, help=text)


@commands.command()
@_out("demo", "Directory for the figures and the table of predictions.", folder=True)
def demo(out: Path) -> None:
    """Fit two data sets that need no download, and show what was learned."""
    from aleator.demo import run

    run(out)


@commands.group()
def reproduce() -> None:
    """Compute what the paper shows."""


@reproduce.command()
@click.argument("names", nargs=-1, metavar="[FIGURE]...")
@_out("figures", "Folder for the files.", folder=True)
def figures(names: tuple[str, ...], out: Path) -> None:
    """Draw every figure up to section 7, or those named, as PNG and SVG; a minute or two on two cores.

    Figures: speeds, contributions, flowchart, surfaces, smooth_fit, sharp_interfaces, learning_stages, softplus_sharp,
    learning_animation.

    Example: aleator reproduce figures speeds learning_animation --out docs/figures
    """
    from aleator.paper import reproduce

    for path in reproduce.figures(out, names):
        click.echo(path)


@commands.command()
@_out("playground.html", "Where to write the page.", folder=False)
@click.option("--open/--no-open", "show", default=True, help="Open it in the browser.  [default: --open]")
def playground(out: Path, show: bool) -> None:
    """Write a page to play with lambda: one file, no server, works offline."""
    from aleator.paper import playground as page

    path = page.write(out)
    click.echo(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        click.echo("no browser was found; open the file by hand.", err=True)


def main() -> None:
    """Run the command; an error is one line, not a traceback."""
    try:
        commands.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("aleator: interrupted", err=True)
        sys.exit(130)
    except (ValueError, ArithmeticError, OSError) as error:
        click.echo(f"aleator: {error}", err=True)
        sys.exit(1)
