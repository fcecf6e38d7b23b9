"""Background work of offers: watches the jobs in the plan."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlalchemy import Engine

from jobsight_server.ground.periodic import BackgroundWork
from jobsight_server.queries.node_states import Machines
from jobsight_server.settings.declared import Settings
from jobsight_server.systems.offers.outcome import follow_jobs
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.offers.stored import expire_all

_LOOK_AT_PLAN_S = 5.0


def schedule(
    work: BackgroundWork, engine: Engine, settings: Settings, clock: Callable[[], float], machines: Machines
) -> None:
    work.every(_LOOK_AT_PLAN_S, "plan", _keep_plan, work.stop, engine, settings.section(OffersSettings).kept, clock)


def _keep_plan(stop: threading.Event, engine: Engine, kept: int, clock: Callable[[], float]) -> None:
    follow_jobs(engine, clock(), stop)
    expire_all(engine, clock(), kept)
