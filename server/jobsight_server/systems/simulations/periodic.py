"""Background work of simulations: queued runs are executed."""

from __future__ import annotations

from jobsight_server.periodic import BackgroundWork
from jobsight_server.systems.simulations.execute import RunLimits, run_queued
from jobsight_server.systems.simulations.runs import stop_interrupted

_LOOK_S = 1.0


def schedule(work: BackgroundWork) -> None:
    engine, settings = work.engine, work.settings

    def stop_begun() -> None:
        stop_interrupted(engine, work.clock())

    stop_begun()
    limits = RunLimits(settings.simulation_memory_bytes, settings.simulation_time_s)
    work.every(
        _LOOK_S,
        "simulations",
        run_queued,
        engine,
        work.stop,
        work.clock,
        limits,
        takes_long=True,
        recover=stop_begun,
    )
