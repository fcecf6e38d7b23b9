"""Plots of the ranking experiment: the four sets beside the published bars, and the gain against load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jobsight_server.command_line.plot_style import BEST, INK, OTHERS, OURS, drawing

Row = Mapping[str, Any]
PALE = "#c9ccd1"
BARS = (
    ("first_come", "counted", "first come, published", PALE),
    ("first_come", "ours", "first come, ours", OTHERS),
    ("grv", "counted", "GRV, published", "#a6cbe3"),
    ("grv", "ours", "GRV, ours", OURS),
    ("survival", "ours", "survival, ours", BEST),
)
LINES = {
    ("grv", "first-come"): (OTHERS, "GRV over first come"),
    ("survival", "first-come"): (OURS, "survival over first come"),
}
LINES[("survival", "grv")] = (BEST, "survival over GRV")


def draw(account: Mapping[str, Any], directory: Path) -> None:
    """Plot the available runs into ``directory``."""
    shown = [row for row in account["published"] if any(row[rank]["ours"] is not None for rank, *_ in BARS)]
    if shown:
        _sets(shown, directory / "sets.svg")
    if any(len(_loads_of(account["gains"], row["set"])) > 1 for row in account["gains"]):
        _loads(account["gains"], directory / "loads.svg")


def _sets(rows: Sequence[Row], file: Path) -> None:
    with drawing(file, "Jobs completed without restart", 2) as (axis, beside):
        place = np.arange(len(rows))
        for number, (rank, kind, label, colour) in enumerate(BARS):
            heights = [row[rank][kind] if row[rank][kind] is not None else 0.0 for row in rows]
            axis.bar(place + 0.16 * (number - 2), heights, 0.15, color=colour, label=label)
        axis.set_xticks(place, [f"set {row['set']}" for row in rows])
        axis.set(ylabel="% of jobs", ylim=(0, 100))
        handles, labels = axis.get_legend_handles_labels()
        beside.axis("off")
        beside.legend(handles, labels, loc="center left")


def _loads(gains: Sequence[Row], file: Path) -> None:
    sets = [number for number in sorted({row["set"] for row in gains}) if len(_loads_of(gains, number)) > 1]
    with drawing(file, "Gain by offered load", min(len(sets), 2), -(-len(sets) // 2)) as axes:
        for axis, number in zip(axes, sets, strict=False):
            for (rank, over), (colour, label) in LINES.items():
                of = sorted(
                    (row["load"], row["gain"])
                    for row in gains
                    if (row["set"], row["rank"], row["over"]) == (number, rank, over)
                )
                loads = [load for load, _ in of]
                axis.plot(
                    loads, [100.0 * gain["mean"] for _, gain in of], "o-", color=colour, markersize=3, label=label
                )
                if of and all(gain["low"] is not None for _, gain in of):
                    low, high = ([100.0 * gain[end] for _, gain in of] for end in ("low", "high"))
                    axis.fill_between(loads, low, high, color=colour, alpha=0.15, linewidth=0)
            axis.axhline(0.0, color=INK, linewidth=0.8)
            axis.set(xlabel="offered load", ylabel="points of completed jobs", title=f"set {number}", xlim=(0, None))
        axes[0].legend()


def _loads_of(gains: Sequence[Row], number: int) -> set[float]:
    return {row["load"] for row in gains if row["set"] == number}
