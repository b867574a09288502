"""Fetch a file from the internet: with progress, again after a hiccup, and whole or not at all."""

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from aleator import atomic_write

CHUNK = 1 << 16
MOST_BYTES = 2**30  # of one file; the largest data set of the paper has some 200 MB
HEADERS = {"User-Agent": "aleator"}


class DownloadError(OSError):
    """A file could not be had; says which and why, in one line."""


@dataclass
class _Failed(Exception):  # noqa: N818 (an attempt is not the end)
    """An attempt went wrong; `again` if another may not."""

    reason: str
    again: bool = True


def fetch(
    url: str,
    path: Path,
    *,
    timeout: float = 20.0,
    attempts: int = 3,
    pause: float = 1.0,
    max_bytes: int = MOST_BYTES,
) -> Path:
    """Download `url` to `path`; a DownloadError if it cannot be had.

    An attempt is given up after `timeout` seconds without a byte. Where trying again may help (no answer, a cut
    connection, an error of the server) there are `attempts`, with a `pause` between that doubles each time. Files of
    more than `max_bytes` are refused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, attempts + 1):
        try:
            with atomic_write.whole(path, "download") as beside:
                _copy(url, beside, timeout, max_bytes)
            break
        except _Failed as failed:
            if attempt == attempts or not failed.again:
                raise DownloadError(f"{url}: {failed.reason}") from failed
        time.sleep(pause * 2 ** (attempt - 1))
    return path


def _copy(url: str, path: Path, timeout: float, max_bytes: int) -> None:
    """One attempt."""
    got = 0
    try:
        request = urllib.request.Request(url, headers=HEADERS)
        with urllib.request.urlopen(request, timeout=timeout) as answer, path.open("wb") as file:
            length = answer.headers.get("Content-Length")
            size = int(length) if length else None  # the server may not say
            if size is not None and size > max_bytes:
                raise _Failed(f"the file has {size:,} bytes, more than {max_bytes:,}", again=False)
            with _bar(url, size) as advance:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    got += len(chunk)
                    if got > max_bytes:
                        raise _Failed(f"the file has more than {max_bytes:,} bytes", again=False)
                    advance(len(chunk))
    except urllib.error.HTTPError as error:
        error.close()
        again = error.code >= 500 or error.code == 429
        raise _Failed(f"the server answers {error.code} ({error.reason})", again) from error
    except http.client.IncompleteRead as error:
        raise _Failed(f"the file was cut after {got + len(error.partial):,} bytes") from error
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise _Failed(f"nothing came for {timeout:g} seconds") from error
        raise _Failed(f"no connection ({' '.join(str(reason).split())})") from error
    except ValueError as error:
        raise _Failed(f"not an address ({error})", again=False) from error
    if size is not None and got != size:
        raise _Failed(f"the file was cut: {got:,} of {size:,} bytes came")


@contextmanager
def _bar(url: str, size: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, if there is one; a function that moves it."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(url.rsplit("/", 1)[-1], total=size)
        yield lambda n: bar.advance(task, n)
