"""The command `aleator`. Imports what a command needs only when it runs, so that help is immediate."""

import sys
from pathlib import Path

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="aleator")
def commands() -> None:
    """Pair any regressor with a network that predicts how wrong it will be."""


@commands.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Directory for the figures and the table of predictions.",
)
def demo(out: Path) -> None:
    """Fit two data sets that need no download, and show what was learned."""
    from aleator.demo import run

    run(out)


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
