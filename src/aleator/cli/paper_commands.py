"""`aleator demo`, `reproduce`, `data`, `playground`: what needs no table of the user's."""

import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from aleator.cli.options import choice, out_option


@click.command()
@out_option("demo", "Directory for the figures and the table of predictions.", folder=True)
def demo(out: Path) -> None:
    """Fit three data sets that need no download, and show what was learned.

    Example: aleator demo --out demo
    """
    from aleator.demo import run

    run(out)


@click.group()
def reproduce() -> None:
    """Compute what the paper shows."""


@reproduce.command()
@click.argument("names", nargs=-1, metavar="[FIGURE]...")
@out_option("figures", "Folder for the files.", folder=True)
def figures(names: tuple[str, ...], out: Path) -> None:
    """Draw every figure up to section 7, or those named, as PNG and SVG; a minute or two on two cores.

    Figures: speeds, contributions, flowchart, surfaces, smooth_fit, sharp_interfaces, learning_stages, softplus_sharp,
    learning_animation.

    Example: aleator reproduce figures speeds learning_animation --out docs/figures
    """
    from aleator.paper import figure_files

    for path in figure_files.figures(out, names):
        click.echo(path)


def _names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    """A list like "boston,yacht", each once."""
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    if text is not None and not names:
        raise click.BadParameter("no name is given.")
    return names


@reproduce.command()
@click.option(
    "--datasets", callback=_names, metavar="A,B", help="Data sets.  [default: boston,concrete,power,yacht,kin8nm]"
)
@click.option("--methods", callback=_names, metavar="A,B", help="Methods, or all.  [default: the six of the paper]")
@choice("--objective", ["both", "rmse", "mae"], "Squared loss and RMSE, absolute loss and MAE.")
@click.option("--folds", type=click.IntRange(min=1), default=50, show_default=True, help="How many folds.")
@choice(
    "--hyperparameters",
    ["published", "tuned"],
    "The paper's, or chosen by a grid search on training rows, which takes as long again for each method.",
)
@click.option("--sweep/--no-sweep", default=True, help="Also try other values of lam.  [default: --sweep]")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes on this machine.  [default: one a core]")
@choice(
    "--backend", ["local", "ray", "dask"], "Processes of this machine, or a cluster; the results are the same bits."
)
@click.option("--address", help='Of a cluster: "auto" or "ray://host:10001" for Ray, the scheduler\'s for Dask.')
@out_option("reproduction", "Folder for records, tables and figures.", folder=True)
def tables(out: Path, objective: str, datasets: tuple[str, ...], methods: tuple[str, ...], **others: Any) -> None:
    """Compute the tables and figures of section 8 beside the published numbers; 50 minutes on two cores.

    What was computed is kept in the folder: an interrupted run goes on where it was, and a rerun only computes what is
    missing. Several processes may work in one folder.

    Methods: ml, svgd, pbp, pair, ens_ml, ens_pair (the paper's), auto, quantifier, dropout, beta_nll (further ones).

    Example: aleator reproduce tables --datasets yacht --folds 10 --objective rmse
    """
    from aleator.paper import real_data
    from aleator.paper.protocol import METHODS, OBJECTIVES, SETS

    request = real_data.Request(
        datasets=datasets or SETS,
        methods=tuple(METHODS) if methods == ("all",) else methods or real_data.PAPERS,
        objectives=tuple(OBJECTIVES) if objective == "both" else (objective,),
        **others,
    )
    try:
        paths, failures = real_data.reproduce(out, request)
    except KeyboardInterrupt:
        click.echo(f"what was computed is in {out}; the same command goes on from there.", err=True)
        raise
    for path in paths:
        click.echo(path)
    for line in failures:
        click.echo(line, err=True)
    if failures:
        sys.exit(1)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--mirror", help="An address, or a folder, that has files like boston.csv.gz.")
def data(names: tuple[str, ...], mirror: str | None) -> None:
    """List the data sets of the paper and where they are; those named are downloaded if they are not here, and checked.

    They are looked for in the directory ALEATOR_DATA and in the cache, ALEATOR_CACHE; ALEATOR_MIRROR is a --mirror.

    Example: aleator data boston yacht
    """
    from aleator.datasets import loading, real

    for name in names:
        loading.load(name, mirror)
    for name in names or real.NAMES:
        path = loading.where(name)
        click.echo(f"{name:<11}{path if path else 'not here'}")
    if not names:
        click.echo(f"looked in {', '.join(str(folder) for folder in real.folders())}; aleator data NAME downloads.")


@click.command()
@out_option("playground.html", "Where to write the page.", folder=False)
@click.option("--open/--no-open", "show", default=True, help="Open it in the browser.  [default: --open]")
def playground(out: Path, show: bool) -> None:
    """Write a page to play with lambda: one file, no server, works offline.

    Example: aleator playground --out playground.html
    """
    from aleator.paper import playground as page

    path = page.write(out)
    click.echo(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        click.echo("no browser was found; open the file by hand.", err=True)
