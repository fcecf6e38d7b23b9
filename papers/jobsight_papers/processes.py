"""Many runs at once, in processes of this machine, with their progress."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from jobsight_server.ground.errors import UserError

Task = TypeVar("Task")
RunTask = Callable[[Task], dict[str, Any]]


def in_processes(run: RunTask[Task], tasks: Sequence[Task], workers: int) -> Generator[tuple[Task, dict[str, Any]]]:
    """Yield each task and the result of ``run`` for it, as they finish. If closed early, wait for those running.

    Raises:
        UserError: a worker was killed, for instance for lack of memory.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"  # workers import nothing from the current directory, where others may write
    context = multiprocessing.get_context("spawn")  # a fork would copy this process's threads
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
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


Runs = Generator[tuple[Task, dict[str, Any]]]


def watched(name: str, runs: Runs[Task], total: int, done: int = 0) -> Runs[Task]:
    """Yield ``runs`` as they finish, with a bar on standard error; ``done`` were finished before."""
    if done == total:
        return
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with closing(runs), Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=total, completed=done)
        for task, figures in runs:
            yield task, figures
            progress.advance(bar)
