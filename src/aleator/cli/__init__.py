"""The command `aleator`. Imports what a command needs only when it runs, so that help is immediate.

Exit codes: 0 it is done; 2 something that was given is wrong (arguments, a table, a file, a place to write to), and one
line says what; 1 it failed for another reason; 130 it was interrupted.
"""

import os
import signal
import sys
import threading
import time

import click

from aleator.cli import paper, tables

PATIENCE = 1.2  # seconds that an interrupted command has to end by itself


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="aleator")
@click.pass_context
def commands(context: click.Context) -> None:
    """How far can this prediction be trusted? Fit a table, and see.

    Example: aleator fit houses.csv --target price --report report.html
    """
    if context.obj is not None and context.invoked_subcommand != "reproduce":  # which has workers to end
        context.obj()


for command in (tables.fit, tables.predict, tables.evaluate, tables.report, tables.inspect, tables.export,
                paper.demo, paper.data, paper.reproduce, paper.playground):  # fmt: skip
    commands.add_command(command)


def main() -> None:
    """Run the command; an error is one line, not a traceback."""
    try:
        commands.main(prog_name="aleator", standalone_mode=False, obj=_end_soon_after_an_interrupt)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = "" if context is None else f" ({context.command_path} --help says more)"
        _end(ValueError(error.format_message() + hint), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("aleator: interrupted", err=True)
        sys.stderr.flush()
        os._exit(130)  # threads that still compute are not waited for
    except BrokenPipeError:  # of `aleator ... | head`
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
    told = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    text = " ".join((told or type(error).__name__).split())
    click.echo(f"aleator: {text}", err=True)
    sys.exit(code)


def _end_soon_after_an_interrupt() -> None:
    """Python raises KeyboardInterrupt only between two of its own instructions, and a forest takes minutes for one.

    So a thread waits for the signal as well, and if the command has not ended soon after, ends it. Files are written
    beside their place and renamed at the end, so none is left half written.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def wait() -> None:
        while os.read(read, 1) != bytes([signal.SIGINT]):
            pass
        time.sleep(PATIENCE)
        os.write(2, b"aleator: interrupted\n")
        os._exit(130)

    threading.Thread(target=wait, daemon=True).start()
