"""Shows an experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.console import Console

from jobsight_papers.runner import Cells, show_table
from jobsight_server.ground.amounts import percent


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the policies compared with ``none`` for each trace and scenario, and application means with their rivals."""
    jobs = f"the first {account['jobs']:,} jobs" if account["jobs"] else "whole traces"
    console.print(
        f"{account['runs']:,} runs of {jobs}. Turnaround compared with jobs that are never spread; full: link time in "
        "which more is asked than a link carries. --json has throughput, makespan and slowdowns as well."
    )
    cells: Cells = {
        "policy": itemgetter("policy"),
        "turnaround": lambda row: f"{_percent(row['turnaround_percent'][0])} %",
        "95 % sure": lambda row: _interval(*row["turnaround_percent"][1:]),
        "wait": lambda row: "" if row["wait_percent"][0] is None else f"{_percent(row['wait_percent'][0])} %",
        "full": lambda row: percent(row["saturated"], 1),
        "spread": lambda row: percent(row["spread"], 1),
    }
    for (trace, scenario), rows in groupby(account["rows"], key=lambda row: (row["trace"], row["scenario"])):
        show_table(f"{_short(trace)}: {scenario}", cells, rows, console)
    _show_worth(account["worth"], console)


def _show_worth(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Show application means against everything else, in points of turnaround."""
    cells: Cells = {
        "trace": lambda row: _short(row["trace"]),
        "scenario": itemgetter("scenario"),
        "against": itemgetter("against"),
        "points": lambda row: _percent(row["points"][0]),
        "p (Holm)": lambda row: "" if row["p_holm"] is None else f"{row['p_holm']:.3f}",
        "means are": itemgetter("verdict"),
    }
    show_table("aware means, compared with its rivals", cells, rows, console)
    console.print("points of turnaround (none is 100) that means save (-) or cost (+)")


def _short(trace: str) -> str:
    return trace.removesuffix(".gz").removesuffix(".swf")


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{_percent(low)} to {_percent(high)}"


def _percent(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 100.0 else f"{value:+.1f}"
