"""Where jobs are performed: processes of this machine, a Ray cluster, a Dask cluster.

Each is opened as a context and gives a `Backend`: hand in a job, wait until any ends, take its record. Data sets are
given to a cluster once, and go to each node once. What a backend does not do is keep records or decide what is next.
"""

import ctypes
import functools
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import joblib
from joblib.externals.loky import get_reusable_executor
from threadpoolctl import threadpool_limits

from aleator.datasets import Dataset
from aleator.paper.records import Arrays, Job, Record, made_with
from aleator.training.held_out import UnreliableWarning

Data = dict[str, Dataset]

_ONE_AT_A_TIME = threading.Lock()  # the limit on threads is the process's; a Dask worker may have several threads


class WorkerLost(Exception):  # noqa: N818 (it is not the job's error)
    """The process that performed a job is gone, and the job with it."""


@dataclass(frozen=True)
class Backend:
    """How to hand in a job (`submit`), wait until one of several is done (`any_of`), and take what came (`result`)."""

    workers: int
    submit: Callable[[Job], Any]
    any_of: Callable[[Collection[Any]], Any]
    result: Callable[[Any], Record]


def perform(job: Job, dataset: Dataset) -> Record:
    """Do a job, in one thread: where sums are split among threads, the last bit depends on how many there are.

    An error is a record too.
    """
    start = time.perf_counter()
    outcome: dict[str, Any] = {}
    arrays: Arrays = {}
    failed = None
    try:
        with _ONE_AT_A_TIME, threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreliableWarning)  # methods are judged by the tables
            outcome, arrays = job.perform(dataset)
    except Exception as error:
        failed = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return Record(outcome, arrays, time.perf_counter() - start, made_with(), failed)


@contextmanager
def local(data: Data, jobs: int | None = None, address: str | None = None) -> Iterator[Backend]:
    """`jobs` processes of this machine (all cores if None); with one, this process."""
    if address is not None:
        raise ValueError("an address is for --backend ray or dask; the local backend has none.")
    workers = joblib.effective_n_jobs(-1 if jobs is None else jobs)
    pool = functools.partial(get_reusable_executor, max_workers=workers, timeout=60, initializer=_end_with_parent,
                             initargs=(os.getpid(),))  # fmt: skip

    def submit(job: Job) -> "Future[Record]":
        if workers > 1:
            try:
                future: Future[Record] = pool().submit(perform, job, data[job.dataset])
            except BrokenExecutor:  # another job broke it; the next call makes a new one
                future = pool(kill_workers=True).submit(perform, job, data[job.dataset])
            return future
        done: Future[Record] = Future()
        done.set_result(perform(job, data[job.dataset]))
        return done

    def result(future: "Future[Record]") -> Record:
        try:
            return future.result()
        except BrokenExecutor as error:
            raise WorkerLost from error

    try:
        yield Backend(workers, submit, _first, result)
    finally:
        if workers > 1:
            pool().shutdown(wait=False, kill_workers=True)


def _end_with_parent(parent: int) -> None:
    """A worker whose parent was killed would go on with what it was given; Linux can be asked to end it too."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it was gone before
            os._exit(1)


def _first(futures: "Collection[Future[Record]]") -> "Future[Record]":
    done, _ = wait(futures, return_when=FIRST_COMPLETED)
    return done.pop()


@contextmanager
def on_ray(data: Data, jobs: int | None = None, address: str | None = None) -> Iterator[Backend]:
    """A Ray cluster at `address` ("auto" or "ray://..."); without one, a cluster of `jobs` processes here."""
    try:
        import ray
    except ImportError as error:
        raise ValueError("--backend ray needs Ray: pip install 'aleator[ray]'.") from error
    own = {} if address else {"num_cpus": joblib.effective_n_jobs(-1 if jobs is None else jobs)}
    mine = not ray.is_initialized()
    if mine:
        # without an address a cluster of its own, whatever other is running
        ray.init(
            address=address or "local", log_to_driver=False, include_dashboard=False, configure_logging=False, **own
        )
    try:
        there = {name: ray.put(dataset) for name, dataset in data.items()}
        call = ray.remote(max_retries=0)(perform)

        def result(handle: Any) -> Record:
            try:
                record: Record = ray.get(handle)
            except ray.exceptions.RayError as error:
                raise WorkerLost from error
            return record

        yield Backend(
            max(int(ray.cluster_resources().get("CPU", 1)), 1),
            lambda job: call.remote(job, there[job.dataset]),
            lambda handles: ray.wait(list(handles), num_returns=1)[0][0],
            result,
        )
    finally:
        if mine:
            ray.shutdown()


@contextmanager
def on_dask(data: Data, jobs: int | None = None, address: str | None = None) -> Iterator[Backend]:
    """A Dask cluster whose scheduler is at `address`; without one, a cluster of `jobs` processes here."""
    try:
        import distributed
    except ImportError as error:
        raise ValueError("--backend dask needs Dask: pip install 'aleator[dask]'.") from error
    workers = joblib.effective_n_jobs(-1 if jobs is None else jobs)
    here: Any = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    try:
        opened = distributed.Client(address, set_as_default=False, timeout=20, **({} if address else here))
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address!r} ({error}).") from error
    with opened as client:
        there = {name: client.scatter(dataset, broadcast=True) for name, dataset in data.items()}
        done = distributed.as_completed(loop=client.loop)

        def submit(job: Job) -> Any:
            future = client.submit(perform, job, there[job.dataset], pure=False)
            done.add(future)
            return future

        def result(future: Any) -> Record:
            try:
                record: Record = future.result()
            except Exception as error:
                raise WorkerLost from error
            return record

        yield Backend(
            max(sum(client.nthreads().values()), 1),
            submit,
            lambda _: next(done),
            result,
        )


BACKENDS = {"local": local, "ray": on_ray, "dask": on_dask}
