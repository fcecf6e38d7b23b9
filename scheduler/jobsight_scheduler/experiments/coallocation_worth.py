"""What forecasts are worth: the same jobs placed by Jobsight's forecasts and by something simpler, pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .coallocation_results import SIGNIFICANT, by_cell, turnaround_changes
from .coallocation_runs import ExperimentCase
from .paired_blocks import holm, interval, p_value

OURS = "aware predicted"
SIMPLER = ("naive", "reactive", "constant", "aware user", "application means", "aware oracle")


def worth(finished: Iterable[tuple[ExperimentCase, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each trace, uplink, load and policy ``against`` which ``aware predicted`` was run.

    ``points``: its turnaround (``none`` is 100) minus the other's, below 0 if forecasts are better; mean and 95 %
    confidence interval over blocks. ``p_holm``: p-value, corrected for all rows of this table. ``verdict``:
    ``better``, ``worse``, or ``no difference`` found at 5 %.
    """
    rows: list[dict[str, Any]] = []
    for of, runs in by_cell(finished):
        for other in SIMPLER:
            seeds = sorted(runs["none"].keys() & runs.get(OURS, {}).keys() & runs.get(other, {}).keys())
            if seeds:
                points = turnaround_changes(runs, OURS, seeds) - turnaround_changes(runs, other, seeds)
                rows.append(of | {"against": other, "points": interval(points), "p": p_value(points)})
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        sure = corrected is not None and corrected < SIGNIFICANT
        verdict = ("better" if row["points"][0] < 0.0 else "worse") if sure else "no difference"
        row |= {"p_holm": corrected, "verdict": verdict}
    return rows
