"""Prints the account of a site, for people who have not met Jobsight before; 80 columns are enough."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from account import GIB_HOUR, NAMES, Account, Saving
from jobsight_predictor.metrics import METRICS
from jobsight_server.amounts import percent


def show(account: Account, console: Console) -> None:
    """Forecasts, bounds and memory, each with a line that says what is compared."""
    console.print(scores_table(account))
    console.print(
        "Mean accuracy (1 is exact, an error of 100 % or more counts as 0); in brackets the share within 20 %. "
        "Each forecast is the one made when the job was submitted."
    )
    if sum(account.first.values()):
        first = _by_metric(account.first)
        console.print(f"Not compared, because only Jobsight had a forecast for these users' first jobs: {first}.")
    if others := not_scored(account):
        console.print(others)
    console.print(bounds_table(account))
    console.print("Share that stayed within the recommended reservation; the target is 95 % of the jobs.")
    if any(fit.weighted < fit.by_jobs for fit in account.fits.values()):
        console.print(
            "By value x seconds it is lower, because the jobs that run out are among the larger ones: waiting for "
            "certainty about these would waste the most."
        )
    if account.memory is not None:
        console.print(memory_table(account.memory))
        console.print(verdict(account.memory), style="bold", highlight=False)
        if account.memory.left_out:
            console.print(
                f"Jobs left out because they have no request or no recommendation: {account.memory.left_out:,}."
            )


def not_scored(account: Account) -> str:
    """How many jobs neither table counts, and why; empty where there are none."""
    reasons = {
        "submitted before anything was learned": _by_metric(account.unanswered),
        "on shared nodes, so the value is shown but not learned": _by_metric(account.shown_only),
        "killed, cut short or measured in part, so that the value is a lower bound": _by_metric(account.ran_out),
        "without a measured value": _by_metric(account.without),
    }
    found = "; ".join(f"{reason} ({jobs})" for reason, jobs in reasons.items() if jobs)
    return f"Jobs left out of these tables: {found}." if found else ""


def _by_metric(counts: dict[str, int]) -> str:
    return ", ".join(f"{n:,} for {METRICS[metric].name}" for metric, n in counts.items() if n)


def scores_table(account: Account) -> Table:
    """A row for Jobsight and each of the published five."""
    table = _table("Forecasts, side by side on the same jobs", "forecast by", [METRICS[m].name for m in account.scores])
    for name in NAMES:
        cells = [account.scores[metric][name] for metric in account.scores]
        style = "bold" if name == "Jobsight" else None
        table.add_row(name, *(f"{cell.accuracy:.2f} ({percent(cell.within20)})" for cell in cells), style=style)
    table.add_row("jobs compared", *(f"{account.compared[metric]:,}" for metric in account.scores), style="dim")
    return table


def bounds_table(account: Account) -> Table:
    """How often the recommended reservation was enough."""
    table = _table("Recommended reservations", "metric", ["jobs", "enough: by jobs", "by value x seconds"])
    for metric, fit in account.fits.items():
        table.add_row(
            METRICS[metric].name, f"{fit.jobs:,}", f"{percent(fit.by_jobs, 1)}", f"{percent(fit.weighted, 1)}"
        )
    return table


def memory_table(memory: Saving) -> Table:
    """What was requested, recommended and used."""
    table = _table("Memory of the same jobs", "", ["GiB-hours", "share", "jobs run out", "with repeats"])
    rows = (
        ("requested by users", memory.requested, f"{memory.ran_out:,}", memory.requested),
        ("recommended", memory.recommended, f"{memory.would_run_out:,}", memory.held),
        ("used", memory.used, "", memory.used),
    )
    for name, amount, failures, held in rows:
        share = f"{percent(amount / memory.requested)}"
        table.add_row(name, f"{amount / GIB_HOUR:,.0f}", share, failures, f"{held / GIB_HOUR:,.0f}")
    return table


def verdict(memory: Saving) -> str:
    """The table in two sentences."""
    hours, share = abs(memory.freed) / GIB_HOUR, abs(memory.freed) / memory.requested
    effect = "freed" if memory.freed >= 0 else "taken another"
    failures, jobs = memory.would_run_out, memory.jobs
    return (
        f"Reserving as recommended would have {effect} {hours:,.0f} GiB-hours ({percent(share)}), repeats included. "
        f"{failures:,} of {jobs:,} jobs ({percent(failures / jobs, 1)}) would have run out of it; with the users' own "
        f"requests, {memory.ran_out:,}."
    )


def _table(title: str, first: str, columns: list[str]) -> Table:
    table = Table(title=title, box=SIMPLE, padding=(0, 1))
    table.add_column(first, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table
