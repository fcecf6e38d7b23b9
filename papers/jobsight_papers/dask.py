"""Many runs at once, on the machines of a Dask cluster."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from jobsight_papers.processes import RunTask, Task
from jobsight_server.ground.errors import UserError


def on_dask(run: RunTask[Task], tasks: Sequence[Task], address: str) -> Generator[tuple[Task, dict[str, Any]]]:
    """Yield results as ``in_processes`` does, from the Dask cluster at ``address``. Its workers need this checkout and
    the tasks' files.

    Raises:
        UserError: Dask is not installed here, or does not answer.
    """
    try:
        from distributed import Client
        from distributed import as_completed as as_dask_completed
    except ModuleNotFoundError as error:
        raise UserError(f"--dask {address}: {error.name} is not installed: pip install distributed") from error
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
