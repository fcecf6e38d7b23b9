"""Shows an experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text


def show(account: Mapping[str, Any], console: Console) -> None:
    """The policies compared with ``none`` for each trace, uplink and load, and the claims about predictions."""
    jobs = f"{account['jobs']:,} jobs each" if account["jobs"] else "whole traces"
    console.print(
        f"{account['runs']:,} runs of {jobs}. Turnaround compared with jobs that are never spread; full: link time in "
        "which more is asked than a link carries; stretch: how many times longer than alone spread jobs take."
    )
    for (trace, uplink, load), rows in groupby(account["rows"], key=lambda row: _case(row)):
        title = Text(f"{_short(trace)}: uplinks of {uplink:g} Mb/s, load {load:g}", "bold")
        table = Table(title=title, box=SIMPLE, padding=(0, 1), title_justify="left")
        table.add_column("policy", no_wrap=True)
        for column in ("turnaround", "95 % sure", "full", "spread", "stretch"):
            table.add_column(column, justify="right", no_wrap=True)
        for row in rows:
            mean, low, high = row["turnaround_percent"]
            table.add_row(
                row["policy"],
                f"{_percent(mean)} %",
                "" if low is None else _percent(low) + " to " + _percent(high),
                f"{row['saturated']:.1%}",
                f"{row['spread']:.1%}",
                f"{row['mean_stretch']:.2f}",
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
        "better: than none, with 95 % confidence; near oracle: at most 1.5 points behind; "
        "links free: saturated in less than 4 % of their time."
    )


def _short(trace: str) -> str:
    return trace.removesuffix(".gz").removesuffix(".swf")


def _percent(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 100.0 else f"{value:+.1f}"


def _case(row: Mapping[str, Any]) -> tuple[str, float, float]:
    return row["trace"], row["uplink_mbps"], row["load"]
