"""Shows the matching experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from jobsight_papers.matching.service_report import show_service
from jobsight_papers.runner import table_of
from jobsight_server.amounts import percent


def show(account: Mapping[str, Any], console: Console) -> None:
    """Objectives, sizes, shapes and greedy orders; where it was run, the service."""
    table = table_of(
        "Objectives: means over the same batches", "objectives", "jobs", "priority", "pref.", "use", "ms", "opt."
    )
    for row in account["objectives"]:
        values = row["values"]
        table.add_row(
            ", ".join(row["objectives"]),
            f"{values['throughput']:.1f}",
            f"{values['priority']:.1f}",
            f"{values['preferences']:.1f}",
            f"{values['utilisation']:.1f}",
            f"{row['median_s'] * 1e3:,.0f}",
            f"{row['optimal']}/{row['batches']}",
        )
    console.print(table)
    table = table_of("Batch sizes, throughput", "jobs", "matched", "median ms", "longest ms", "rows", "columns", "opt.")
    for row in account["sizes"]:
        table.add_row(str(row["jobs"]), f"{row['matched']:.1f}", *_solved(row))
    console.print(table)
    table = table_of(
        "Shapes, 30 jobs", "dependencies", "predicates", "median ms", "longest ms", "rows", "columns", "opt."
    )
    for row in account["shapes"]:
        table.add_row(str(row["dependencies"]), str(row["predicates"]), *_solved(row))
    console.print(table)
    table = table_of("Greedy matching against the best found", "order", "of best", "worst batch")
    for row in account["greedy"]:
        table.add_row(row["order"], percent(row["of_optimum"], 1), percent(row["worst"], 1))
    console.print(table)
    console.print(
        "ms: processor time from records to checked answer; opt.: batches proven optimal; pref.: sum of preferences; "
        "use: sum of the shares of all capacities that are taken. Published: tens of milliseconds to solve, up to 300 "
        "constraints."
    )
    if "service" in account:
        show_service(account["service"], console)


def _solved(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['median_s'] * 1e3:,.1f}",
        f"{row['longest_s'] * 1e3:,.1f}",
        f"{row['rows']:,}",
        f"{row['columns']:,}",
        f"{row['optimal']}/{row['batches']}",
    )
