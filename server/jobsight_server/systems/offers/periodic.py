"""Background work of offers: watches the jobs in the plan."""

from __future__ import annotations

from jobsight_server.systems.offers.outcome import follow_jobs
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.offers.stored import expire_all
from jobsight_server.systems.periodic import BackgroundWork

_LOOK_AT_PLAN_S = 5.0


def schedule(work: BackgroundWork) -> None:
    work.every(_LOOK_AT_PLAN_S, "plan", _keep_plan, work)


def _keep_plan(work: BackgroundWork) -> None:
    follow_jobs(work.engine, work.clock(), work.stop)
    expire_all(work.engine, work.clock(), work.settings.section(OffersSettings).kept)
