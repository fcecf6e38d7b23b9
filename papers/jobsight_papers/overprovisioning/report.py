"""Shows the over-provisioning experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console

from jobsight_papers.runner import table_of
from jobsight_server.ground.amounts import percent

Row = Mapping[str, Any]


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the runs by cluster, order and load, and the similarity groups."""
    _groups(account, console)
    _rows(account["rows"], console)
    if fit := account["figure_8_fit"]:
        console.print(
            f"Gain against the processors of jobs that one division helps, 16 to 28 MB: R2 {fit['r2']:.2f}; "
            f"against the jobs lowered: {fit['lowered_r2']:.3f}."
        )
    for delay in account["failure_delay"]:
        more = delay["mean_wait_s"] - delay["mean_wait_without_s"]
        console.print(
            f"{delay['estimator']}: failures take {delay['failed_node_hours']:,.0f} node-hours and delay jobs by "
            f"{more:,.0f} s on average."
        )
    if "steps" in account:
        _ranked(account["steps"], ("alpha", "beta", "retry"), "Steps of successive approximation", console)
    if "group_fields" in account:
        _ranked(account["group_fields"][:10], ("fields", "groups"), "Fields that similar jobs share", console)


def _rows(rows: Sequence[Row], console: Console) -> None:
    """Show the runs by nodes, fill order and policy."""
    without = {_machine_of(row): row["utilisation"] for row in rows if row["estimator"] == "none"}
    for machine, same in groupby(rows, key=lambda row: _machine_of(row)[:3]):
        table = table_of(", ".join(machine), "estimator", "load", "use", "gain", "failed", "lowered", "wait")
        for row in same:
            beside = without.get(_machine_of(row)) if row["estimator"] != "none" else None
            table.add_row(
                row["estimator"],
                f"{row['load']:g}",
                percent(row["utilisation"], 1),
                f"{row['utilisation'] / beside:.2f}" if beside else "",
                percent(row["failed_share"], 2),
                percent(row["lowered_share"], 1),
                f"{row['mean_wait_s'] / 3600.0:,.1f}",
            )
        console.print(table)
    console.print(
        "use: utilisation; gain: of utilisation, over no estimation; failed: of attempts, for want of memory; lowered: "
        "jobs that finished on less than they requested; wait: mean wait in hours."
    )


def _machine_of(row: Row) -> tuple[Any, ...]:
    """Return the key of runs that are compared with one another."""
    return row["classes"], row["order"], row["policy"], row["load"]


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


def _ranked(rows: Sequence[Row], names: Sequence[str], title: str, console: Console) -> None:
    table = table_of(title, *names, "use", "failed")
    for row in rows:
        values = [" + ".join(row[name]) if name == "fields" else f"{row[name]}" for name in names]
        table.add_row(*values, percent(row["utilisation"], 1), percent(row["failed_share"], 2))
    console.print(table)
