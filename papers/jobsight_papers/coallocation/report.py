"""Shows an experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console

from jobsight_papers.runner import table_of
from jobsight_server.ground.amounts import percent


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the policies compared with ``none`` for each trace and scenario, and application means with their rivals."""
    jobs = f"the first {account['jobs']:,} jobs" if account["jobs"] else "whole traces"
    console.print(
        f"{account['runs']:,} runs of {jobs}. Turnaround compared with jobs that are never spread; full: link time in "
        "which more is asked than a link carries. --json has throughput, makespan and slowdowns as well."
    )
    for (trace, scenario), rows in groupby(account["rows"], key=lambda row: (row["trace"], row["scenario"])):
        title = f"{_short(trace)}: {scenario}"
        table = table_of(title, "policy", "turnaround", "95 % sure", "wait", "full", "spread")
        for row in rows:
            mean, low, high = row["turnaround_percent"]
            table.add_row(
                row["policy"],
                f"{_percent(mean)} %",
                "" if low is None else _percent(low) + " to " + _percent(high),
                "" if row["wait_percent"][0] is None else f"{_percent(row['wait_percent'][0])} %",
                percent(row["saturated"], 1),
                percent(row["spread"], 1),
            )
        console.print(table)
    _show_worth(account["worth"], console)


def _show_worth(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Show application means against everything else, in points of turnaround."""
    title = "aware means, compared with its rivals"
    table = table_of(title, "trace", "scenario", "against", "points", "p (Holm)", "means are")
    for row in rows:
        corrected = row["p_holm"]
        table.add_row(
            _short(row["trace"]),
            row["scenario"],
            row["against"],
            _percent(row["points"][0]),
            "" if corrected is None else f"{corrected:.3f}",
            row["verdict"],
        )
    console.print(table)
    console.print("points of turnaround (none is 100) that means save (-) or cost (+)")


def _short(trace: str) -> str:
    return trace.removesuffix(".gz").removesuffix(".swf")


def _percent(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 100.0 else f"{value:+.1f}"
