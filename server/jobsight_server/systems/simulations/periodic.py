"""Background work of simulations: queued runs are executed."""

from __future__ import annotations

from jobsight_server.periodic import BackgroundWork
from jobsight_server.systems.simulations.execute import RunLimits, run_queued
from jobsight_server.systems.simulations.runs import stop_interrupted
from jobsight_server.systems.simulations.settings import SimulationLimits

_LOOK_S = 1.0


def schedule(work: BackgroundWork) -> None:
    engine, limits = work.engine, work.settings.section(SimulationLimits)

    def stop_begun() -> None:
        stop_interrupted(engine, work.clock())

    stop_begun()
    work.every(
        _LOOK_S,
        "simulations",
        run_queued,
        engine,
        work.stop,
        work.clock,
        RunLimits(limits.memory_bytes, limits.time_s),
        takes_long=True,
        recover=stop_begun,
    )
