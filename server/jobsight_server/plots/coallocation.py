"""Plots of co-allocation: the experiment's policies in each scenario; links of one simulation over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_server.plots.style import ACTUAL, BEST, INK, OTHERS, OURS, drawing

Rows = Sequence[Mapping[str, Any]]
Floats = NDArray[np.float64]

COLOURS = {
    "aware user": BEST,
    "aware means": OURS,
    "aware oracle": ACTUAL,
}
AT_MOST = 20.0
"""Per cent; policies that make turnaround longer than this are said in words."""

BINS = 300
DAY_S = 86_400.0


def draw(account: Mapping[str, Any], directory: Path) -> None:
    """Writes turnaround.svg into ``directory``, which is created if necessary: a dot and its interval for each."""
    directory.mkdir(parents=True, exist_ok=True)
    rows: Rows = account["rows"]
    traces = list(dict.fromkeys(row["trace"] for row in rows))
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    title = "Turnaround compared with jobs that are never spread"
    height = 1.0 + 0.55 * len(scenarios)
    with drawing(directory / "turnaround.svg", title, max(len(traces), 1), 1, height) as axes:
        for axis, trace in zip(axes, traces, strict=False):
            _panel(axis, [row for row in rows if row["trace"] == trace], scenarios)
            axis.set_title(trace.removesuffix(".gz").removesuffix(".swf"))


def _panel(axis: Any, rows: Rows, scenarios: Sequence[str]) -> None:
    ticks = []
    for place, scenario in enumerate(scenarios):
        shown = [row for row in rows if row["scenario"] == scenario and row["policy"] != "none"]
        constants = [row for row in shown if row["policy"].startswith("constant")]
        best = min(constants, key=lambda row: row["turnaround_percent"][0], default=None)
        shown = [row for row in shown if row["policy"] in COLOURS or row is best]
        for step, row in enumerate(shown):
            mean, low, high = row["turnaround_percent"]
            at, colour = place + 0.6 * (step / max(len(shown) - 1, 1) - 0.5), COLOURS.get(row["policy"], OTHERS)
            label = ("best constant" if row is best else row["policy"]) if not place else None
            if mean > AT_MOST:
                axis.annotate(f"{mean:+,.0f} %", (AT_MOST, at), ha="right", va="center", fontsize=7, color=colour)
                continue
            axis.plot([mean], [at], "o", color=colour, markersize=4, label=label)
            if low is not None:
                axis.plot([low, min(high, AT_MOST)], [at, at], color=colour, linewidth=1)
        ticks.append(place)
    axis.axvline(0.0, color=INK, linewidth=0.8)
    axis.set(xlabel="difference, %")
    axis.set_yticks(ticks, scenarios, fontsize=7)
    axis.invert_yaxis()
    if axis.get_subplotspec().is_first_col():
        axis.legend(fontsize=6.5)


def draw_links(lasted_s: Floats, asked: Floats, end_s: float, title: str, file: Path) -> None:
    """Demand over capacity of the busiest link, and on average over all links, over time."""
    with drawing(file, title, columns=1) as (axes,):
        if len(lasted_s):
            edges = end_s - np.concatenate([np.cumsum(lasted_s[::-1])[::-1], [0.0]])
            bins = np.linspace(edges[0], max(edges[-1], edges[0] + 1.0), BINS + 1)
            for values, colour, label in ((asked.max(axis=1), BEST, "busiest"), (asked.mean(axis=1), OURS, "mean")):
                area = np.concatenate([[0.0], np.cumsum(values * lasted_s)])
                means = np.diff(np.interp(bins, edges, area)) / np.diff(bins)
                axes.plot((bins[1:] + bins[:-1]) / 2.0 / DAY_S, means, color=colour, linewidth=1, label=label)
            axes.legend()
        axes.axhline(1.0, color=INK, linewidth=0.8)
        axes.set(xlabel="days", ylabel="asked of uplinks / carried at most", ylim=(0, None))
