"""Plots of the overbooking experiment, numbered as published (Birkenheuer, Brinkmann and Karl 2010)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from jobsight_papers.overbooking.results import VARIED, setting_of
from jobsight_server.command_line.plot_style import ACTUAL, BEST, INK, OTHERS, OURS, SERIES, drawing

Row = Mapping[str, Any]

COLOURS = {
    "conservative": INK,
    "release": OTHERS,
    "filter-only": SERIES["locality"],
    "release-filter": "#7f3c8d",
    "simple": SERIES["weighted"],
    "time-slice": BEST,
    "jobsight": OURS,
}
PANELS = (
    ("successful_jobs", "successful jobs"),
    ("failed_jobs", "failed jobs"),
    ("net_jobs", "net jobs"),
    ("profit_hours", "profit in hours"),
    ("penalty_hours", "penalty in hours"),
    ("net_hours", "net hours"),
    ("node_hours", "net node-hours"),
)
FIRST_FIGURE = {"SDSC": 4, "KTH": 8, "BLUE": 12, "CTC": 16}
"""Each published trace has four figures, jobs and profit of both strategies; the low load of CTC ends at 21."""


def draw(account: Mapping[str, Any], directory: Path) -> None:
    """Write into ``directory``: figures 2 and 3, for each trace the measures of figures 4 to 21
    by P_max, and predicted against observed failures.
    """
    for trace, curves in account["accuracy"].items():
        name = _file_name(trace)
        _accuracy(trace, curves, directory / f"figure-2-3-{name}.svg")
    settings = {setting_of(row): row for row in account["rows"]}
    for number, setting in enumerate(settings):
        rows = [row for row in account["rows"] if setting_of(row) == setting]
        trace = rows[0]["trace"]
        suffix = _file_name(trace) + (
            f"-{number}" if len({row["trace"] for row in account["rows"]}) < len(settings) else ""
        )
        varied = [f"{name.replace('_', ' ')} {rows[0][name]}" for name in VARIED if name in rows[0]]
        title = ", ".join([trace, *varied])
        first = FIRST_FIGURE.get(trace)
        figures = f" (figures {first} to {first + 3 if trace != 'CTC' else 21})" if first else ""
        with drawing(directory / f"figures-4-21-{suffix}.svg", f"{title}: by P_max{figures}", 4, 2) as axes:
            for axis, (measure, label) in zip(axes, PANELS, strict=False):
                _by_pmax(axis, rows, measure, label)
            _legend(axes[-1], rows)
        with drawing(directory / f"calibration-{suffix}.svg", f"{title}: failures of accepted jobs", 2) as axes:
            _calibration(axes[0], rows)
            _failures_by_pmax(axes[1], rows)


def _accuracy(trace: str, curves: Row, file: Path) -> None:
    percent = range(1, 101)
    with drawing(file, f"{trace}: run time / requested time of earlier jobs (figures 2 and 3)", 2) as (left, right):
        left.bar(percent, [100.0 * share for share in curves["pdf"]], width=1.0, color=OURS)
        left.set(xlabel="run / requested, %", ylabel="% of jobs", yscale="log", title="2: PDF")
        for i, (name, cdf) in enumerate(curves["cdf"].items()):
            colour = ACTUAL if name == "site" else [*COLOURS.values()][1 + i % (len(COLOURS) - 1)]
            right.plot(range(101), cdf, color=colour, linewidth=1.2, label=f"{name} ({curves['jobs'][name]:,.0f})")
        right.set(
            xlabel="run / requested, %", ylabel="probability", ylim=(0, 1), title="3: CDF by class of requested time"
        )
        right.legend(fontsize=6)


def _by_pmax(axis: Axes, rows: Sequence[Row], measure: str, label: str) -> None:
    for strategy, some in _by_strategy(rows).items():
        x = [row["pmax"] for row in some]
        colour = COLOURS[strategy]
        axis.plot(x, [row[measure]["mean"] for row in some], "o-", color=colour, markersize=2, linewidth=1.0)
        if all(row[measure]["low"] is not None for row in some):
            low, high = ([row[measure][end] for row in some] for end in ("low", "high"))
            axis.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
    axis.set(xlabel="P_max", title=label)


def _legend(axis: Axes, rows: Sequence[Row]) -> None:
    for strategy in _by_strategy(rows):
        axis.plot([], [], "o-", color=COLOURS[strategy], markersize=3, label=strategy)
    axis.legend(loc="center", fontsize=9)
    axis.set_axis_off()


def _calibration(axis: Axes, rows: Sequence[Row]) -> None:
    axis.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
    for strategy, some in _by_strategy(rows).items():
        columns = {part: [sum(v) for v in zip(*(row["calibration"][part] for row in some), strict=True)]
                   for part in ("jobs", "predicted", "failed")}  # fmt: skip
        points = [
            (predicted / jobs, failed / jobs)
            for jobs, predicted, failed in zip(columns["jobs"], columns["predicted"], columns["failed"], strict=True)
            if jobs >= 20
        ]
        axis.plot(
            [x for x, _ in points], [y for _, y in points], "o-", color=COLOURS[strategy], markersize=3, label=strategy
        )
    axis.set(xlabel="predicted probability of failure", ylabel="observed share", title="by predicted probability")
    axis.legend(fontsize=6)


def _failures_by_pmax(axis: Axes, rows: Sequence[Row]) -> None:
    for strategy, some in _by_strategy(rows).items():
        x = [row["pmax"] for row in some]
        axis.plot(x, [row["predicted_failure"] for row in some], "--", color=COLOURS[strategy], linewidth=1.0)
        axis.plot(
            x, [row["observed_failure"] for row in some], "o-", color=COLOURS[strategy], markersize=2, linewidth=1.0
        )
    axis.set(xlabel="P_max", ylabel="share of accepted jobs", title="observed (line), predicted (dashed)")


def _by_strategy(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["strategy"], []).append(row)
    return found


def _file_name(trace: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", trace)[:80].strip(".-") or "trace"
