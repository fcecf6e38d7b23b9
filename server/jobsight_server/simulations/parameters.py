"""What a simulation is asked for, and the files that it leaves."""

from __future__ import annotations

from dataclasses import dataclass

JOBS = "jobs.csv"
PLOTS = ("utilisation", "queue", "slowdown", "gantt")


@dataclass(frozen=True, slots=True)
class SimulationParameters:
    """How a trace is simulated; None is what ``jobsight simulate`` takes by default."""

    policy: str
    predictor: str | None = None
    processors: int | None = None
    load: float | None = None
