"""Figures of a schedule, overall, by user and by size (docs/use/definitions.md, Figures of a schedule)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .table import JobTable

SIZES = (1, 4, 16, 64, 256, 1024)
"""Upper ends of the size classes, in processors."""


def schedule_figures(table: JobTable, capacity: int) -> dict[str, Any]:
    """All figures of one schedule, in the shape that ``--json`` prints; ValueError for a table without jobs."""
    if not len(table):
        raise ValueError("a schedule without jobs has no figures")
    span = float(table.end_s.max() - table.submit_s.min())
    work, held = table.processors @ table.run_s, table.processors @ (table.end_s - table.start_s)
    whole = _of_jobs(table, np.ones(len(table), dtype=bool))
    return {
        **whole,
        "makespan_s": span,
        "useful_utilisation": float(work) / (capacity * span),
        "occupied_utilisation": float(held) / (capacity * span),
    }


def by_user(table: JobTable) -> dict[str, dict[str, Any]]:
    """Figures of each user's jobs, users with the most jobs first; ``-`` if the trace does not name the user."""
    users, counts = np.unique(table.user, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {(str(user) if user >= 0 else "-"): _of_jobs(table, table.user == user) for user in users[order].tolist()}


def by_size(table: JobTable) -> dict[str, dict[str, Any]]:
    """Figures of each class of processors that has jobs."""
    found = {}
    for low, high in zip((0, *SIZES), (*SIZES, np.inf), strict=True):
        chosen = (table.processors > low) & (table.processors <= high)
        if chosen.any():
            name = f"> {low}" if high == np.inf else "1" if high == 1 else f"{low + 1}-{high:.0f}"
            found[name] = _of_jobs(table, chosen)
    return found


def _of_jobs(table: JobTable, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    wait, slowdown = table.wait_s[chosen], table.bounded_slowdown[chosen]
    return {
        "jobs": int(chosen.sum()),
        "mean_wait_s": float(wait.mean()),
        "max_wait_s": float(wait.max()),
        "mean_turnaround_s": float((table.end_s - table.submit_s)[chosen].mean()),
        "mean_bounded_slowdown": float(slowdown.mean()),
        "median_bounded_slowdown": float(np.median(slowdown)),
    }
