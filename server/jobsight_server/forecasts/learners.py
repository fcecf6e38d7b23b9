"""Learns events with the stored model; the metrics of a backlog in several processes, because they share nothing.

Only this process uses the database: it sends events and the stored state that they need, and gets back rows to store.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import suppress
from multiprocessing import connection as pipes
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, select

from jobsight_predictor.question import Moment
from jobsight_server.forecasts.events import WAITS, Event, LearnedUntil, write_at_start, write_learned_until
from jobsight_server.forecasts.learner import AllJudged, Changes, Learner, LoadedState, Wanted, read_known
from jobsight_server.forecasts.request import ForecastConfig
from jobsight_server.forecasts.stored_model import drop_old_state, write_learned
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.engine import of_runs
from jobsight_server.storage.schema import jobs

BY_COST = ("runtime", "memory", "cpu", "bandwidth", "gpu_memory", "gpu_utilisation")
"""Metrics, those that take longest to learn first."""

_STILL_WAITING = select(jobs.c.id).where(jobs.c.id.in_(bindparam("runs", expanding=True)), WAITS)


def usable_cores(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many cores this process may keep busy, by its affinity and its control group's limit."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):  # no such group, or "max"
        quota, period = map(int, limit.read_text().split())
        return max(1, min(cores, quota // period))
    return cores


def dealt(processes: int, metrics: Collection[str] = BY_COST) -> list[list[str]]:
    """Deal the metrics to at most so many processes, so that each has about as much to learn.

    >>> dealt(2)
    [['runtime', 'bandwidth', 'gpu_memory'], ['memory', 'cpu', 'gpu_utilisation']]
    """
    groups: list[list[str]] = [[] for _ in range(min(processes, len(metrics)))]
    there_and_back = groups + groups[::-1]
    for i, metric in enumerate(metric for metric in BY_COST if metric in metrics):
        there_and_back[i % len(there_and_back)].append(metric)
    return groups


class Learners:
    """A learner in this process, and with more than one of ``processes`` others that learn some of the metrics.

    The processes end with ``close``, or with this one. The rows are the same with any number.
    """

    def __init__(self, config: ForecastConfig, processes: int = 1) -> None:
        self._config = config
        self._metrics, *others = dealt(processes, config.metrics)
        self._own = Learner(config, self._metrics)
        self._others: list[tuple[Any, pipes.Connection]] = []
        context = multiprocessing.get_context("spawn")  # a fork would share connections and locks
        for metrics in others:
            pipe, far_end = context.Pipe()
            process = context.Process(target=_serve, args=(far_end, config, metrics), daemon=True)
            process.start()
            far_end.close()
            self._others.append((process, pipe))

    def begin(self) -> None:
        """Begin again with nothing in memory."""
        self._own = Learner(self._config, self._metrics)
        self._send("begin", [()] * len(self._others))

    def learn(self, connection: Connection, events: Sequence[Event]) -> tuple[AllJudged, Mapping[Moment, Set[int]]]:
        """Learn the events; return the forecasts for each finished job, and at each moment the jobs with one before.

        Raises:
            ValueError: the stored model is of other settings or another version.
            UserError: a process has ended.
        """
        wanted: list[Wanted] = self._all("wanted", [events] * (1 + len(self._others)))
        known: list[LoadedState] = [read_known(connection, each) for each in wanted]
        before: dict[Moment, set[int]] = {"submission": set(), "start": set()}
        for each, stored in zip(wanted, known, strict=True):
            before["submission"] |= each.pending | {run_id for run_id, _ in stored.pending}
            before["start"] |= each.at_start | {run_id for run_id, _ in stored.at_start}
        judged: AllJudged = {}
        for some in self._all("learn_wanted", known):
            judged |= some
        return judged, before

    def store(self, connection: Connection, until: LearnedUntil) -> int:
        """Write the changes and the forecasts of unfinished jobs; return the number of series.

        Raises:
            UserError: a process has ended.
        """
        return store_changes(connection, self._all("changes", [None] * (1 + len(self._others))), until)

    def close(self) -> None:
        """End the other processes."""
        for process, pipe in self._others:
            pipe.close()
            process.terminate()
            process.join()
        self._others = []

    def _all(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """Call a method of every learner with its argument; return all results, that of this process first."""
        self._send(name, arguments[1:])
        results = [getattr(self._own, name)(arguments[0])]
        for process, pipe in self._others:
            try:
                results.append(pipe.recv())
            except (EOFError, OSError) as error:
                process.join(1.0)
                raise UserError(
                    f"a process that learned has ended with exit code {process.exitcode}, perhaps for lack of memory: "
                    "repeat the command; it continues after the last stored round"
                ) from error
            if isinstance(results[-1], ValueError):
                raise results[-1]
        return results

    def _send(self, name: str, arguments: Sequence[Any]) -> None:
        different = {id(argument): argument for argument in arguments}
        messages = {key: ForkingPickler.dumps((name, argument)) for key, argument in different.items()}
        for (_, pipe), argument in zip(self._others, arguments, strict=True):
            with suppress(OSError):  # its process has ended, as its missing result will show
                pipe.send_bytes(messages[id(argument)])


def _serve(pipe: pipes.Connection, config: ForecastConfig, metrics: Sequence[str]) -> None:
    """Call the learner's methods, as the other process asks, until that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # as in ``no_collection``
    learner = Learner(config, metrics)
    with suppress(EOFError, OSError):
        while True:
            name, argument = pipe.recv()
            if name == "begin":
                learner = Learner(config, metrics)
                continue
            try:
                result = getattr(learner, name)(argument)
            except ValueError as error:
                result = error
            pipe.send(result)


def store_changes(connection: Connection, changes: Sequence[Changes], until: LearnedUntil) -> int:
    """Write the changes of all learners and the forecasts of unfinished jobs; return the number of series.

    Deletes the stored forecasts of runs that were learned, and of runs that will never be.
    """
    pending = [row for each in changes for row in each.pending]
    at_start = [row for each in changes for row in each.at_start]
    runs = list(dict.fromkeys(row[0] for row in [*pending, *at_start]))
    waiting = {run_id for (run_id,) in of_runs(connection, _STILL_WAITING, runs)}
    learned_runs = changes[0].learned_runs
    series = [row for each in changes for row in each.series]
    states = [row for each in changes for row in each.states]
    write_learned(connection, states, series, [row for row in pending if row[0] in waiting], learned_runs)
    for each in changes:
        for (cluster, metric), period in each.periods.items():
            drop_old_state(connection, cluster, metric, period)
    write_at_start(connection, [row for row in at_start if row[0] in waiting], learned_runs)
    write_learned_until(connection, until)
    return len(series)
