"""Background work of matching: rounds of queued jobs, holds that end, and compute servers known from agents."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from sqlalchemy import Engine

from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.periodic import BackgroundWork
from jobsight_server.systems.matching.end_matches import delete_ended, expire_matches, some_expired
from jobsight_server.systems.matching.from_agents import Reliability, report_nodes
from jobsight_server.systems.matching.rounds import MatchingRounds
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.systems.matching.settings import MatchingSettings
from jobsight_server.systems.matching.store_matches import begin_change

_LOOK_AT_HOLDS_S = 5.0
_LOOK_AT_NODES_S = 15.0


def schedule(work: BackgroundWork) -> None:
    engine, settings = work.engine, work.settings.section(MatchingSettings)
    work.every(_LOOK_AT_HOLDS_S, "holds", _end_holds, work.stop, engine, work.clock)
    work.every(work.settings.upkeep_interval_s, "ended matches", delete_ended, engine, settings.kept)
    answers = AnswerReader(engine.execution_options(reading=True), forecast_config(work.settings))
    matcher = Matcher(engine, engine, settings, answers, work.clock)
    # Queued jobs wait for no other work.
    work.beside("matching", partial(MatchingRounds(matcher, engine, work.clock).run_until, work.stop))


def schedule_node_reports(work: BackgroundWork, reliability: Reliability) -> None:
    """Keeps a compute server for each node, if the settings want it, with the chance that it stays."""
    settings = work.settings.section(MatchingSettings)
    if settings.from_agents:
        report = partial(report_nodes, expiry_s=settings.expiry_s, reliability=reliability)
        work.every(_LOOK_AT_NODES_S, "node resources", report, work.engine, work.clock)


def _end_holds(stop: threading.Event, engine: Engine, clock: Callable[[], float]) -> None:
    """Their rows say what is so already: what a hold held is free from its end on."""
    now = clock()
    with engine.connect().execution_options(reading=True) as connection:
        if stop.is_set() or not some_expired(connection, now):
            return
    with engine.begin() as connection:
        expire_matches(connection, now, begin_change(connection).version)
