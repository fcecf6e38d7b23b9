"""Shows the over-provisioning experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from jobsight_papers.runner import table_of
from jobsight_server.accounting.amounts import percent
from jobsight_server.commands.simulate.memory import show as show_rows

Row = Mapping[str, Any]


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the runs by cluster, order and load, and the similarity groups."""
    _groups(account, console)
    show_rows(account["rows"], console)
    if fit := account["figure_8_fit"]:
        console.print(f"Gain against the processors of the jobs that are helped, 16 to 28 MB: R2 {fit['r2']:.2f}.")
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
