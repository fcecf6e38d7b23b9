"""Coverage of bounds: overall, over time, by value and by user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jobsight_predictor.arrays import Floats, Indices

EARLIEST = 200  # jobs; needed for a share held so far
WINDOW = 500  # jobs; in a window
LOW = 0.92  # share; target for a window's or a user's jobs
MANY = 50  # jobs; users with at least this many get their own share
PERCENTILE = 0.05  # share; quantile of the windows, reported beside the worst


def coverages(
    bounds: Floats, forecasts: Floats, values: Floats, seconds: Floats, order: Indices, users: Sequence[Indices]
) -> dict[str, Any]:
    """Compute the shares of jobs within their bounds; arrays (n,), NaN without a bound or forecast.

    Jobs without a bound do not count. ``order`` is the order of completion. ``cost_coverage`` weighs each job by value
    x seconds. ``lowest_so_far`` is the lowest cumulative share from the 200th job on. ``windows`` are of 500
    consecutive jobs, ``deciles`` of the forecast value, ``users`` those with 50 jobs or more.
    """
    there = ~np.isnan(bounds)
    held = there & (values <= bounds)
    scale = float(values.max(initial=0.0)) or 1.0  # sums of huge values stay finite
    used = np.where(there, values / scale * seconds, 0.0)
    in_order = held[order][there[order]]
    so_far = np.cumsum(in_order) / np.arange(1, len(in_order) + 1)
    windows = [float(in_order[k : k + WINDOW].mean()) for k in range(0, len(in_order) - WINDOW + 1, WINDOW)]
    shares = [float(held[user].sum() / there[user].sum()) for user in users if there[user].sum() >= MANY]
    return {
        "cost_coverage": float(used[held].sum() / used.sum()) if used.sum() > 0.0 else None,
        "lowest_so_far": float(so_far[EARLIEST - 1 :].min()) if len(so_far) >= EARLIEST else None,
        "windows": {
            "windows": len(windows),
            "worst": min(windows, default=None),
            "p5": float(np.quantile(windows, PERCENTILE)) if windows else None,
            "low": float(np.mean(np.array(windows) < LOW)) if windows else None,
        },
        "deciles": _deciles(held, forecasts, there & ~np.isnan(forecasts)),
        "users": {
            "users": len(shares),
            "worst": min(shares, default=None),
            "low": sum(share < LOW for share in shares),
        },
    }


def _deciles(held: np.ndarray[Any, Any], forecasts: Floats, there: np.ndarray[Any, Any]) -> list[float | None]:
    """Compute the share held in each tenth of the jobs by forecast; jobs with equal forecasts stay together."""
    if not there.any():
        return [None] * 10
    edges = np.quantile(forecasts[there], np.linspace(0.0, 1.0, 11)[1:-1], method="lower")
    tenth = np.searchsorted(edges, forecasts, side="left")
    return [float(held[some].mean()) if (some := there & (tenth == k)).any() else None for k in range(10)]
