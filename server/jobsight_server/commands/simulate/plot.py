"""Plots of a schedule: utilisation and queue over time, a Gantt chart, slowdowns, and links of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from jobsight_scheduler.figures import SIZES
from jobsight_scheduler.table import JobTable
from jobsight_server.command_line.plot_style import ACTUAL, BEST, INK, OTHERS, OURS, SERIES, drawing
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.replay.compared import RuleFigures

BINS = 300
GANTT_JOBS = 150
POINTS = 400

Floats = NDArray[np.float64]


def draw_simulation(table: JobTable, capacity: int, title: str, directory: Path) -> None:
    """Write utilisation.svg, queue.svg, gantt.svg and slowdown.svg into ``directory``, which is created if
    necessary."""
    directory.mkdir(parents=True, exist_ok=True)
    days, busy = over_time(table.start_s, table.end_s, table.processors.astype(float))
    with drawing(directory / "utilisation.svg", title, columns=1) as (axes,):
        axes.fill_between(days, busy / capacity, step="mid", color=OURS, alpha=0.8, linewidth=0)
        axes.set(ylim=(0, 1), xlabel="days", ylabel="processors in use")
    days, waiting = over_time(table.submit_s, table.start_s, np.ones(len(table)))
    with drawing(directory / "queue.svg", title, columns=1) as (axes,):
        axes.fill_between(days, waiting, step="mid", color=OTHERS, linewidth=0)
        axes.set(xlabel="days", ylabel="jobs waiting", ylim=(0, None))
    with drawing(directory / "gantt.svg", title, columns=1, height=5.0) as (axes,):
        _gantt(axes, table, capacity)
    with drawing(directory / "slowdown.svg", title, columns=1) as (axes,):
        _slowdowns(axes, table)


def draw_links(lasted_s: Floats, asked: Floats, end_s: float, title: str, file: Path) -> None:
    """Draw demand over capacity of the busiest link, and on average over all links, over time."""
    with drawing(file, title, columns=1) as (axes,):
        if len(lasted_s):
            edges = end_s - np.concatenate([np.cumsum(lasted_s[::-1])[::-1], [0.0]])
            for values, colour, label in ((asked.max(axis=1), BEST, "busiest"), (asked.mean(axis=1), OURS, "mean")):
                axes.plot(*over_time(edges[:-1], edges[1:], values), color=colour, linewidth=1, label=label)
            axes.legend()
        axes.axhline(1.0, color=INK, linewidth=0.8)
        axes.set(xlabel="days", ylabel="asked of uplinks / carried at most", ylim=(0, None))


def draw_waits(
    rules: Mapping[str, RuleFigures], weekly: Mapping[str, Floats], unit: str, scale: float, directory: Path
) -> None:
    """Write waiting.svg: the mean wait under each rule with its interval, and by week; in a ``unit`` of ``scale``
    seconds."""
    directory.mkdir(parents=True, exist_ok=True)
    colours = dict(zip(rules, (ACTUAL, OTHERS, *SERIES.values(), OURS, BEST, *SERIES.values()), strict=False))
    with drawing(directory / "waiting.svg", "Mean wait", columns=2) as (bars, lines):
        for place, (name, row) in enumerate(rules.items()):
            mean, *sure = row.mean_wait_s
            bars.barh(place, mean / scale, color=colours[name])
            if ends := [end / scale for end in sure if end is not None]:
                bars.plot(ends, [place, place], color=INK, linewidth=1)
            lines.plot(weekly[name] / scale, color=colours[name], linewidth=1, marker=".", label=name)
        bars.set(yticks=range(len(rules)), yticklabels=list(rules), xlabel=f"{unit}, 95 % interval over weeks")
        bars.invert_yaxis()
        lines.set(xlabel="week", ylabel=unit, ylim=(0, None))
        lines.legend()


def over_time(begin: Floats, end: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return the middles of equal intervals in days, and each one's mean total weight of jobs from ``begin`` to
    ``end``.
    """
    first, last = float(begin.min()), float(end.max())
    edges = np.linspace(first, max(last, first + 1.0), BINS + 1)
    times = np.concatenate([begin, end])
    change = np.concatenate([weight, -weight])
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(change[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    means = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    return (edges[1:] + edges[:-1]) / 2.0 / DAY_S, np.maximum(means, 0.0)


def _gantt(axes: Axes, table: JobTable, capacity: int) -> None:
    """Draw the jobs around the one that waited longest. Processors are counted, not named: jobs get the lowest free
    ones.
    """
    middle = int(np.argmax(table.wait_s))
    order = np.argsort(table.start_s, kind="stable")
    place = int(np.flatnonzero(order == middle)[0])
    first = max(0, min(place - GANTT_JOBS // 2, len(order) - GANTT_JOBS))
    chosen = order[first : first + GANTT_JOBS]
    free_from = np.full(capacity, -np.inf)
    colours = (OURS, *SERIES.values())
    for i in chosen.tolist():
        start, end = float(table.start_s[i]), float(table.end_s[i])
        rows = np.flatnonzero(free_from <= start)[: table.processors[i]]
        free_from[rows] = end
        for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
            if len(run):
                bar = [(start / DAY_S, (end - start) / DAY_S)]
                colour = colours[i % len(colours)]
                axes.broken_barh(bar, (run[0], len(run)), facecolors=colour, edgecolor="white", linewidth=0.3)
    axes.set(ylim=(0, capacity), xlabel="days", ylabel="processor")
    axes.set_title(f"{len(chosen)} jobs around the longest wait, that of job {table.job[middle]}")


def _slowdowns(axes: Axes, table: JobTable) -> None:
    slowdown = table.bounded_slowdown
    colours = (*SERIES.values(), OURS, OTHERS)
    for (low, high), colour in zip(zip((0, *SIZES), (*SIZES, np.inf), strict=True), colours, strict=False):
        chosen = slowdown[(table.processors > low) & (table.processors <= high)]
        if len(chosen):
            name = f"over {low}" if high == np.inf else f"up to {high:.0f}"
            shares = np.linspace(0.0, 1.0, min(len(chosen), POINTS))
            axes.plot(np.quantile(chosen, shares), shares, color=colour, label=name)
    axes.set(xscale="log", xlim=(1, None), ylim=(0, 1), xlabel="bounded slowdown", ylabel="share of jobs")
    axes.legend(title="processors", loc="lower right")
