"""Turnaround of the policies in each scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobsight_server.command_line.plot_style import ACTUAL, BEST, INK, OTHERS, OURS, drawing

Rows = Sequence[Mapping[str, Any]]

COLOURS = {
    "aware user": BEST,
    "aware means": OURS,
    "aware oracle": ACTUAL,
}
AT_MOST = 20.0
"""Per cent; the plot names policies with a longer turnaround in words."""


def draw(account: Mapping[str, Any], directory: Path) -> None:
    """Write turnaround.svg into ``directory``: a dot and its interval for each."""
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
