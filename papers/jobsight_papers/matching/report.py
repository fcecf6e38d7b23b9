"""Shows the matching experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, median
from typing import Any

import msgspec
from rich.console import Console

from jobsight_papers.matching.service import SIZES, ServiceBatch, ServiceResults
from jobsight_papers.runner import table_of
from jobsight_server.ground.amounts import percent


def show(account: Mapping[str, Any], console: Console) -> None:
    """Print objectives, sizes, shapes and greedy orders, and the service if it has results."""
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
        "use: sum of the used shares of all capacities. Published: tens of milliseconds to solve, up to 300 "
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


NOTE = (
    "Client: from sending a batch to reading the answer; query: reading the state; solve: the matcher; rest: HTTP, "
    "JSON, holding the matches. Published: solving tens of milliseconds and the smallest part, the query about a "
    "second and linear in the resources, the web service the largest and constant; slightly more than 500 jobs a "
    "minute."
)


def service_account(results: ServiceResults) -> dict[str, Any]:
    """Return means by batch size, the arrivals, and every batch."""
    means = [_of_batches([entry for entry in results.batches if entry.size == size]) for size in SIZES]
    return {
        "means": [entry for entry in means if entry is not None],
        "arrivals": msgspec.to_builtins(results.arrivals),
        "batches": msgspec.to_builtins(results.batches),
    }


def _of_batches(batches: list[ServiceBatch]) -> dict[str, Any] | None:
    if not batches:
        return None
    client_s = mean(entry.client_s for entry in batches)
    query_s, solve_s = mean(entry.query_s for entry in batches), mean(entry.solve_s for entry in batches)
    return {
        "jobs": batches[0].size,
        "batches": len(batches),
        "client_s": client_s,
        "median_client_s": median(entry.client_s for entry in batches),
        "longest_client_s": max(entry.client_s for entry in batches),
        "query_s": query_s,
        "solve_s": solve_s,
        "rest_s": client_s - query_s - solve_s,
        "store_s": mean(entry.store_s for entry in batches),
        "matched": mean(entry.matched for entry in batches),
        "optimal": sum(entry.is_optimal for entry in batches),
        "jobs_per_minute": batches[0].size / client_s * 60.0,
    }


def show_service(account: Mapping[str, Any], console: Console) -> None:
    """Print two tables: batches in a closed loop, and arrivals at random."""
    heads = ("jobs", "client ms", "query", "solve", "rest", "matched", "opt.", "jobs/min")
    table = table_of("Batches through HTTP: means", *heads)
    for row in account["means"]:
        times = (f"{row[name] * 1e3:,.1f}" for name in ("client_s", "query_s", "solve_s", "rest_s"))
        found = (f"{row['matched']:.1f}", f"{row['optimal']}/{row['batches']}")
        table.add_row(str(row["jobs"]), *times, *found, f"{row['jobs_per_minute']:,.0f}")
    console.print(table)
    if account["arrivals"]:
        columns = ("jobs/min", "jobs", "matched", "matched/min", "median s", "95 % s", "longest s", "queue")
        table = table_of("Poisson arrivals, queued", *columns)
        for row in account["arrivals"]:
            waits = ("-" if row[n] is None else f"{row[n]:.2f}" for n in ("median_s", "p95_s", "longest_s"))
            counts = (f"{row[n]:,}" for n in ("rate_per_minute", "jobs", "matched"))
            table.add_row(*counts, f"{row['per_minute']:,.0f}", *waits, f"{row['longest_queue']:,}")
        console.print(table)
    console.print(NOTE)
