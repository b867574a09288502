"""Carry jobs out: only those that have no record, anywhere, with progress; and be killed at any moment without harm."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from aleator.paper.parallel_backends import Backend, WorkerLost
from aleator.paper.records import Job, Record, Store, made_with

TRIES = 3  # of a job whose worker dies
Tick = Callable[[Job, float], None]
Group = tuple[str, str, str]  # data set, objective, method


def run(jobs: Sequence[Job], store: Store, backend: Backend, console: Console | None = None) -> list[Record]:
    """The records of these jobs, in their order; those that are missing, or failed last time, are computed.

    Each record is kept as soon as it is there. Several processes may run the same jobs in one folder: they share them.
    """
    console = console or Console(stderr=True)
    todo = [job for job in jobs if not store.done(job)]
    with _progress(todo, backend.workers, console) as tick, store.claims():
        while todo:
            left = _round(todo, store, backend, tick)
            if len(left) == len(todo):  # other processes have all of them
                time.sleep(0.5)
            todo = left
    records = [store.read(job) for job in jobs]
    missing = [job.facts() for job, record in zip(jobs, records, strict=True) if record is None]
    if missing:
        raise OSError(f"{len(missing)} records are gone from {store.folder}, the first {missing[0]}.")
    return [record for record in records if record is not None]


def _round(todo: Sequence[Job], store: Store, backend: Backend, tick: Tick) -> list[Job]:
    """Perform what no other process performs; what is left is with others.

    With a worker, all jobs in flight may be lost. These are tried again at the end, each alone, so that one that kills
    its worker takes no other with it.
    """
    waiting, left = list(reversed(todo)), []
    running: dict[Any, Job] = {}
    lost: list[Job] = []
    deaths: dict[int, int] = defaultdict(int)
    while waiting or running or lost:
        while waiting and len(running) < 2 * backend.workers:
            job = waiting.pop()
            if not store.claim(job):
                left.append(job)
            elif store.done(job):  # another process was faster
                store.release(job)
                tick(job, 0.0)
            else:
                running[backend.submit(job)] = job
        if lost and not running:
            job = lost.pop()
            running[backend.submit(job)] = job
        if not running:
            break
        alone = len(running) == 1
        handle = backend.any_of(running)
        job = running.pop(handle)
        try:
            record = backend.result(handle)
        except WorkerLost as died:
            deaths[id(job)] += alone
            if deaths[id(job)] < TRIES:
                lost.append(job)
                continue
            reason = " ".join(str(died.__cause__).split())
            record = Record({}, {}, 0.0, made_with(), f"the worker died {TRIES} times ({reason})")
        other = {name for name, version in record.made_with.items() if made_with().get(name) != version}
        if other:
            raise ValueError(f"a worker has another version of {', '.join(sorted(other))} than this process.")
        store.write(job, record)
        store.release(job)
        tick(job, record.seconds)
    return left


# ---------------------------------------------------------------- progress


@contextmanager
def _progress(todo: Sequence[Job], workers: int, console: Console) -> Iterator[Tick]:
    """A bar for each data set, with the method at work and the time that is left; without a terminal, a line for each
    data set, objective and method that is complete.
    """
    groups: dict[Group, list[Job]] = defaultdict(list)
    for job in todo:
        groups[_group(job)].append(job)
    total = {group: len(jobs) for group, jobs in groups.items()}
    count: dict[Group, int] = defaultdict(int)
    spent: dict[Group, float] = defaultdict(float)
    columns = TextColumn("{task.description:<40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Progress(*columns, TextColumn("{task.fields[left]}"), console=console, disable=not console.is_terminal)
    bars: dict[str, TaskID] = {}
    for dataset in dict.fromkeys(job.dataset for job in todo):
        n = sum(total[group] for group in groups if group[0] == dataset)
        bars[dataset] = bar.add_task(dataset, total=n, left="")
    everything = bar.add_task("all", total=len(todo), left="")

    def tick(job: Job, seconds: float) -> None:
        group = _group(job)
        count[group] += 1
        spent[group] += seconds
        text = f"{_clock(_remaining(total, count, spent) / workers)} left"
        bar.update(bars[job.dataset], advance=1, description=" ".join(group))
        bar.update(everything, advance=1, left=text)
        if not console.is_terminal and count[group] == total[group]:
            console.print(f"{' '.join(group)}: {total[group]} done in {spent[group]:.0f} s of computing, {text}")

    with bar:
        yield tick


def _group(job: Job) -> Group:
    facts = job.facts()
    return facts["dataset"], facts["objective"], facts["method"]


def _remaining(
    total: dict[Group, int],
    count: dict[Group, int],
    spent: dict[Group, float],
) -> float:
    """Seconds of computing that are left: by the mean of each group, and of all where a group has not begun."""
    overall = sum(spent.values()) / max(sum(count.values()), 1)
    return sum((n - count[g]) * (spent[g] / count[g] if count[g] else overall) for g, n in total.items())


def _clock(seconds: float) -> str:
    minutes = round(seconds / 60)
    return (
        f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min" if minutes else "less than 1 min"
    )
