"""Prints the account of a site for newcomers to Jobsight, in 80 columns."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from account import NAMES, Account
from jobsight_predictor.metrics import METRICS
from jobsight_server.commands.savings import effect, left_out
from jobsight_server.ground.amounts import percent
from jobsight_server.savings.waste import Waste


def show(account: Account, console: Console) -> None:
    """Print forecasts, bounds and memory, each with a line that says what is compared."""
    console.print(scores_table(account))
    console.print("Mean accuracy of the forecasts made at submission (1 is exact); in brackets the share within 20 %.")
    console.print(bounds_table(account))
    console.print("Jobs that stayed within their forecast's upper bound; the target is 95 %.")
    if others := not_scored(account):
        console.print(others)
    if account.memory is not None:
        console.print(memory_table(account.memory))
        console.print(effect("memory", account.memory), style="bold", highlight=False)
        if account.left_out is not None and (left := left_out(account.left_out)):
            console.print(left)


def not_scored(account: Account) -> str:
    """Write how many values neither table counts, and why; empty without any."""
    reasons = {
        "first jobs that only Jobsight had a forecast for": account.first,
        "before anything was learned": account.unanswered,
        "on shared nodes": account.shown_only,
        "lower bounds": account.ran_out,
        "not measured": account.without,
    }
    totals = {reason: sum(counts.values()) for reason, counts in reasons.items()}
    found = ", ".join(f"{total:,} {reason}" for reason, total in totals.items() if total)
    return f"Left out, all metrics together: {found}." if found else ""


def scores_table(account: Account) -> Table:
    """Make a row for Jobsight and each of the published five."""
    table = _table("Forecasts, side by side on the same jobs", "forecast by", [METRICS[m].name for m in account.scores])
    for name in NAMES:
        cells = [account.scores[metric][name] for metric in account.scores]
        style = "bold" if name == "Jobsight" else None
        table.add_row(name, *(f"{cell.accuracy:.2f} ({percent(cell.within20)})" for cell in cells), style=style)
    table.add_row("jobs compared", *(f"{account.compared[metric]:,}" for metric in account.scores), style="dim")
    return table


def bounds_table(account: Account) -> Table:
    """Make the table of how often the upper bound of the forecast at submission was enough."""
    table = _table("Upper bounds of the forecasts", "metric", ["jobs", "enough: by jobs", "by value x seconds"])
    for metric, fit in account.fits.items():
        table.add_row(
            METRICS[metric].name, f"{fit.jobs:,}", f"{percent(fit.by_jobs, 1)}", f"{percent(fit.weighted, 1)}"
        )
    return table


def memory_table(memory: Waste) -> Table:
    """Make the table of requested, recommended and used memory."""
    table = _table("Memory requests of the same jobs", "", ["GiB-hours", "share", "jobs need more", "with repeats"])
    rows = (
        ("requested by users", memory.requested_hours, memory.needed_more, memory.requests_repeated_hours),
        ("recommended", memory.reserved_hours, memory.would_run_out, memory.repeated_hours),
        ("used", memory.used_hours, None, 0.0),
    )
    for name, amount, failures, repeated in rows:
        amount, repeated = amount or 0.0, repeated or 0.0
        share = percent(amount / memory.requested_hours)
        count = "" if failures is None else f"{failures:,}"
        table.add_row(name, f"{amount:,.0f}", share, count, f"{amount + repeated:,.0f}")
    return table


def _table(title: str, first: str, columns: list[str]) -> Table:
    table = Table(title=title, box=SIMPLE, padding=(0, 1))
    table.add_column(first, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table
