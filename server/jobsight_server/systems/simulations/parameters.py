"""The parameters of a simulation, and its output files."""

from __future__ import annotations

from dataclasses import dataclass

JOBS = "jobs.csv"
PLOTS = ("utilisation", "queue", "slowdown", "gantt")


@dataclass(frozen=True, slots=True)
class SimulationParameters:
    """How a trace is simulated; None is the default of ``jobsight simulate``."""

    policy: str
    predictor: str | None = None
    processors: int | None = None
    load: float | None = None
    ask_again: bool = False
