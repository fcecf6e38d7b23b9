"""Shows a simulation on a terminal of 80 columns."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_scheduler.validator import BrokenRule
from jobsight_server.accounting.amounts import percent

SHOWN_USERS = 10
SHOWN_FINDINGS = 10


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the figures of one simulation, by size and by user, and compared with other policies."""
    predictor = f" with run times by {account['predictor']}" if account["predictor"] else ""
    predictor += ", asked again" if account.get("ask_again") else ""
    console.print(
        Text(f"{account['trace']}: {account['policy']}{predictor} on {account['processors']:,} processors", "bold")
    )
    console.print(
        f"{account['jobs']:,} job{'' if account['jobs'] == 1 else 's'}; "
        f"{account['dropped']:,} dropped, {account['clamped']:,} cut at their estimate, "
        f"{account['reordered']:,} out of order."
    )
    for reason, count in account["dropped_because"].items():
        console.print(Text(f"{count:>9,}  dropped: {reason} (first: {account['first_places'][reason]})"))
    for reason, count in account["repairs"].items():
        console.print(Text(f"{count:>9,}  {reason} (first: {account['first_places'][reason]})"))
    console.print(
        f"Makespan {account['makespan_s']:,.0f} s, utilisation {percent(account['useful_utilisation'], 1)}, "
        f"longest wait {account['max_wait_s']:,.0f} s."
    )
    console.print(
        f"Mean wait {account['mean_wait_s']:,.0f} s, mean bounded slowdown {account['mean_bounded_slowdown']:,.1f}."
    )
    if "cpu_s" in account:
        rate = account["jobs_per_cpu_s"]
        console.print(f"Simulated in {account['cpu_s']:.2f} s of CPU{'' if rate is None else f', {rate:,.0f} jobs/s'}.")
    if "broken_rules" in account:
        count = account["broken_rules"]
        console.print("Validated: no rule broken." if not count else f"Validated: {count:,} rules broken.")
    users = list(account["by_user"].items())
    console.print(_groups("processors", account["by_size"]))
    console.print(_groups("user", dict(users[:SHOWN_USERS])))
    if len(users) > SHOWN_USERS:
        console.print(f"The {SHOWN_USERS} users with most jobs, of {len(users):,}; --json has all.")
    if "against" in account:
        console.print(_against(account, "wait_s", "wait, s", 0))
        console.print(_against(account, "bounded_slowdown", "slowdown", 1))
        console.print("Differences are paired, job by job: the other policy's minus that of the first.")


def show_findings(findings: Sequence[BrokenRule]) -> None:
    """Print the first broken rules."""
    for finding in findings[:SHOWN_FINDINGS]:
        print(f"jobsight simulate: {finding.rule}: {finding}", file=sys.stderr)
    if len(findings) > SHOWN_FINDINGS:
        print(f"jobsight simulate: and {len(findings) - SHOWN_FINDINGS} more", file=sys.stderr)


def _groups(name: str, groups: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1))
    table.add_column(name, overflow="fold")  # never truncated: a long name takes a second line
    for column in ("jobs", "mean wait, s", "longest, s", "slowdown", "median"):
        table.add_column(column, justify="right", no_wrap=True)
    for group, figures in groups.items():
        table.add_row(
            group,
            f"{figures['jobs']:,}",
            f"{figures['mean_wait_s']:,.0f}",
            f"{figures['max_wait_s']:,.0f}",
            f"{figures['mean_bounded_slowdown']:,.1f}",
            f"{figures['median_bounded_slowdown']:,.1f}",
        )
    return table


def _against(account: Mapping[str, Any], measure: str, name: str, digits: int) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1))
    table.add_column("policy", overflow="fold")  # a long name takes several lines
    for column in (name, "difference", "95 % confidence", "utilisation"):
        # If numbers are long, the interval takes two lines.
        table.add_column(column, justify="right", no_wrap=column != "95 % confidence")
    ours = f"{account['policy']}{' (again)' if account.get('ask_again') else ''}"
    for policy, figures in ((ours, account), *account["against"].items()):
        mean, low, high = figures.get(f"difference_{measure}", (None, None, None))
        table.add_row(
            policy,
            f"{figures[f'mean_{measure}']:,.{digits}f}",
            "" if mean is None else f"{mean:+,.{digits}f}",
            "" if mean is None else f"{low:+,.{digits}f} to {high:+,.{digits}f}",
            percent(figures["useful_utilisation"], 1),
        )
    return table
