"""Simulations that the pages started: all of them, one, and several side by side."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from jobsight_scheduler.comparison import compare
from jobsight_scheduler.table import JobTable, read_table
from jobsight_server.simulations.execute import JOBS, PLOTS
from jobsight_server.simulations.runs import UNDER_WAY
from jobsight_server.storage.schema import jobs, simulation_files, simulation_traces, simulations, tallies

SHOWN = (
    "jobs", "processors", "mean_wait_s", "max_wait_s", "mean_bounded_slowdown", "median_bounded_slowdown",
    "useful_utilisation", "makespan_s",
)  # fmt: skip
"""The figures that tables show."""


def simulation_list(connection: Connection, kept: int) -> dict[str, Any]:
    """Every run that is kept, the newest first, and how many of ``kept`` at most had to go."""
    deleted = select(func.sum(tallies.c.value)).where(tallies.c.name == "simulations_deleted")
    return {
        "simulations": [_run(row) for row in connection.execute(_runs().order_by(simulations.c.id.desc()))],
        "kept_at_most": kept,
        "deleted": int(connection.scalar(deleted) or 0),
    }


def simulation_detail(connection: Connection, run_id: int) -> dict[str, Any] | None:
    """One run with all its figures; None where there is none of this number."""
    row = connection.execute(_runs().where(simulations.c.id == run_id)).one_or_none()
    if row is None:
        return None
    found = _run(row)
    ahead = select(func.count()).where(simulations.c.state.in_(UNDER_WAY), simulations.c.id < run_id)
    return found | {
        "ahead": connection.scalar(ahead) if row.state == "queued" else 0,
        "all_figures": None if row.figures is None else json.loads(row.figures),
        "plots": list(PLOTS) if row.state == "done" else [],
    }


def simulation_file(connection: Connection, run_id: int, name: str) -> bytes | None:
    """A picture or the table of jobs of a run that is done, gzip; None where there is none."""
    query = select(simulation_files.c.content)
    content: bytes | None = connection.scalar(
        query.where(simulation_files.c.run_id == run_id, simulation_files.c.name == name)
    )
    return content


def comparison(connection: Connection, run_ids: Sequence[int]) -> dict[str, Any] | None:
    """Runs that are done side by side, in this order; None where one of them is not.

    ``differences`` are mean, low and high with 95 % confidence, paired job by job: each run's minus the first's;
    None where the run is the first, or not of the same jobs on the same machine.
    """
    rows = {row.id: row for row in connection.execute(_runs().where(simulations.c.id.in_(run_ids)))}
    if any(run_id not in rows or rows[run_id].state != "done" for run_id in run_ids):
        return None
    first = _run(rows[run_ids[0]])
    ours = _table(connection, run_ids[0])
    compared = []
    for run_id in run_ids:
        run = _run(rows[run_id])
        differences = None
        if run_id != run_ids[0] and _workload(run) == _workload(first):
            found = compare(ours, _table(connection, run_id))
            differences = {name: [d.mean, d.low, d.high] for name, d in found.items()}
        compared.append(run | {"differences": differences, "same_workload": _workload(run) == _workload(first)})
    return {"runs": compared}


def clusters_with_jobs(connection: Connection) -> list[str]:
    """Clusters on which jobs have finished."""
    query = select(jobs.c.cluster).where(jobs.c.state == "ended").distinct().order_by(jobs.c.cluster)
    return list(connection.scalars(query))


def traces_kept(connection: Connection) -> list[dict[str, Any]]:
    """Traces that can be simulated again: ``run`` is the newest run of each."""
    newest = select(func.max(simulations.c.id).label("run"), simulation_traces.c.name)
    query = newest.join(simulation_traces).group_by(simulation_traces.c.digest, simulation_traces.c.name)
    return [{"run": row.run, "name": row.name} for row in connection.execute(query.order_by("run"))][::-1]


def _runs() -> Select[Any]:
    return select(simulations, simulation_traces.c.name).join(simulation_traces)


def _run(row: Row[Any]) -> dict[str, Any]:
    figures = None if row.figures is None else json.loads(row.figures)
    return {
        "id": row.id,
        "trace": row.name,
        "digest": row.trace,
        "state": row.state,
        "progress": row.progress,
        "created": row.created,
        "started": row.started,
        "ended": row.ended,
        "error": row.error,
        **json.loads(row.parameters),
        "figures": figures and {name: figures[name] for name in SHOWN},
    }


def _workload(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["digest"], run["figures"]["processors"], run["load"]


def _table(connection: Connection, run_id: int) -> JobTable:
    content = simulation_file(connection, run_id, JOBS)
    assert content is not None
    return read_table(gzip.decompress(content).decode().splitlines())
