"""Shows the matching experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


def show(account: Mapping[str, Any], console: Console) -> None:
    """Objectives, sizes, shapes and greedy orders."""
    table = _table(
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
    table = _table("Batch sizes, throughput", "jobs", "matched", "median ms", "longest ms", "rows", "columns", "opt.")
    for row in account["sizes"]:
        table.add_row(str(row["jobs"]), f"{row['matched']:.1f}", *_solved(row))
    console.print(table)
    table = _table(
        "Shapes, 30 jobs", "dependencies", "predicates", "median ms", "longest ms", "rows", "columns", "opt."
    )
    for row in account["shapes"]:
        table.add_row(str(row["dependencies"]), str(row["predicates"]), *_solved(row))
    console.print(table)
    table = _table("Greedy matching against the best found", "order", "of best", "worst batch")
    for row in account["greedy"]:
        table.add_row(row["order"], f"{row['of_optimum']:.1%}", f"{row['worst']:.1%}")
    console.print(table)
    if "service" in account:
        _service(account["service"], console)
    console.print(
        "ms: processor time from records to checked answer; opt.: batches proven optimal; pref.: sum of preferences; "
        "use: sum of the shares of all capacities that are taken. Published: tens of milliseconds to solve, up to 300 "
        "constraints."
    )


def _solved(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['median_s'] * 1e3:,.1f}",
        f"{row['longest_s'] * 1e3:,.1f}",
        f"{row['rows']:,}",
        f"{row['columns']:,}",
        f"{row['optimal']}/{row['batches']}",
    )


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(box=SIMPLE, title=title, title_justify="left")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _service(service: Mapping[str, Any], console: Console) -> None:
    """Time at the client by batch size and by how the state is read, and Poisson arrivals."""
    table = _table(
        "Through HTTP, median ms a batch", "jobs", "read", "client", "query", "solve", "rest", "opt.", "jobs/min"
    )
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for row in service["batches"]:
        groups.setdefault((row["size"], row["reading"]), []).append(row)
    for (size, reading), rows in groups.items():
        client, query, solve = (median(row[name] for row in rows) for name in ("client_s", "query_s", "solve_s"))
        table.add_row(
            str(size),
            reading,
            *(f"{value * 1e3:,.1f}" for value in (client, query, solve, client - query - solve)),
            f"{sum(row['is_optimal'] for row in rows)}/{len(rows)}",
            f"{60.0 * size / client:,.0f}",
        )
    console.print(table)
    table = _table("Poisson arrivals", "per minute", "matched", "of", "median s", "p95 s", "longest queue")
    for row in service["arrivals"]:
        times = ("" if row[name] is None else f"{row[name]:.2f}" for name in ("median_s", "p95_s"))
        table.add_row(
            f"{row['rate_per_minute']:,}",
            f"{row['matched']:,}",
            f"{row['jobs']:,}",
            *times,
            f"{row['longest_queue']:,}",
        )
    console.print(table)
