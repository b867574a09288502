"""The command `aleator`. Imports what a command needs only when it runs, so that help is immediate.

Exit codes: 0 it is done; 2 something that was given is wrong (arguments, a table, a file, a place to write to), and one
line says what; 1 it failed for another reason; 130 it was interrupted (Ctrl-C), 143 terminated (SIGTERM), 129 its
terminal was closed (SIGHUP).
"""

import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

import click

from aleator import atomic_write
from aleator.cli import paper_commands, table_commands

PATIENCE = 1.2  # seconds that an interrupted command has to end by itself
ENDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
ENDS |= {signal.SIGHUP: "its terminal was closed"} if hasattr(signal, "SIGHUP") else {}


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C asked the command to end: `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Stopped(Exception):  # noqa: N818 (nothing is wrong)
    """The same, and Ctrl-C, on the way through click, which would write to a screen that may be gone."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class ReaderGone(Exception):  # noqa: N818 (nothing is wrong)
    """Whoever read the output has read enough, as `head` does."""


class Commands(click.Group):
    """Commands whose output may go to a pipe that is closed early."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for; click would end with 1 after a closed pipe."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, OSError) as error:
            if (asked := _interruption(error)) is not None:
                raise Stopped(asked.number if isinstance(asked, Ended) else signal.SIGINT) from error
            if isinstance(error, BrokenPipeError) and _reader_is_gone():
                raise ReaderGone from error
            raise


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="aleator")
@click.pass_context
def commands(context: click.Context) -> None:
    """How far can this prediction be trusted? Fit a table, and see.

    Example: aleator fit houses.csv --target price --report report.html
    """
    if context.obj is not None and context.invoked_subcommand != "reproduce":  # which has workers to end
        context.obj()


for group, names in (
    (table_commands, ("fit", "predict", "evaluate", "report", "inspect", "export")),
    (paper_commands, ("demo", "data", "reproduce", "playground")),
):
    for name in names:
        commands.add_command(getattr(group, name))


def main() -> None:
    """Run the command; an error is one line, not a traceback."""
    _listen()
    try:
        commands.main(prog_name="aleator", standalone_mode=False, obj=_end_soon_after_a_signal)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = "" if context is None else f" ({context.command_path} --help says more)"
        _end(ValueError(error.format_message() + hint), error.exit_code)
    except Stopped as asked:
        _stop(asked.number)
    except (click.Abort, KeyboardInterrupt):
        _stop(signal.SIGINT)
    except (ReaderGone, BrokenPipeError):
        os._exit(0)
    except (ValueError, OSError) as error:
        _end(error, 2)
    except (ArithmeticError, ImportError, MemoryError) as error:
        _end(error, 1)
    except Exception as error:
        if "ALEATOR_TRACEBACK" in os.environ:
            raise
        _end(RuntimeError(f"this should not happen, please report it: {error!r} (ALEATOR_TRACEBACK=1 shows where)"), 1)


def _end(error: BaseException, code: int) -> None:
    message = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    text = " ".join((message or type(error).__name__).split())
    click.echo(f"aleator: {text}{_options_that_help(error)}", err=True)
    sys.exit(code)


def _options_that_help(error: BaseException) -> str:
    """The options that would help, where an error of the library names settings."""
    settings = getattr(error, "settings", {})
    options = [
        f"--{name.replace('_', '-')}" + ("" if value is True else " TEXT" if value is None else f" {value!r}")
        for name, value in settings.items()
    ]
    return f" Add {' or '.join(options)}." if options else ""


def _interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interruption that led to an error: one that could not be shown on a screen that is gone, for example."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def _reader_is_gone() -> bool:
    """Whether nobody reads the output any more."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):  # Windows has no poll, and the output may have no number
        return True


def _listen() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, unless they are ignored (nohup)."""

    def end(number: int, frame: Any) -> NoReturn:
        raise Ended(number)

    for number in ENDS:
        if number != signal.SIGINT and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def _stop(number: int) -> NoReturn:
    """End at once, without waiting for threads that still compute; nothing that is half written stays."""
    atomic_write.remove_unfinished()
    with suppress(OSError):  # the screen may be gone
        os.write(2, f"aleator: {ENDS[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


def _end_soon_after_a_signal() -> None:
    """Python raises KeyboardInterrupt only between two of its own instructions, and a forest takes minutes for one.

    So a thread waits for the signal as well, and if the command has not ended soon after, ends it. Files are written
    beside their place and renamed at the end, so none is left half written.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def wait() -> None:
        number = 0
        while number not in ENDS:
            number = os.read(read, 1)[0]
        time.sleep(PATIENCE)
        _stop(number)

    threading.Thread(target=wait, daemon=True).start()
