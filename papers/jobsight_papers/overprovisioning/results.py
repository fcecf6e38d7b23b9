"""The results of the over-provisioning experiment: ratios, Figure 8's line, the best step sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs
from jobsight_papers.overprovisioning.cluster.nodes import MIB

FIT_FROM_MB, FIT_TO_MB = 16.0, 28.0

Row = Mapping[str, Any]


def ratios(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return for every run its utilisation over that without estimation, and the slowdown without it over its own."""
    rows = list(rows)
    none = {machine_of(row): row for row in rows if row["estimator"] == "none"}
    found = []
    for row in rows:
        beside = none.get(machine_of(row))
        if beside is None or row["estimator"] == "none":
            continue
        copied = ("second_mb", "classes", "policy", "load", "estimator", "lowered_share")
        names = {name: row[name] for name in copied}
        found.append(
            names
            | {
                "utilisation_ratio": row["utilisation"] / beside["utilisation"],
                "slowdown_ratio": beside["mean_slowdown"] / row["mean_slowdown"],
                "bounded_slowdown_ratio": beside["mean_bounded_slowdown"] / row["mean_bounded_slowdown"],
            }
        )
    return found


def machine_of(row: Row) -> tuple[Any, ...]:
    """Return the key of runs that are compared with one another."""
    return row["classes"], row["policy"], row["load"]


def helped_processors(jobs: MemoryJobs, second_bytes: float, alpha: float = 2.0) -> float:
    """Return the processors of the jobs that need at most ``second_bytes``, request more, and get there by one division
    by ``alpha``.
    """
    requested, used = jobs.requested_bytes, jobs.used_bytes
    helped = (requested > second_bytes) & (used <= second_bytes) & (requested / alpha <= second_bytes)
    return float(jobs.work.processors[helped].sum())


def figure_8_fit(found: Sequence[Row], jobs: MemoryJobs) -> dict[str, Any] | None:
    """Return the line of Figure 8: ratio of utilisations against the processors helped, and ``lowered_r2``, of the line
    against the share of jobs lowered; None for fewer than three points.

    Of several policies and loads, those of the first run count.
    """
    published = [
        row for row in found if row["estimator"] == "successive-approximation" and row["second_mb"] is not None
    ]
    points = [
        (
            helped_processors(jobs, row["second_mb"] * MIB),
            row["utilisation_ratio"],
            row["second_mb"],
            row["lowered_share"],
        )
        for row in published
        if FIT_FROM_MB <= row["second_mb"] <= FIT_TO_MB
        and all(row[name] == published[0][name] for name in ("policy", "load"))
    ]
    if len(points) < 3 or len({point[0] for point in points}) < 2:
        return None
    x, y, sizes, lowered = np.array(points).T
    fit = {"second_mb": sizes.tolist(), "processors": x.tolist(), "ratio": y.tolist()} | straight_line(x, y)
    return fit | {"lowered_r2": straight_line(lowered, y)["r2"]}


def straight_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> dict[str, float]:
    """Return the line of least squares through at least two points of different ``x``, and its R2."""
    slope, intercept = np.polyfit(x, y, 1)
    left = float(((y - slope * x - intercept) ** 2).sum())
    whole = float(((y - y.mean()) ** 2).sum())
    return {"slope": float(slope), "intercept": float(intercept), "r2": 1.0 - left / whole if whole else 1.0}
