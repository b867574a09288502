"""Progress bars."""

from collections.abc import Callable

from rich import get_console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def progress_bar(show: bool, title: str, total: int) -> tuple[Progress, Callable[[int], None]]:
    """A progress bar and a function that advances it, from any thread; shown in terminals and notebooks only."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    visible = get_console().is_terminal or get_console().is_jupyter
    bar = Progress(*columns, transient=True, disable=not (show and visible))
    task = bar.add_task(title, total=total)
    return bar, lambda steps: bar.advance(task, steps)
