"""Many runs at once: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from jobsight_server.errors import UserError

Task = TypeVar("Task")
RunTask = Callable[[Task], dict[str, Any]]


def in_processes(run: RunTask[Task], tasks: Sequence[Task], workers: int) -> Generator[tuple[Task, dict[str, Any]]]:
    """Each task and the result of ``run`` for it, as they finish. Closed early, it waits for those running.

    Raises:
        UserError: a worker was killed, for instance because memory ran out.
    """
    context = multiprocessing.get_context("spawn")  # threads of this process must not be copied
    pool = ProcessPoolExecutor(workers, context, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))
    try:
        futures: dict[Future[dict[str, Any]], Task] = {pool.submit(run, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise UserError(
            f"one of {workers} workers was killed, perhaps because memory ran out: the same command resumes from "
            "what is finished; give fewer --workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def on_dask(run: RunTask[Task], tasks: Sequence[Task], address: str) -> Generator[tuple[Task, dict[str, Any]]]:
    """The same on the Dask cluster at ``address``, whose workers have Jobsight and the files that tasks name.

    Raises:
        UserError: Dask is not installed here, or does not answer.
    """
    try:
        from distributed import Client
        from distributed import as_completed as as_dask_completed
    except ModuleNotFoundError as error:
        raise UserError(f"--dask {address}: {error.name} is not installed: pip install 'jobsight[dask]'") from error
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise UserError(f"--dask {address}: no scheduler answers there ({error}); e.g. tcp://host:8786") from error
    with client:
        futures = client.map(run, tasks, pure=False)
        of_future = {future.key: task for future, task in zip(futures, tasks, strict=True)}
        try:
            for future, figures in as_dask_completed(futures, with_results=True):
                yield of_future[future.key], figures
        finally:
            client.cancel(futures)
