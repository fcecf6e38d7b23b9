"""Plots of the matching experiment, in process and through HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobsight_server.command_line.plot_style import BEST, OTHERS, OURS, drawing

_PARTS = (("query_s", "query", OURS), ("solve_s", "solve", BEST), ("rest_s", "rest", OTHERS))


def draw(account: Mapping[str, Any], directory: Path) -> None:
    """Plot time by batch size and by shape, and greedy orders, into ``directory``.

    With results of the service, plot the time at its client, too.
    """
    sizes = account["sizes"]
    with drawing(directory / "sizes.svg", "Time to match a batch", 2) as (time, rows):
        jobs = [row["jobs"] for row in sizes]
        time.plot(jobs, [row["median_s"] * 1e3 for row in sizes], "o-", color=OURS, markersize=3, label="median")
        time.plot(jobs, [row["longest_s"] * 1e3 for row in sizes], "o:", color=OTHERS, markersize=3, label="longest")
        time.set(xlabel="jobs in the batch", ylabel="processor time, ms", yscale="log")
        time.legend()
        shapes = sorted((row for row in account["shapes"] if row["rows"]), key=lambda row: row["rows"])
        rows.plot([row["rows"] for row in shapes], [row["median_s"] * 1e3 for row in shapes], "o", color=BEST)
        rows.axvline(300.0, color=OTHERS, linewidth=0.8)
        rows.set(xlabel="constraints (published: up to 300)", ylabel="processor time, ms", yscale="log", xscale="log")
    greedy = account["greedy"]
    with drawing(directory / "greedy.svg", "Greedy matching, share of the best found", 1) as (axis,):
        axis.barh([row["order"] for row in greedy], [row["of_optimum"] for row in greedy], color=OURS)
        axis.set(xlim=(0, 1), xlabel="jobs matched over the optimum, mean")
    if "service" in account:
        _service(account["service"]["means"], directory)


def _service(means: Sequence[Mapping[str, Any]], directory: Path) -> None:
    """Plot time at the client by batch size, stacked."""
    with drawing(directory / "service.svg", "Time at the client by batch size, ms", 1) as (axis,):
        jobs, bottom = [str(row["jobs"]) for row in means], [0.0] * len(means)
        for name, label, colour in _PARTS:
            heights = [row[name] * 1e3 for row in means]
            axis.bar(jobs, heights, bottom=bottom, color=colour, label=label, width=0.6)
            bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        axis.set(xlabel="jobs in the batch")
        axis.legend()
