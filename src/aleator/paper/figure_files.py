"""`aleator reproduce figures`: every figure into a folder, as PNG and SVG, and the learning stages as an animation.

Everything is computed when it is asked for and nothing is read back, so no old result can slip in. A file is complete
or not there: it is written beside its place and then moved. The same versions and settings of matplotlib give the same
bytes. Networks are trained in as many threads as there are; pictures are drawn in one, for matplotlib wants no more.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import matplotlib as mpl
from joblib import effective_n_jobs
from matplotlib.animation import PillowWriter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from aleator import atomic_write, theory
from aleator.paper import figures as drawn
from aleator.suggestions import suggestion

Draw = Callable[[Path], None]

DPI = 130
FRAMES_A_SECOND = 11


def _picture(name: str) -> dict[str, Draw]:
    """A figure as PNG and as SVG."""

    def save(path: Path) -> None:
        # without a date, and with the names inside the file drawn from its own name, the same figure is the same bytes
        with mpl.rc_context({"svg.hashsalt": name}):
            drawn.FIGURES[name]().savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None)

    return {f"{name}.png": save, f"{name}.svg": save}


def _animation(path: Path) -> None:
    drawn.learning_animation().save(path, writer=PillowWriter(fps=FRAMES_A_SECOND))


def _table(path: Path) -> None:
    theory.contributions().to_csv(path)


# The files that each name stands for, and how each is written.
FILES: dict[str, dict[str, Draw]] = {name: _picture(name) for name in drawn.FIGURES}
FILES["contributions"]["contributions.csv"] = _table
FILES["learning_animation"] = {"learning_animation.gif": _animation}


def figures(out: Path, names: Sequence[str] = (), console: Console | None = None) -> list[Path]:
    """Write these figures (all, if none is named) to the folder `out`; returns the files."""
    console = console or Console(stderr=True)
    for name in names:
        if name not in FILES:
            raise ValueError(f"there is no figure {name!r}{suggestion(name, FILES)}")
    wanted = list(dict.fromkeys(names)) or list(FILES)
    out.mkdir(parents=True, exist_ok=True)
    settings = list(dict.fromkeys(setting for name in wanted for setting in drawn.NETWORKS.get(name, ())))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    written = []
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        networks = bar.add_task("training networks", total=len(settings))
        pictures = bar.add_task("drawing", total=sum(len(FILES[name]) for name in wanted))
        with ThreadPoolExecutor(effective_n_jobs(-1)) as pool:
            training = [pool.submit(drawn.learned, setting) for setting in settings]
            try:
                for done in as_completed(training):
                    done.result()
                    bar.advance(networks)
            except BaseException:
                pool.shutdown(cancel_futures=True)  # those that have begun end first, within seconds
                raise
        for name in wanted:
            for file, draw in FILES[name].items():
                with atomic_write.whole(out / file, "figure") as beside:
                    draw(beside)
                written.append(out / file)
                bar.advance(pictures)
    return written
