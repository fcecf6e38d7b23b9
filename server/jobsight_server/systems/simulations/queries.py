"""Simulations that the pages started: all of them, one, and several side by side."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import structs
from sqlalchemy import Connection, Row, Select, func, select

from jobsight_scheduler.comparison import compare
from jobsight_scheduler.table import JobTable, read_table
from jobsight_server.record import Record, Share
from jobsight_server.storage.schema import event_counts, jobs
from jobsight_server.systems.simulations.parameters import JOBS, PLOTS
from jobsight_server.systems.simulations.runs import UNDER_WAY
from jobsight_server.systems.simulations.tables import simulation_files, simulation_traces, simulations


class SimulationFigures(Record):
    """The figures that tables show."""

    jobs: int
    processors: int
    mean_wait_s: float | None
    max_wait_s: float | None
    mean_bounded_slowdown: float | None
    median_bounded_slowdown: float | None
    useful_utilisation: float | None
    makespan_s: float | None


class SimulationRun(Record):
    """A simulation: its trace, parameters and progress; ``figures`` once it is done."""

    id: int
    trace: str
    digest: str
    state: Literal["queued", "running", "done", "failed", "stopped"]
    progress: Share
    created: float
    started: float | None
    ended: float | None
    error: str | None
    policy: str
    predictor: str | None
    processors: int | None
    load: float | None
    ask_again: bool
    figures: SimulationFigures | None


class SimulationList(Record):
    """Every stored simulation, newest first, and how many were deleted."""

    simulations: list[SimulationRun]
    kept_at_most: int
    deleted: int


class SimulationDetail(SimulationRun):
    """One simulation with every figure that `jobsight simulate --json` prints, and how many wait ``ahead`` of it."""

    ahead: int
    all_figures: dict[str, Any] | None
    plots: list[str]


class ComparedRun(SimulationRun):
    """``differences``: mean, low and high with 95 % confidence, paired job by job: this run's minus the first's.

    Null if the run is the first, or not of the same jobs on the same machine.
    """

    differences: dict[str, tuple[float, float, float]] | None
    same_workload: bool


class Comparison(Record):
    """Finished simulations, side by side."""

    runs: list[ComparedRun]


def simulation_list(connection: Connection, kept: int) -> SimulationList:
    """Every stored run, ``kept`` at most."""
    deleted = select(func.sum(event_counts.c.value)).where(event_counts.c.name == "simulations_deleted")
    rows = connection.execute(_runs().order_by(simulations.c.id.desc()))
    return SimulationList([_run(row) for row in rows], kept, int(connection.scalar(deleted) or 0))


def simulation_detail(connection: Connection, run_id: int) -> SimulationDetail | None:
    """One run with all its figures; None if there is none with this number."""
    row = connection.execute(_runs().where(simulations.c.id == run_id)).one_or_none()
    if row is None:
        return None
    ahead = select(func.count()).where(simulations.c.state.in_(UNDER_WAY), simulations.c.id < run_id)
    return SimulationDetail(
        **structs.asdict(_run(row)),
        ahead=(connection.scalar(ahead) or 0) if row.state == "queued" else 0,
        all_figures=None if row.figures is None else json.loads(row.figures),
        plots=list(PLOTS) if row.state == "done" else [],
    )


def simulation_file(connection: Connection, run_id: int, name: str) -> bytes | None:
    """A plot or the table of jobs of a finished run, gzip; None if there is none."""
    query = select(simulation_files.c.content)
    content: bytes | None = connection.scalar(
        query.where(simulation_files.c.run_id == run_id, simulation_files.c.name == name)
    )
    return content


def comparison(connection: Connection, run_ids: Sequence[int]) -> Comparison | None:
    """Finished runs side by side, in this order; None if one of them is not finished."""
    rows = {row.id: row for row in connection.execute(_runs().where(simulations.c.id.in_(run_ids)))}
    if any(run_id not in rows or rows[run_id].state != "done" for run_id in run_ids):
        return None
    first = _run(rows[run_ids[0]])
    ours = _table(connection, run_ids[0])
    compared = []
    for run_id in run_ids:
        run = _run(rows[run_id])
        differences, same_workload = None, _workload(run) == _workload(first)
        if run_id != run_ids[0] and same_workload:
            found = compare(ours, _table(connection, run_id))
            differences = {name: (d.mean, d.low, d.high) for name, d in found.items()}
        compared.append(ComparedRun(**structs.asdict(run), differences=differences, same_workload=same_workload))
    return Comparison(compared)


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


def _run(row: Row[Any]) -> SimulationRun:
    figures = None if row.figures is None else json.loads(row.figures)
    shown = figures and SimulationFigures(**{name: figures[name] for name in SimulationFigures.__struct_fields__})
    parameters = {"ask_again": False} | json.loads(row.parameters)  # older ones do not have it
    return SimulationRun.of_row(row, trace=row.name, digest=row.trace, **parameters, figures=shown)


def _workload(run: SimulationRun) -> tuple[Any, ...]:
    assert run.figures is not None
    return run.digest, run.figures.processors, run.load


def _table(connection: Connection, run_id: int) -> JobTable:
    content = simulation_file(connection, run_id, JOBS)
    assert content is not None
    return read_table(gzip.decompress(content).decode().splitlines())
