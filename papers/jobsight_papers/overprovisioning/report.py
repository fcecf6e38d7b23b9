"""Shows the over-provisioning experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.console import Console

from jobsight_papers.overprovisioning.results import machine_of
from jobsight_papers.runner import Cells, show_table
from jobsight_server.ground.amounts import percent

Row = Mapping[str, Any]


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the runs by cluster and load, and the similarity groups."""
    _groups(account, console)
    _rows(account["rows"], console)
    if fit := account["figure_8_fit"]:
        console.print(
            f"Gain against the processors of jobs that one division helps, 16 to 28 MB: R2 {fit['r2']:.2f}; "
            f"against the jobs lowered: {fit['lowered_r2']:.3f}."
        )
    if "steps" in account:
        _steps(account["steps"], console)


def _rows(rows: Sequence[Row], console: Console) -> None:
    """Show the runs by nodes and policy."""
    without = {machine_of(row): row["utilisation"] for row in rows if row["estimator"] == "none"}
    cells: Cells = {
        "estimator": itemgetter("estimator"),
        "load": lambda row: f"{row['load']:g}",
        "use": lambda row: percent(row["utilisation"], 1),
        "gain": lambda row: _gain(row, without),
        "failed": lambda row: percent(row["failed_share"], 2),
        "lowered": lambda row: percent(row["lowered_share"], 1),
        "wait": lambda row: f"{row['mean_wait_s'] / 3600.0:,.1f}",
    }
    for machine, same in groupby(rows, key=lambda row: machine_of(row)[:2]):
        show_table(", ".join(machine), cells, same, console)
    console.print(
        "use: utilisation; gain: of utilisation, over no estimation; failed: of attempts, for want of memory; lowered: "
        "jobs that finished on less than they requested; wait: mean wait in hours."
    )


def _gain(row: Row, without: Mapping[Any, float]) -> str:
    beside = without.get(machine_of(row)) if row["estimator"] != "none" else None
    return f"{row['utilisation'] / beside:.2f}" if beside else ""


def _groups(account: Mapping[str, Any], console: Console) -> None:
    similarity = account["similarity"]
    over, sizes, gain = similarity["request_over_use"], similarity["group_sizes"], similarity["gain"]
    ten = sizes["at_least"].index(10)
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in account["dropped"].items())
    console.print(
        f"{account['jobs']:,} jobs in {account['groups']:,} similarity groups"
        + (f" (left out: {dropped})." if dropped else ".")
    )
    if over["jobs"]:
        console.print(
            f"{percent(over['at_least_double_share'], 1)} of {over['jobs']:,} jobs request at least twice what they "
            f"use, up to {over['largest']:.0f} times."
        )
    console.print(
        f"Groups of 10 jobs or more are {percent(sizes['groups_share'][ten], 1)} of all and hold "
        f"{percent(sizes['jobs_share'][ten])} of the jobs."
    )
    if gain["alike_share"] is not None:
        console.print(
            f"In {percent(gain['alike_share'], 1)} of these the largest use is at most {gain['similarity_range']:g} "
            "times the smallest."
        )


def _steps(rows: Sequence[Row], console: Console) -> None:
    cells: Cells = {
        "alpha": lambda row: f"{row['alpha']:g}",
        "beta": lambda row: f"{row['beta']:g}",
        "retry": itemgetter("retry"),
        "use": lambda row: percent(row["utilisation"], 1),
        "failed": lambda row: percent(row["failed_share"], 2),
    }
    show_table("Steps of successive approximation", cells, rows, console)
