"""Background work: following accounting, profiling jobs, simulations, retention, database upkeep."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine

from jobsight_server.accounting.follow_slurm import SlurmFollower
from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.matching.changes import begin_change
from jobsight_server.matching.end_matches import delete_ended, expire_matches, some_expired
from jobsight_server.matching.from_agents import report_nodes
from jobsight_server.matching.rounds import MatchingRounds
from jobsight_server.matching.service import Matcher
from jobsight_server.offers.config import plan_config
from jobsight_server.offers.expiry import expire_all
from jobsight_server.offers.follow import follow_jobs
from jobsight_server.offers.rehearse import rehearse_plans
from jobsight_server.periodic import Periodic
from jobsight_server.profiler.late import profile_late
from jobsight_server.profiler.run import profile_finished
from jobsight_server.profiler.so_far import watch_running
from jobsight_server.reliability.ask import ranks_of
from jobsight_server.reliability.board import MachineBoard
from jobsight_server.reliability.config import rank_config
from jobsight_server.reliability.round import update_machines
from jobsight_server.requirements import requirement_config
from jobsight_server.requirements.expiry import expire
from jobsight_server.requirements.relearn import relearn_if_changed
from jobsight_server.seldom import Seldom
from jobsight_server.settings import AccountingSource, Settings
from jobsight_server.simulations.execute import RunLimits, run_queued
from jobsight_server.simulations.runs import stop_interrupted
from jobsight_server.storage.dialect import refresh_statistics
from jobsight_server.storage.size_cap import keep_size
from jobsight_server.storage.upkeep import delete_old

log = logging.getLogger(__name__)

_LOOK_FOR_SIMULATIONS_S = 1.0
_UNREADABLE_S, _MOST_UNREADABLE = 60.0, 1000  # log lines about unreadable files, per directory
_LOOK_AT_REQUIREMENTS_S = 5.0
_LOOK_AT_PLAN_S = 5.0
_LOOK_AT_HOLDS_S = 5.0
_REHEARSE_S = 600.0
_LOOK_AT_NODES_S = 15.0
_LOOK_AT_RUNNING_S = 15.0  # agents send about once a minute


def run_until(
    stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float] = time.time
) -> None:
    """Runs the periodic work until ``stop`` is set; work under way is finished first."""
    ranks = rank_config(settings)
    # One thread: the jobs write to the same tables, and two at once would only wait for each other.
    scheduler = BackgroundScheduler(
        # Simulations take minutes, in a process of their own; nothing else waits for them.
        executors={"default": ThreadPoolExecutor(1), "simulations": ThreadPoolExecutor(1)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        timezone="UTC",
    )

    def every(seconds: float, name: str, work: Callable[..., object], *args: object) -> None:
        scheduler.add_job(Periodic(name, work), "interval", seconds=seconds, args=args, id=name)

    for number, source in enumerate(settings.accounting):
        name, said = f"follow {source.cluster} {source.name}", Seldom(_UNREADABLE_S, _MOST_UNREADABLE)
        if not source.sacct:
            every(settings.follow_interval_s, name, _follow, stop, engine, source, clock, set(), said)
        else:
            # A command may hang until its deadline: nothing else waits for it.
            scheduler.add_executor(ThreadPoolExecutor(1), executor := f"commands {number}")
            follower = Periodic(name, SlurmFollower(engine, source, clock, said).read)
            seconds, now = source.interval_s, datetime.now(UTC)
            scheduler.add_job(
                follower, "interval", seconds=seconds, args=(stop,), id=name, executor=executor, next_run_time=now
            )
    every(settings.profile_interval_s, "profile", _profile, stop, engine, settings, clock)
    every(_LOOK_AT_RUNNING_S, "running", partial(watch_running, stop=stop), engine, clock)
    every(_LOOK_AT_REQUIREMENTS_S, "requirements", _keep_requirements, stop, engine, settings, clock)
    every(settings.ranks_interval_s, "machines", update_machines, engine, ranks, clock, stop)
    every(_LOOK_AT_PLAN_S, "plan", _keep_plan, stop, engine, settings, clock)
    scheduler.add_job(
        Periodic("rehearsals", _rehearse),
        "interval",
        seconds=_REHEARSE_S,
        args=(stop, engine, settings, clock),
        id="rehearsals",
        executor="simulations",
        next_run_time=datetime.now(UTC),
    )
    every(_LOOK_AT_HOLDS_S, "holds", _end_holds, stop, engine, clock)
    if settings.resources_from_agents:
        reliability = partial(ranks_of, MachineBoard(), replace(ranks, method="survival"))
        report = partial(report_nodes, expiry_s=settings.resource_expiry_s, reliability=reliability)
        every(_LOOK_AT_NODES_S, "node resources", report, engine, clock)
    every(settings.upkeep_interval_s, "upkeep", _keep_up, stop, engine, settings, clock)
    stop_interrupted(engine, clock())
    scheduler.add_job(
        Periodic("simulations", run_queued, lambda: stop_interrupted(engine, clock())),
        "interval",
        seconds=_LOOK_FOR_SIMULATIONS_S,
        args=(engine, stop, clock, RunLimits(settings.simulation_memory_bytes, settings.simulation_time_s)),
        id="simulations",
        executor="simulations",
    )
    scheduler.start()
    # Queued jobs wait for nothing else that is done here.
    matching = threading.Thread(target=_match_queued, args=(stop, engine, settings, clock), name="matching")
    matching.start()
    log.info("following %d accounting logs", len(settings.accounting))
    # A wait without limit would not notice a signal that another thread of this process received.
    while not stop.wait(1.0):
        pass
    matching.join()
    scheduler.shutdown(wait=True)


def _follow(
    stop: threading.Event,
    engine: Engine,
    source: AccountingSource,
    clock: Callable[[], float],
    skipped: set[Path],
    said: Seldom,
) -> None:
    if not stop.is_set():
        follow_once(engine, source, clock, stop, skipped=skipped, said=said)


def _profile(stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float]) -> None:
    config = forecast_config(settings)
    profile_finished(engine, settings.profile_grace_s, clock, stop=stop, config=config)
    if not stop.is_set():
        profile_late(engine, settings.profile_grace_s, clock, stop=stop, config=config)


def _keep_requirements(stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float]) -> None:
    config = requirement_config(settings)
    if not stop.is_set():
        expire(engine, clock() - config.expiry_s)
        relearn_if_changed(engine, config, stop)


def _keep_plan(stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float]) -> None:
    if not stop.is_set():
        follow_jobs(engine, clock(), stop)
        expire_all(engine, clock(), settings.plan_kept)


def _rehearse(stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float]) -> None:
    if not stop.is_set():
        rehearse_plans(engine, plan_config(settings), clock(), stop)


def _match_queued(stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float]) -> None:
    answers = AnswerReader(engine.execution_options(reading=True), forecast_config(settings))
    matcher = Matcher(engine, engine, settings, answers, clock)
    MatchingRounds(matcher, engine, clock).run_until(stop)


def _end_holds(stop: threading.Event, engine: Engine, clock: Callable[[], float]) -> None:
    """Their rows say what is so already: what a hold held is free from its end on."""
    now = clock()
    with engine.connect().execution_options(reading=True) as connection:
        if stop.is_set() or not some_expired(connection, now):
            return
    with engine.begin() as connection:
        expire_matches(connection, now, begin_change(connection).version)


def _keep_up(stop: threading.Event, engine: Engine, settings: Settings, clock: Callable[[], float]) -> None:
    if not stop.is_set():
        delete_old(engine, clock() - settings.retention_days * 86400, stop)
        keep_size(engine, settings.database_bytes_at_most, clock(), stop)
        delete_ended(engine, settings.matches_kept)
        refresh_statistics(engine)
