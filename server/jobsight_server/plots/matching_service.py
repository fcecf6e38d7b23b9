"""Plots of the matching experiment through HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobsight_server.plots.style import BEST, OTHERS, OURS, drawing

_PARTS = (("query_s", "query", OURS), ("solve_s", "solve", BEST), ("rest_s", "rest", OTHERS))


def draw_service(account: Mapping[str, Any], directory: Path) -> None:
    """Writes time at the client by batch size, stacked, for each way of reading the state, into ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    readings = list(dict.fromkeys(row["reading"] for row in account["means"]))
    with drawing(directory / "service.svg", "Time at the client by batch size, ms", len(readings)) as axes:
        for axis, reading in zip(axes, readings, strict=False):
            rows = [row for row in account["means"] if row["reading"] == reading]
            jobs = [str(row["jobs"]) for row in rows]
            bottom = [0.0] * len(rows)
            for name, label, colour in _PARTS:
                heights = [row[name] * 1e3 for row in rows]
                axis.bar(jobs, heights, bottom=bottom, color=colour, label=label, width=0.6)
                bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
            axis.set(title=f"state read: {reading}", xlabel="jobs in the batch")
        axes[0].legend()
