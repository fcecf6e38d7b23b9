"""One job with all its runs, their profiles and their nodes over time, and each run's use of its request."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, Row, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import PendingForecast
from jobsight_server.accounting.runs import ENDED, QUEUED, RUNNING
from jobsight_server.advice.words import AskLine, Scheduler, scheduler_of
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.events import read_at_start
from jobsight_server.forecasts.stored_model import recommended_requests
from jobsight_server.ground.answers import Metric, Record, Share
from jobsight_server.ground.facts import facts_of
from jobsight_server.profiler.exactness import GpuUse, Quantity
from jobsight_server.profiler.gpus import gpus_busy, gpus_of_text
from jobsight_server.queries.efficiency import Efficiency, NextRequests
from jobsight_server.queries.job_named import named, named_or_task
from jobsight_server.queries.jobs import Outcome, Run, RunState, run_columns, started
from jobsight_server.queries.running import Forecast, Foreseen, SoFar, forecasts_of, foreseen, over_bound, used_so_far
from jobsight_server.queries.timeline import POINTS, OwnReadings, Timeline, own_readings, timeline
from jobsight_server.savings.changes import Moved, changes_of
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import job_nodes, jobs, nodes, profiles
from jobsight_server.storage.schema.jobs import OUTCOME

NODES_DRAWN = 32
_NO_AGENTS = "not in the accounting log, and no agent reports from this cluster"


class ForecastAtStart(Record):
    """The forecast at the run's start, after learning from everything that ended while it waited.

    It has no bound: what the job should request was decided at its submission.
    """

    forecast: float
    probability: Share | None


class RunMetric(Record):
    """A run's use in one metric, or why it is unknown, and the forecast at its submission.

    ``at_start``: the forecast at its start; None before that, without a forecast, and for runs learned by earlier
    releases. It equals the first if the run did not wait.

    ``so_far``: a running one's use until now; ``provisional``: the forecast may still change;
    ``learned``: whether the value counts for later forecasts; ``lower_bound``: it may have used more, and ``reason``
    says why. ``mean``: the time average of memory, and the average number of busy GPUs, where known. Of memory,
    ``quantity`` is what was measured: that of the processes without page cache (resident), their address space
    (virtual), with page cache, or of the nodes above their idle level (node). Of bandwidth, ``fabric`` is the network
    of the value, and ``fabrics`` has the value of each if there are several.
    """

    metric: Metric
    unit: str
    value: float | None
    peak: float | None
    mean: float | None
    source: str | None
    attribution: str | None
    reason: str | None
    bound: float | None
    probability: Share | None
    forecast: float | None
    at_start: ForecastAtStart | None
    provisional: bool
    so_far: float | None
    learned: bool
    lower_bound: bool
    quantity: Quantity | None
    fabric: str | None
    fabrics: dict[str, float] | None


class RunNode(Record):
    """A node of a run over its life; ``reason`` says why there is no ``series``, which covers the whole node.

    ``own``: the job's own readings, where its cgroup was read there. ``known``: whether the node ever sent samples.
    """

    node: str
    processors: int
    known: bool
    own: OwnReadings | None
    series: Timeline | None
    reason: str | None


class RunDetail(Run):
    """A run with its values and its nodes.

    From its cgroups, where they were read: ``memory_cache``, the largest page cache, and ``memory_charged_peak``, the
    largest total charge, both in bytes per processor.
    ``efficiency``: its use of its request, until now while it runs. ``advice``: the recommended request of a similar
    job now, as users read it at submission; ``ask_lines`` is the same as lines of a job script, for the cluster's
    scheduler, or for each if that is not known. ``facts``: its facts by name. ``changes``: changes in its forecasts
    of memory and run time while it waited. ``foreseen``: while it runs, its expected total use, and whether it runs
    out within the hour. ``gpus``: GPUs held; ``gpus_busy``: how busy each was on average, 0 to 1; ``gpu_use``: the use
    of each, where the site's monitoring has it.
    """

    exec_host: str | None
    facts: dict[str, float]
    profile: list[RunMetric]
    changes: list[Moved]
    memory_idle_age_s: float | None
    memory_cache: float | None
    memory_charged_peak: float | None
    gpus: int | None
    gpus_busy: Share | None
    gpu_use: list[GpuUse]
    advice: str | None
    ask_lines: list[AskLine]
    efficiency: list[Efficiency]
    foreseen: list[Foreseen]
    nodes: list[RunNode]
    nodes_drawn: int


class Job(Record):
    """All runs of one job, oldest first."""

    now: float
    cluster: str
    job_id: str
    runs: list[RunDetail]


def job_detail(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    job_id: str,
    now: float,
    points: int = POINTS,
    scheduler: Scheduler | None = None,
) -> Job | None:
    """Return all runs of one job; None if there is no such job.

    The first 32 nodes of a run that sent samples have a time series over the run's life, until ``now`` while it runs.
    ``scheduler`` is the cluster's, for the syntax of advice; None if unknown.
    """
    runs = connection.execute(
        select(*run_columns(now)).where(named(connection, job_id, cluster)).order_by(jobs.c.start, jobs.c.id)
    ).all()
    if not runs:
        return None
    starts = sorted({run.start for run in runs if run.state != QUEUED})
    following = dict(pairwise(starts))
    asking = NextRequests(connection, reader)
    detailed = [_run(asking, run, now, points, following.get(run.start), scheduler) for run in runs]
    return Job(now, cluster, job_id, detailed)


def _run(
    asking: NextRequests,
    run: Row[Any],
    now: float,
    points: int,
    next_start: float | None,
    scheduler: Scheduler | None,
) -> RunDetail:
    connection, reader = asking.connection, asking.reader
    found = _profile_rows(connection, run)
    used = used_so_far(connection, [run], now)
    forecasts = {} if found else forecasts_of(connection, reader, [run])
    again = {} if found else read_at_start(connection, [run.id])
    memory, gpus = found.get("memory", {}), found.get("gpu_utilisation") or found.get("gpu_memory", {})
    nodes_of_run = _nodes(connection, run, now if run.end is None else run.end, next_start, points)
    profile = [
        _metric(
            metric,
            found.get(metric),
            forecasts.get((run.id, metric)),
            used.get((run.id, metric)),
            run,
            again.get((run.id, metric)),
        )
        for metric in _metrics(run, found)
    ]
    advice, found_lines, efficiency = asking.efficiencies(run, profile, len(nodes_of_run), scheduler)
    return RunDetail.of_row(
        run,
        start=started(run),
        over_bound=over_bound(run.id, forecasts, used),
        facts=dict(facts_of(run.facts)),
        profile=profile,
        changes=changes_of(connection, run.id),
        memory_idle_age_s=memory.get("idle_age_s"),
        memory_cache=memory.get("cache"),
        memory_charged_peak=memory.get("charged_peak"),
        gpus_busy=gpus_busy(run.gpus, gpus.get("mean")),
        gpu_use=gpus_of_text(gpus.get("gpus")),
        advice=advice,
        ask_lines=found_lines,
        efficiency=efficiency,
        foreseen=foreseen(connection, run.id, now) if run.state == RUNNING else [],
        nodes=nodes_of_run,
        nodes_drawn=sum(node.series is not None for node in nodes_of_run),
    )


def _profile_rows(connection: Connection, run: Row[Any]) -> dict[str, dict[str, Any]]:
    rows = connection.execute(select(profiles).where(profiles.c.run_id == run.id))
    found = {row.metric: dict(row._mapping) for row in rows}
    reports = connection.scalar(select(nodes.c.id).where(nodes.c.cluster == run.cluster).limit(1)) is not None
    for row in found.values():
        row["bound"] = next(iter(recommended_requests(row["bound"], row["attempts"])), None)
        if not reports and (row["reason"] or "").startswith("no samples of "):
            row["reason"] = _NO_AGENTS
    return found


def _metrics(run: Row[Any], found: Collection[str]) -> list[str]:
    """Return the metrics of the run: those of GPUs if it held or used some."""
    return [metric for metric, of in METRICS.items() if not of.of_gpus or run.gpus or metric in found]


def _metric(
    metric: str,
    row: dict[str, Any] | None,
    forecast: Forecast | None,
    so_far: SoFar | None,
    run: Row[Any],
    again: PendingForecast | None = None,
) -> RunMetric:
    entry = row or {"reason": _why_not(run, so_far), **(forecast._asdict() if forecast else {}), "value": None}
    shown_at_start = at_start(again)
    if row is not None and row["start_forecast"] is not None:
        shown_at_start = ForecastAtStart(row["start_forecast"], row["start_probability"])
    keys = ("value", "peak", "mean", "source", "attribution", "reason", "bound", "probability")
    return RunMetric(
        metric=metric,
        unit=METRICS[metric].unit,
        **{key: entry.get(key) for key in keys},
        forecast=row.get("forecast") if row else forecast and forecast.value,
        at_start=shown_at_start,
        provisional=forecast is not None and forecast.provisional,
        so_far=so_far and so_far.value,
        learned=entry["value"] is not None and not entry.get("shown_only"),
        lower_bound=bool(entry.get("lower_bound")),
        quantity=entry.get("quantity"),
        fabric=entry.get("fabric"),
        fabrics=None if (fabrics := entry.get("fabrics")) is None else json.loads(fabrics),
    )


def at_start(again: PendingForecast | None) -> ForecastAtStart | None:
    """Return the part of a forecast at the start that is shown; None without a value."""
    return None if again is None or again.value is None else ForecastAtStart(again.value, again.probability)


def _why_not(run: Row[Any], so_far: SoFar | None) -> str:
    if run.state == QUEUED:
        return "the job waits"
    if run.state == RUNNING:
        return "the job still runs" if so_far is None or so_far.reason is None else f"so far: {so_far.reason}"
    if run.state == ENDED:
        return "no source measured it" if run.profiled else "not profiled yet"
    return f"a run that is {run.state} is not profiled"


def _nodes(connection: Connection, run: Row[Any], until: float, next_start: float | None, points: int) -> list[RunNode]:
    named = connection.execute(
        select(job_nodes.c.node, job_nodes.c.processors).where(job_nodes.c.run_id == run.id).order_by(job_nodes.c.node)
    ).all()
    listed: list[RunNode] = []
    drawn = 0
    for name, processors in named:
        # Accounting logs may write the host's full name while the agent sends the short one.
        candidates = {name, name.partition(".")[0]}
        node = connection.execute(
            select(nodes.c.id, nodes.c.name, nodes.c.cpus)
            .where(nodes.c.cluster == run.cluster, nodes.c.name.in_(candidates))
            .order_by(func.length(nodes.c.name).desc())
            .limit(1)
        ).one_or_none()
        series, own, reason = None, None, None
        if node is None:
            reason = "this node never sent samples"
        elif drawn == NODES_DRAWN:
            reason = f"only the first {NODES_DRAWN} nodes are drawn"
        else:
            drawn += 1
            series = timeline(connection, node.id, run.start, until, node.cpus, points)
            own = own_readings(connection, node.id, run.job_id, run.start, until, next_start, points)
        listed.append(RunNode(name, processors, node is not None, own, series, reason))
    return listed


class RunEfficiency(Record):
    """A run, and its use of its request, until now while it runs.

    ``task``: the id that people see of a task or of a heterogeneous job's part, if ``job_id`` is another. ``advice``:
    the recommended request of a similar job now, as users read it at submission; ``ask_lines`` is the same for a job
    script.
    """

    cluster: str
    job_id: str
    task: str | None
    user: str
    name: str | None
    start: float | None
    end: float | None
    state: RunState
    exit_status: int | None
    outcome: Outcome
    failure: str | None
    advice: str | None
    ask_lines: list[AskLine]
    efficiency: list[Efficiency]


def run_efficiencies(
    connection: Connection,
    reader: AnswerReader,
    job_id: str,
    now: float,
    user: str | None = None,
    sources: Sequence[AccountingSource] = (),
) -> list[RunEfficiency]:
    """Return all runs of jobs of this id, of this task, or of the tasks of this array, by cluster and start; of
    ``user`` only, if given. ``sources`` name the scheduler of each cluster.

    Empty without any: jobs that never started are not stored.
    """
    of_id = select(jobs, OUTCOME.label("outcome")).where(named_or_task(connection, job_id))
    query = of_id.order_by(jobs.c.cluster, jobs.c.start, jobs.c.id)
    if user is not None:
        query = query.where(jobs.c.user == user)
    asking, found = NextRequests(connection, reader), []
    for run in connection.execute(query).all():
        held = connection.scalar(select(func.count()).select_from(job_nodes).where(job_nodes.c.run_id == run.id))
        profile, used = _profile_rows(connection, run), used_so_far(connection, [run], now)
        shown = _metrics(run, profile)
        metrics = [_metric(each, profile.get(each), None, used.get((run.id, each)), run) for each in shown]
        scheduler = scheduler_of(connection, sources, run.cluster)
        advice, lines, efficiency = asking.efficiencies(run, metrics, held or 0, scheduler)
        of = {"task": run.array_task, "advice": advice, "ask_lines": lines, "efficiency": efficiency}
        found.append(RunEfficiency.of_row(run, start=started(run), **of))
    return found
