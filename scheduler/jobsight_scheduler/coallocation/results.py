"""The results of a simulation of clusters: the table of its jobs, and figures of spreading and links."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.figures import schedule_figures
from jobsight_scheduler.table import JobTable, table_of

from .cosimulation import CoSimulation

Floats = NDArray[np.float64]

FULL = 1.0 + 1e-9
"""Demand over capacity above which a link is saturated."""


def job_table(simulation: CoSimulation, users: Floats) -> JobTable:
    """The table of a finished simulation. ``users``: of the jobs of the trace, by row; may be empty."""
    return replace(table_of(simulation.work.jobs, simulation.start_s, users), end_s=simulation.end_s)


def figures(simulation: CoSimulation, table: JobTable) -> dict[str, Any]:
    """The figures of any schedule (docs/use/definitions.md, Figures of a schedule), and those of spreading and links.

    ``spread`` is the share of jobs on more than one cluster; ``mean_stretch`` how many times longer than alone those
    took; ``jobs_per_hour`` those that ended by the last submission, per hour until then (None if all were submitted at
    once): what the clusters get done while work keeps arriving; ``saturated`` the share of link time in which demand
    exceeds capacity, and ``link_load`` what the links carried as a share of their capacity.
    """
    spread = np.array([len(where) > 1 for where in simulation.allocations])
    stretch = (table.end_s - table.start_s)[spread] / table.run_s[spread]
    span = float(table.end_s.max() - table.submit_s.min())
    lasted, asked = link_history(simulation)
    links = len(simulation.clusters.processors)
    arriving = float(table.submit_s.max() - table.submit_s.min())
    return {
        **schedule_figures(table, simulation.clusters.total),
        "jobs_per_hour": 3600.0 * float((table.end_s <= table.submit_s.max()).sum()) / arriving if arriving else None,
        "spread": float(spread.mean()),
        "mean_stretch": float(stretch.mean()) if len(stretch) else 1.0,
        "saturated": float(lasted @ (asked > FULL).sum(axis=1)) / (links * span),
        "link_load": float(lasted @ np.minimum(asked, 1.0).sum(axis=1)) / (links * span),
    }


def link_history(simulation: CoSimulation) -> tuple[Floats, Floats]:
    """How long each state of the links lasted, shape (states,), and the demand on each, (states, links)."""
    links = len(simulation.clusters.processors)
    rows = np.array(simulation.saturation).reshape(-1, links + 1)
    return np.diff(rows[:, 0], append=simulation.now), rows[:, 1:]
