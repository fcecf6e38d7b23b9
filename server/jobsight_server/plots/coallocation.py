"""Plots of co-allocation: the experiment's policies by load, wrong estimates; links of one simulation over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.experiments.coallocation_runs import SENSITIVE_LOAD
from jobsight_scheduler.experiments.coallocation_variants import CONSTANTS, ERRORS, LEARNERS, LIKENESS
from jobsight_server.plots.style import ACTUAL, BEST, INK, OTHERS, OURS, SERIES, drawing

Rows = Sequence[Mapping[str, Any]]
Floats = NDArray[np.float64]

COLOURS = {
    "naive": SERIES["locality"],
    "naive max-min": SERIES["weighted"],
    "reactive": SERIES["exponential"],
    "constant": OTHERS,
    "aware user": BEST,
    "application means": SERIES["sliding-window"],
    "aware predicted": OURS,
    "aware oracle": ACTUAL,
}
LINEAR = 20.0
TICKS = (-20, -10, 0, 10, 20, 100, 1_000, 10_000, 100_000)
"""Differences in per cent: linear in the range of policies that do not collapse, then logarithmic."""

BINS = 300
DAY_S = 86_400.0


def draw(account: Mapping[str, Any], directory: Path) -> None:
    """Writes turnaround.svg, saturated.svg and sensitivity.svg into ``directory``, which is created if necessary."""
    directory.mkdir(parents=True, exist_ok=True)
    rows: Rows = account["rows"]
    panels = sorted({(row["trace"], row["uplink_mbps"]) for row in rows})
    columns = max(len({uplink for _, uplink in panels}), 1)
    down = -(-len(panels) // columns)
    with drawing(
        directory / "turnaround.svg", "Turnaround compared with jobs that are never spread", columns, down, 3.0
    ) as axes:
        for axis, panel in zip(axes, panels, strict=False):
            _by_load(axis, rows, panel, "turnaround_percent")
            axis.set_yscale("symlog", linthresh=LINEAR, linscale=2.0)
            axis.set(ylabel="difference, %")
            axis.set_yticks([tick for tick in TICKS if axis.get_ylim()[0] <= tick <= axis.get_ylim()[1]])
            axis.yaxis.set_major_formatter("{x:+,.0f}")
            axis.axhline(0.0, color=INK, linewidth=0.8)
    title = "Link time in which more is asked than a link carries"
    with drawing(directory / "saturated.svg", title, columns, down, 3.0) as axes:
        for axis, panel in zip(axes, panels, strict=False):
            _by_load(axis, rows, panel, "saturated")
            axis.set(ylabel="% of link time", ylim=(0, None))
    sensitive = [panel for panel in panels if any(_is(row, panel) and row["policy"] == "locality" for row in rows)]
    if sensitive:
        title = f"Turnaround by bandwidth source, load {SENSITIVE_LOAD:g}"
        with drawing(directory / "sensitivity.svg", title, 2, -(-len(sensitive) // 2), height=9.0) as axes:
            for axis, panel in zip(axes, sensitive, strict=False):
                _sensitivity(axis, rows, panel)


def _is(row: Mapping[str, Any], panel: tuple[str, float]) -> bool:
    return (row["trace"], row["uplink_mbps"]) == panel


def _title(panel: tuple[str, float]) -> str:
    return f"{panel[0].removesuffix('.gz').removesuffix('.swf')}, {panel[1]:g} Mb/s"


def _by_load(axis: Any, rows: Rows, panel: tuple[str, float], measure: str) -> None:
    for policy, colour in COLOURS.items():
        mine = [row for row in rows if _is(row, panel) and row["policy"] == policy]
        loads = [row["load"] for row in mine]
        if measure == "saturated":
            axis.plot(loads, [100.0 * row[measure] for row in mine], "o-", color=colour, markersize=3, label=policy)
            continue
        mean, low, high = np.array([row[measure] for row in mine], dtype=float).reshape(-1, 3).T
        axis.plot(loads, mean, "o-", color=colour, markersize=3, label=policy)
        axis.fill_between(loads, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.set(xlabel="offered load", title=_title(panel), xticks=sorted({row["load"] for row in rows}))
    if axis.get_subplotspec().is_first_row() and axis.get_subplotspec().is_first_col():
        axis.legend(fontsize=6.5)


def _sensitivity(axis: Any, rows: Rows, panel: tuple[str, float]) -> None:
    """A dot and its interval for each source of bandwidth; beyond +20 %, the figure in words."""
    found = {row["policy"]: row for row in rows if _is(row, panel) and row["load"] == SENSITIVE_LOAD}
    names = [
        *("aware oracle", *ERRORS, "aware user", "reactive", *CONSTANTS, "constant"),
        *("application means", *LEARNERS, "aware predicted", *LIKENESS),
    ]
    shown = [name for name in names if name in found]
    for place, name in enumerate(shown):
        mean, low, high = found[name]["turnaround_percent"]
        colour = OURS if "predicted" in name else SERIES.get(name, ACTUAL if name == "aware oracle" else OTHERS)
        if mean > 20.0:
            axis.annotate(f"{mean:+,.0f} %", (20.0, place), ha="right", va="center", fontsize=7, color=colour)
            continue
        axis.plot([mean], [place], "o", color=colour, markersize=4)
        if low is not None:
            axis.plot([low, min(high, 20.0)], [place, place], color=colour, linewidth=1)
    axis.axvline(0.0, color=INK, linewidth=0.8)
    axis.set(xlim=(-25, 20), xlabel="turnaround compared with none, %", title=_title(panel))
    axis.set_yticks(range(len(shown)), shown, fontsize=6)
    axis.invert_yaxis()


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
