"""Shows the ranking experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from rich.console import Console

from jobsight_papers.intervals import interval_text
from jobsight_papers.runner import Cells, show_table, table_of
from jobsight_server.ground.amounts import percent

Row = Mapping[str, Any]


def show(account: Mapping[str, Any], console: Console) -> None:
    """Print the published table beside ours, then every rank by set and load, then the gains."""
    _published(account["published"], console)
    for number, load in dict.fromkeys((row["set"], row["load"]) for row in account["rows"]):
        rows = [row for row in account["rows"] if (row["set"], row["load"]) == (number, load)]
        _ranks(f"Set {number}, load {load:g}", rows, console)
    _gains("Gained in points of completed jobs, paired by seed", account["gains"], console)
    for variant in account["variants"]:
        for number in dict.fromkeys(row["set"] for row in variant["rows"]):
            rows = [row for row in variant["rows"] if row["set"] == number]
            _ranks(f"{variant['variant']}: set {number}", rows, console)
    console.print(
        "completed: jobs that completed without a restart, with the 95 % confidence interval; lost: hours of machines "
        "that evicted jobs had used; wait: mean time in the queue."
    )
    if account["unfinished"]:
        console.print(f"{account['unfinished']:,} jobs did not complete within the simulated time.")


def _published(rows: Sequence[Row], console: Console) -> None:
    table = table_of("Jobs completed without restart, %", "set", "jobs", "rank", "printed", "counted", "ours")
    for row in rows:
        for rank in ("first_come", "grv", "survival"):
            of = row[rank]
            if of["ours"] is not None:
                cells = [f"{of[name]:.1f}" if name in of else "" for name in ("printed", "counted", "ours")]
                table.add_row(str(row["set"]), f"{row['jobs']:,}", rank.replace("_", " "), *cells)
    if table.row_count:
        console.print(table)


def _ranks(title: str, rows: Sequence[Row], console: Console) -> None:
    has_weights = len({tuple(row["weights"]) for row in rows if row["rank"].startswith("grv")}) > 1
    cells: Cells = {
        "rank": lambda row: _named(row, has_weights),
        "completed": lambda row: percent(row["completed_share"]["mean"], 1),
        "95 % sure": lambda row: interval_text(row["completed_share"], 100.0),
        "makespan h": lambda row: f"{row['makespan_s'] / 3600.0:,.0f}",
        "lost h": lambda row: f"{row['lost_cpu_h']:,.0f}",
        "wait h": lambda row: f"{row['mean_wait_s'] / 3600.0:,.2f}",
    }
    show_table(title, cells, rows, console)


def _named(row: Row, has_weights: bool) -> str:
    weights = [f"{weight:g}" for weight in row["weights"]] if has_weights and row["rank"].startswith("grv") else []
    return " ".join([row["rank"], *weights])


def _gains(title: str, rows: Sequence[Row], console: Console) -> None:
    cells: Cells = {
        "set": lambda row: str(row["set"]),
        "load": lambda row: f"{row['load']:g}",
        "rank": itemgetter("rank"),
        "over": itemgetter("over"),
        "points": lambda row: f"{100.0 * row['gain']['mean']:+.1f}",
        "95 % sure": lambda row: interval_text(row["gain"], 100.0),
    }
    show_table(title, cells, rows, console)
