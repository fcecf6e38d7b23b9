"""Background work: following accounting, profiling jobs, retention, database upkeep, and that of placing systems."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.follow_queue import QueueFollower
from jobsight_server.accounting.follow_slurm import SlurmFollower
from jobsight_server.accounting.last_read import LastRead
from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.advice.changes import ChangeWatch
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.forecasts.events import read_learned_until
from jobsight_server.forecasts.outlooks import refresh_outlooks
from jobsight_server.forecasts.rounds import rebuild_if_outdated
from jobsight_server.ground.periodic import BackgroundWork
from jobsight_server.ground.seldom import Seldom
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.learning.late import profile_late
from jobsight_server.profiler.site_monitoring import SiteMonitoring
from jobsight_server.profiler.so_far import watch_running
from jobsight_server.serve.children import note_the_end
from jobsight_server.settings.declared import AccountingSource, Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.lock import ROLE_LOCK_S, role_lock
from jobsight_server.storage.readings.size_cap import keep_size
from jobsight_server.storage.server_states import EVERY_S, record_state
from jobsight_server.storage.statistics import refresh_if_grown, refresh_statistics
from jobsight_server.storage.upkeep import delete_old
from jobsight_server.systems.listed import rated_machines, systems

log = logging.getLogger(__name__)

_UNREADABLE_S, _MOST_UNREADABLE = 60.0, 1000  # log lines about unreadable files, per directory
_LOOK_AT_GROWTH_S = 30.0
_ASK_AGAIN_S = _OUTLOOKS_S = 60.0
_LOOK_AT_RUNNING_S = 15.0  # agents send about once a minute


def run_role(settings: Settings, _beat: Callable[[], None], _clusters: Sequence[str]) -> None:
    """Follow accounting, profile jobs and maintain the database until SIGTERM; one process per database."""
    engine, stop = open_engine(settings.database), note_the_end()
    with role_lock(engine, "background", ROLE_LOCK_S) as fence:
        run_until(stop, fence.guard(engine), settings)


def run_until(
    stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float] = time.time
) -> None:
    """Run the periodic work until ``stop`` is set; work under way is finished first."""
    work = BackgroundWork(stop)
    for number, source in enumerate(settings.accounting):
        last = LastRead(engine, source, clock)
        name, seldom = f"follow {source.cluster} {source.name}", Seldom(_UNREADABLE_S, _MOST_UNREADABLE)
        if not source.sacct:
            # Long work, such as learning a backlog or upkeep, must not delay reading a log.
            skipped: set[Path] = set()
            follow = (_follow, stop, engine, source, clock, ClockOffset(), skipped, seldom, last)
            work.every(settings.follow_interval_s, name, *follow, thread=f"log {number}")
        else:
            # A command may hang until its deadline: nothing else may wait for it.
            follower = SlurmFollower(engine, source, clock, seldom)
            work.every(source.interval_s, name, _ask, follower, last, stop, thread=f"commands {number}", at_once=True)
        if source.queue_command:
            queue = QueueFollower(engine, source, clock, seldom)
            name = f"queue of {source.cluster} {number}"
            work.every(source.interval_s, name, queue.read, stop, thread=f"queue {number}", at_once=True)
    work.every(settings.follow_interval_s, "profile", _Profiling(engine, settings, clock, stop), thread="profile")
    work.every(_LOOK_AT_RUNNING_S, "running", partial(watch_running, stop=stop), engine, clock)
    changes = ChangeWatch(engine, AnswerReader(forecast_config(settings)))
    work.every(_ASK_AGAIN_S, "changes", lambda: changes.look(clock(), stop), takes_long=True)
    work.every(_OUTLOOKS_S, "outlooks", partial(refresh_outlooks, stop=stop), engine, forecast_config(settings))
    work.every(settings.upkeep_interval_s, "upkeep", _keep_up, stop, engine, settings, clock)
    work.every(_LOOK_AT_GROWTH_S, "statistics", refresh_if_grown, engine)
    work.every(EVERY_S, "state", lambda: record_state(engine, clock()))
    machines = rated_machines(settings)  # all that a placing system gets from another
    for system in systems():
        system.module("periodic").schedule(work, engine, settings, clock, machines)
    log.info("following %d accounting logs", len(settings.accounting))
    work.run()


def _follow(
    stop: threading.Event,
    engine: Engine,
    source: AccountingSource,
    clock: Callable[[], float],
    offset: ClockOffset,
    skipped: set[Path],
    seldom: Seldom,
    last: LastRead,
) -> None:
    follow_once(engine, source, clock, stop, offset, skipped, seldom, progress=lambda _path, _bytes: last.note())
    last.note()


def _ask(follower: SlurmFollower, last: LastRead, stop: threading.Event) -> None:
    if not follower.read(stop).unreadable:
        last.note()


class _Profiling:
    """Profiles ended runs. It retrains a model of another version at first, and one from which jobs were withdrawn."""

    def __init__(self, engine: Engine, settings: Settings, clock: Callable[[], float], stop: threading.Event) -> None:
        self._engine, self._grace_s, self._clock = engine, settings.profile_grace_s, clock
        monitoring = SiteMonitoring(settings.measurements, clock)
        self._options = LearningOptions(forecast_config(settings), monitoring, stop=stop)
        self._is_current = False

    def __call__(self) -> None:
        with self._engine.connect().execution_options(reading=True) as connection:
            self._is_current &= read_learned_until(connection) is not None
        if not self._is_current:
            rebuild_if_outdated(self._engine, self._options.config)
            self._is_current = True
        profile_finished(self._engine, self._grace_s, self._clock, self._options)
        if not self._options.is_stopped:
            profile_late(self._engine, self._grace_s, self._clock, self._options)


def _keep_up(stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float]) -> None:
    delete_old(engine, clock() - settings.retention_days * 86400, stop)
    keep_size(engine, settings.database_bytes_at_most, clock(), stop)
    refresh_statistics(engine)
