"""Shows the matching experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import msgspec
from rich.console import Console

from jobsight_papers.matching.service import ServiceResults
from jobsight_papers.runner import Cells, show_table
from jobsight_server.ground.amounts import percent


def show(account: Mapping[str, Any], console: Console) -> None:
    """Print objectives, sizes, shapes and greedy orders, and the service if it has results."""
    objectives: Cells = {
        "objectives": lambda row: ", ".join(row["objectives"]),
        "jobs": lambda row: f"{row['throughput']:.1f}",
        "priority": lambda row: f"{row['priority']:.1f}",
        "pref.": lambda row: f"{row['preferences']:.1f}",
        "use": lambda row: f"{row['utilisation']:.1f}",
        "ms": lambda row: f"{row['median_s'] * 1e3:,.0f}",
        "opt.": _optimal,
    }
    show_table("Objectives: means over the same batches", objectives, account["objectives"], console)
    sizes: Cells = {"jobs": lambda row: str(row["jobs"]), "matched": lambda row: f"{row['matched']:.1f}", **_SOLVED}
    show_table("Batch sizes, throughput", sizes, account["sizes"], console)
    shapes: Cells = {
        "dependencies": lambda row: str(row["dependencies"]),
        "predicates": lambda row: str(row["predicates"]),
        **_SOLVED,
    }
    show_table("Shapes, 30 jobs", shapes, account["shapes"], console)
    greedy: Cells = {
        "order": itemgetter("order"),
        "of best": lambda row: percent(row["of_optimum"], 1),
        "worst batch": lambda row: percent(row["worst"], 1),
    }
    show_table("Greedy matching against the best found", greedy, account["greedy"], console)
    console.print(
        "ms: processor time from records to checked answer; opt.: batches proven optimal; pref.: sum of preferences; "
        "use: sum of the used shares of all capacities. Published: tens of milliseconds to solve, up to 300 "
        "constraints."
    )
    if "service" in account:
        show_service(account["service"], console)


def _optimal(row: Mapping[str, Any]) -> str:
    return f"{row['optimal']}/{row['batches']}"


_SOLVED: Cells = {
    "median ms": lambda row: f"{row['median_s'] * 1e3:,.1f}",
    "longest ms": lambda row: f"{row['longest_s'] * 1e3:,.1f}",
    "rows": lambda row: f"{row['rows']:,}",
    "columns": lambda row: f"{row['columns']:,}",
    "opt.": _optimal,
}

NOTE = (
    "Client: from sending a batch to reading the answer; query: reading the state; solve: the matcher; rest: HTTP, "
    "JSON, holding the matches. Published: solving tens of milliseconds and the smallest part, the query about a "
    "second and linear in the resources, the web service the largest and constant; slightly more than 500 jobs a "
    "minute."
)


def service_account(results: ServiceResults) -> dict[str, Any]:
    """Return means by batch size, the arrivals, and every batch."""
    import pandas as pd  # takes half a second to load

    batches = msgspec.to_builtins(results.batches)
    by = pd.DataFrame(batches).groupby("size")
    means = by[["client_s", "query_s", "solve_s", "store_s", "matched"]].mean()
    means["batches"], means["optimal"] = by.size(), by["is_optimal"].sum()
    means["median_client_s"], means["longest_client_s"] = by["client_s"].median(), by["client_s"].max()
    means["rest_s"] = means["client_s"] - means["query_s"] - means["solve_s"]
    means["jobs_per_minute"] = means.index / means["client_s"] * 60.0
    rows = means.rename_axis("jobs").reset_index().to_dict("records")
    return {"means": rows, "arrivals": msgspec.to_builtins(results.arrivals), "batches": batches}


def show_service(account: Mapping[str, Any], console: Console) -> None:
    """Print two tables: batches in a closed loop, and arrivals at random."""
    batches: Cells = {
        "jobs": lambda row: str(row["jobs"]),
        "client ms": lambda row: f"{row['client_s'] * 1e3:,.1f}",
        "query": lambda row: f"{row['query_s'] * 1e3:,.1f}",
        "solve": lambda row: f"{row['solve_s'] * 1e3:,.1f}",
        "rest": lambda row: f"{row['rest_s'] * 1e3:,.1f}",
        "matched": lambda row: f"{row['matched']:.1f}",
        "opt.": _optimal,
        "jobs/min": lambda row: f"{row['jobs_per_minute']:,.0f}",
    }
    show_table("Batches through HTTP: means", batches, account["means"], console)
    arrivals: Cells = {
        "jobs/min": lambda row: f"{row['rate_per_minute']:,}",
        "jobs": lambda row: f"{row['jobs']:,}",
        "matched": lambda row: f"{row['matched']:,}",
        "matched/min": lambda row: f"{row['per_minute']:,.0f}",
        "median s": lambda row: "-" if row["median_s"] is None else f"{row['median_s']:.2f}",
        "95 % s": lambda row: "-" if row["p95_s"] is None else f"{row['p95_s']:.2f}",
        "longest s": lambda row: "-" if row["longest_s"] is None else f"{row['longest_s']:.2f}",
        "queue": lambda row: f"{row['longest_queue']:,}",
    }
    show_table("Poisson arrivals, queued", arrivals, account["arrivals"], console)
    console.print(NOTE)
