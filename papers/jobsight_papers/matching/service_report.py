"""Sums up and shows the matching experiment through HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, median
from typing import Any

import msgspec
from rich.console import Console

from jobsight_papers.matching.service import SIZES, ServiceBatch, ServiceResults
from jobsight_papers.runner import table_of

NOTE = (
    "Client: from sending a batch to having read the answer; query: reading the state; solve: the matcher; rest: HTTP, "
    "JSON, holding the matches. Published: solving tens of milliseconds and the smallest part, the query about a "
    "second and linear in the resources, the web service the largest and constant; slightly more than 500 jobs a "
    "minute."
)


def service_account(results: ServiceResults) -> dict[str, Any]:
    """Means by batch size, the arrivals, and every batch."""
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
    """Two tables: batches in a closed loop, and arrivals at random."""
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
