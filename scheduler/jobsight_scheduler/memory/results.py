"""The results of a simulation on nodes of several memory sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .simulation import MemorySimulation


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """Shares are of 1, times in seconds.

    ``utilisation``: node-seconds of finished jobs, as a share of all from the first submission to the last end.
    ``failed_share`` of attempts; ``lowered_share`` of jobs that finished on less than they requested;
    ``failed_node_hours`` spent on failed attempts. Slowdown is (wait + run) / run, ``mean_bounded_slowdown`` with at
    least 10 s of run time and at least 1. ``mean_wait_s`` is until the start of the attempt that succeeded.
    """

    utilisation: float
    failed_share: float
    lowered_share: float
    mean_slowdown: float
    mean_bounded_slowdown: float
    mean_wait_s: float
    failed_node_hours: float


def memory_figures(simulation: MemorySimulation) -> MemoryFigures:
    """Figures of a simulation in which every job has ended."""
    jobs = simulation.jobs
    stay = simulation.end_s - jobs.submit_s
    span = float(simulation.end_s.max() - jobs.submit_s[0])
    return MemoryFigures(
        utilisation=jobs.node_seconds / (sum(simulation.nodes.nodes) * span),
        failed_share=simulation.failures / simulation.attempts,
        lowered_share=float(simulation.is_lowered.mean()),
        mean_slowdown=float((stay / jobs.run_s).mean()),
        mean_bounded_slowdown=float(np.maximum(1.0, stay / np.maximum(jobs.run_s, 10.0)).mean()),
        mean_wait_s=float((simulation.start_s - jobs.submit_s).mean()),
        failed_node_hours=float(simulation.failed_node_s) / 3600.0,
    )
