"""Background work of ranking: machines' sessions and scores."""

from __future__ import annotations

from jobsight_server.periodic import BackgroundWork
from jobsight_server.systems.ranking.config import rank_config
from jobsight_server.systems.ranking.round import update_machines
from jobsight_server.systems.ranking.settings import RankingSettings


def schedule(work: BackgroundWork) -> None:
    config = rank_config(work.settings)
    work.every(
        work.settings.section(RankingSettings).interval_s,
        "machines",
        update_machines,
        work.engine,
        config,
        work.clock,
        work.stop,
    )
