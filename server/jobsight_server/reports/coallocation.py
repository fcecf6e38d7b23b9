"""Shows an experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_server.amounts import percent


def show(account: Mapping[str, Any], console: Console) -> None:
    """The policies compared with ``none`` for each trace, uplink and load, and the claims about predictions."""
    jobs = f"at most {account['jobs']:,} jobs each" if account["jobs"] else "whole traces"
    console.print(
        f"{account['runs']:,} runs of {jobs}. Turnaround compared with jobs that are never spread; full: link time in "
        "which more is asked than a link carries. --json has throughput, makespan and slowdowns as well."
    )
    for (trace, uplink, load), rows in groupby(account["rows"], key=lambda row: _case(row)):
        title = Text(f"{_short(trace)}: uplinks of {uplink:g} Mb/s, load {load:g}", "bold")
        table = Table(title=title, box=SIMPLE, padding=(0, 1), title_justify="left")
        table.add_column("policy", overflow="fold")
        for column in ("turnaround", "95 % sure", "wait", "full", "spread"):
            table.add_column(column, justify="right", no_wrap=True)
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
    table = Table(title=Text("aware predicted", "bold"), box=SIMPLE, padding=(0, 1), title_justify="left")
    for column in ("trace", "Mb/s", "load", "better", "near oracle", "links free"):
        table.add_column(column, justify="left" if column == "trace" else "right")
    for claim in account["claims"]:
        held = ["yes" if claim[name] else "no" for name in ("better", "near_oracle", "links_free")]
        table.add_row(_short(claim["trace"]), f"{claim['uplink_mbps']:g}", f"{claim['load']:g}", *held)
    console.print(table)
    console.print(
        "better: than none, with 95 % confidence, corrected for the cells of this table (Holm); near oracle: at most "
        "1.5 points behind; links free: saturated in less than 4 % of their time."
    )
    _show_worth(account["worth"], console)


def _show_worth(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Forecasts against everything simpler, in points of turnaround."""
    title = Text("aware predicted, compared with other policies", "bold")
    table = Table(title=title, box=SIMPLE, padding=(0, 1), title_justify="left")
    table.add_column("trace", overflow="fold")
    for column in ("Mb/s", "load", "against", "points", "p (Holm)", "forecasts are"):
        table.add_column(column, justify="right")
    for row in rows:
        corrected = row["p_holm"]
        table.add_row(
            _short(row["trace"]),
            f"{row['uplink_mbps']:g}",
            f"{row['load']:g}",
            row["against"],
            _percent(row["points"][0]),
            "" if corrected is None else f"{corrected:.3f}",
            row["verdict"],
        )
    console.print(table)
    console.print("points of turnaround (none is 100) that forecasts save (-) or cost (+)")


def _short(trace: str) -> str:
    return trace.removesuffix(".gz").removesuffix(".swf")


def _percent(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 100.0 else f"{value:+.1f}"


def _case(row: Mapping[str, Any]) -> tuple[str, float, float]:
    return row["trace"], row["uplink_mbps"], row["load"]
