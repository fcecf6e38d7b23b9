"""Runs of jobs: the recent ones, and one job with all its runs, their profiles and their nodes over time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_server.forecasts import AnswerReader
from jobsight_server.storage.schema import job_nodes, jobs, nodes, profiles
from jobsight_server.views.running import WATCHED, Forecast, SoFar, forecasts_of, over_bound, used_so_far
from jobsight_server.views.timeline import POINTS, timeline

PAGE_SIZE = 50
NODES_DRAWN = 32

_OWN = frozenset({"submitted", "foretold"})  # for learning only; the first is one of queued, created and start
_NOT_LISTED = frozenset({"id", "exec_host", *_OWN})


def job_list(
    connection: Connection,
    reader: AnswerReader,
    now: float,
    cluster: str | None = None,
    user: str | None = None,
    state: str | None = None,
    page: int = 1,
) -> dict[str, Any]:
    """One page of runs, the last recorded first, with what each running one already uses more of than its bound."""
    wanted = [
        column == value
        for column, value in ((jobs.c.cluster, cluster), (jobs.c.user, user), (jobs.c.state, state))
        if value is not None
    ]
    total = connection.scalar(select(func.count()).select_from(jobs).where(*wanted)) or 0
    query = select(jobs).where(*wanted).order_by(jobs.c.id.desc())
    rows = connection.execute(query.limit(PAGE_SIZE).offset((page - 1) * PAGE_SIZE)).all()
    running = [row for row in rows if row.state == "running"]
    forecasts, used = forecasts_of(connection, reader, running, WATCHED), used_so_far(connection, running, now)
    return {
        "jobs": [
            {name: value for name, value in row._mapping.items() if name not in _NOT_LISTED}
            | {"over_bound": over_bound(row.id, forecasts, used)}
            for row in rows
        ],
        "page": page,
        "pages": max(1, -(-total // PAGE_SIZE)),
        "total": total,
    }


def job_clusters(connection: Connection, job_id: str) -> list[str]:
    """The clusters that know a job of this id."""
    query = select(jobs.c.cluster).where(jobs.c.job_id == job_id).distinct().order_by(jobs.c.cluster)
    return [row[0] for row in connection.execute(query)]


def job_detail(
    connection: Connection, reader: AnswerReader, cluster: str, job_id: str, now: float, points: int = POINTS
) -> dict[str, Any] | None:
    """All runs of one job, oldest first; None where there is no such job.

    Of each run: what the accounting log says, a profile entry per metric (a value or a reason, what had been forecast
    when the run was submitted, and of a running one what it has used so far), the time average of its memory, its
    nodes, and for the first 32 of them that sent samples a time series over the run's life (until ``now`` while it
    runs).
    """
    runs = connection.execute(
        select(jobs).where(jobs.c.cluster == cluster, jobs.c.job_id == job_id).order_by(jobs.c.start)
    ).all()
    if not runs:
        return None
    return {
        "now": now,
        "cluster": cluster,
        "job_id": job_id,
        "runs": [_run(connection, reader, run, now, points) for run in runs],
    }


def _run(connection: Connection, reader: AnswerReader, run: Row[Any], now: float, points: int) -> dict[str, Any]:
    fields = {name: value for name, value in run._mapping.items() if name not in _OWN}
    run_id = fields.pop("id")
    found = {
        row.metric: dict(row._mapping)
        for row in connection.execute(select(profiles).where(profiles.c.run_id == run_id))
    }
    used = used_so_far(connection, [run], now)
    forecasts = {} if found else forecasts_of(connection, reader, [run])
    until = fields["end"] if fields["end"] is not None else now
    return {
        **fields,
        "over_bound": over_bound(run_id, forecasts, used),
        "profile": [
            _profile_entry(
                metric, found.get(metric), forecasts.get((run_id, metric)), used.get((run_id, metric)), run.state
            )
            for metric in METRICS
        ],
        **_memory(found.get("memory", {})),
        **_nodes(connection, run_id, fields["cluster"], fields["start"], until, points),
    }


def _profile_entry(
    metric: str, row: dict[str, Any] | None, forecast: Forecast | None, so_far: SoFar | None, state: str
) -> dict[str, Any]:
    entry = row or {"reason": _why_not(state, so_far), **(forecast._asdict() if forecast else {}), "value": None}
    keys = ("value", "peak", "source", "attribution", "reason", "bound", "probability")
    return {
        "metric": metric,
        "unit": METRICS[metric],
        **{key: entry.get(key) for key in keys},
        "forecast": row.get("forecast") if row else forecast and forecast.value,
        "provisional": forecast is not None and forecast.provisional,
        "so_far": so_far and so_far.value,
        "learned": entry["value"] is not None and not entry.get("shown_only"),
    }


def _memory(row: dict[str, Any]) -> dict[str, Any]:
    """What is shown of memory beside its peak; bytes per processor and seconds."""
    return {f"memory_{name}": row.get(name) for name in ("mean", "source", "idle_age_s")}


def _why_not(state: str, so_far: SoFar | None) -> str:
    if state == "running":
        return "the job still runs" if so_far is None or so_far.reason is None else f"so far: {so_far.reason}"
    return "not profiled yet" if state == "ended" else f"a run that is {state} is not profiled"


def _nodes(
    connection: Connection, run_id: int, cluster: str, since: float, until: float, points: int
) -> dict[str, Any]:
    named = connection.execute(
        select(job_nodes.c.node, job_nodes.c.processors).where(job_nodes.c.run_id == run_id).order_by(job_nodes.c.node)
    ).all()
    listed: list[dict[str, Any]] = []
    drawn = 0
    for name, processors in named:
        # Accounting logs may write the host's full name where the agent sends the short one.
        candidates = {name, name.partition(".")[0]}
        node = connection.execute(
            select(nodes.c.id, nodes.c.name, nodes.c.cpus)
            .where(nodes.c.cluster == cluster, nodes.c.name.in_(candidates))
            .order_by(func.length(nodes.c.name).desc())
            .limit(1)
        ).one_or_none()
        entry: dict[str, Any] = {"node": name, "processors": processors, "series": None, "reason": None}
        if node is None:
            entry["reason"] = "this node never sent samples"
        elif drawn == NODES_DRAWN:
            entry["reason"] = f"only the first {NODES_DRAWN} nodes are drawn"
        else:
            drawn += 1
            entry["series"] = timeline(connection, node.id, since, until, node.cpus, points)
        listed.append(entry)
    return {"nodes": listed, "nodes_drawn": drawn}
