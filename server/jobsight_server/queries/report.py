"""The report on a log: what jobs requested and used, who should change what, what that brings, and how sure it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from sqlalchemy import Connection, func, select, union_all

from jobsight_predictor.metrics import METRICS
from jobsight_server.advice.words import Scheduler
from jobsight_server.decision.evidence import ASKED_FOR, Resource
from jobsight_server.forecasts import AnswerReader
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.ground.answers import Record, Share
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.profiler.sampled import NO_NODES, NO_SAMPLES
from jobsight_server.queries.accuracy import ACCURACY, AccuracyList, accuracy_list
from jobsight_server.queries.lost import IdleUse, Killed, idle_jobs, killed_jobs
from jobsight_server.queries.rejected import REJECTIONS, rejections
from jobsight_server.savings.confidence import Freed, over_users
from jobsight_server.savings.savings import REASONS, Asking
from jobsight_server.savings.sums.add import COLUMNS
from jobsight_server.savings.sums.read import Days, saved_amounts, stored_days, sums_of_all, widened
from jobsight_server.savings.today import DAYS, LEAST, TOOK_S, Line, larger_line, lines_of_week, ran_out_of
from jobsight_server.savings.waste import WASTE, WasteList, waste
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts, job_nodes, jobs, profiles
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME, is_ended

KEPT = 3
"""Largest requests without advice to name."""
BUSY_AT_MOST = 0.25
"""Largest share of its processors or GPUs that an idle application uses."""

_NODES_OF = select(job_nodes.c.run_id, func.count().label("nodes")).group_by(job_nodes.c.run_id).subquery()
_ON_EACH = (jobs.c.requested_memory_bytes // _NODES_OF.c.nodes).label("n")
_ON_NODES = (
    select(job_nodes.c.node, jobs.c.start, jobs.c.end, _ON_EACH)
    .join(_NODES_OF, _NODES_OF.c.run_id == jobs.c.id)
    .join(job_nodes, job_nodes.c.run_id == jobs.c.id)
    .where(jobs.c.memory_is_virtual.is_not(True), jobs.c.requested_memory_bytes > 0, jobs.c.end > jobs.c.start)
    .cte("on_nodes")
)
_CHANGES = union_all(
    select(_ON_NODES.c.node, _ON_NODES.c.start.label("time"), _ON_NODES.c.n),
    select(_ON_NODES.c.node, _ON_NODES.c.end, -_ON_NODES.c.n),
).subquery()
_AT_ONCE = func.sum(_CHANGES.c.n).over(
    partition_by=_CHANGES.c.node, order_by=(_CHANGES.c.time, _CHANGES.c.n), rows=(None, 0)
)
MOST_ON_A_NODE = select(func.max(select(_AT_ONCE.label("n")).subquery().c.n))
"""The most memory, in bytes, that jobs requested on one node at one time: it has at least that; NULL if none did."""
_PROCESSORS = jobs.c.processors
_EACH_S = (ASKED_MEMORY * TOOK_S / 2.0**30, _PROCESSORS * TOOK_S, ASKED_WALLTIME * _PROCESSORS, jobs.c.gpus * TOOK_S)
_HELD = select(func.count(), *(func.sum(each) / 3600.0 for each in _EACH_S)).where(is_ended)
_USED_UNASKED = (
    select(func.count(), func.sum(profiles.c.value * ASKED_PROCESSORS * TOOK_S) / (2.0**30 * 3600.0))
    .join(profiles, (profiles.c.run_id == jobs.c.id) & (profiles.c.metric == "memory"))
    .where(profiles.c.value.is_not(None), func.coalesce(ASKED_MEMORY, 0) == 0)
)
_NOT_ENDED = select(job_counts.c.state, NUMBER).where(job_counts.c.state != "ended").group_by(job_counts.c.state)


Total = Literal["memory", "processors", "runtime", "gpus"]


class ReportTotals(Record):
    """What all jobs that ended requested of memory and run time, and held of processors and GPUs; in hours."""

    jobs: int
    memory: float
    processors: float
    runtime: float
    gpus: float


class ReportFinding(Record):
    """What to change in one application of a user.

    ``share`` is the largest of its effects, ``of`` what all jobs requested or held: memory that is freed, from tomorrow
    (``fitted_hours``) or from day one (``replayed_hours``, null where it is not counted alone, or no line changes
    memory); shorter limits; processor-hours lost by kills, idle, or unseen; idle GPU-hours.
    """

    user: str
    application: str
    share: Share
    of: Total
    fitted_hours: float
    replayed_hours: float | None
    lines: list[Line]
    killed: list[Killed]
    idle: list[IdleUse]

    def changes(self, metric: Resource) -> bool:
        """Return whether a line changes the request of this resource."""
        return any(metric in line.changed for line in self.lines)


class Fitted(Record):
    """What today's lines free of memory, in GiB-hours, if the ``jobs`` that they concern come again; ``would_run_out``
    of these would not fit. ``users`` have such lines."""

    jobs: int
    would_run_out: int
    freed_hours: float
    users: int


class Excluded(Record):
    """A number of records or jobs that do not count in ``what``, and the reason."""

    what: str
    reason: str
    count: int


class Report(Record):
    """All finished jobs of a log, from ``waste.first_day`` to ``waste.last_day``, which all ``held`` so much.

    ``replayed``: GiB-hours that advice would have freed from day one, in ``days``. ``fitted``: what today's lines bring
    on the jobs of the last ``week_days`` days, which requested ``of_week``. ``findings``: the largest first. ``kept``:
    the largest requests without advice, for another reason than that jobs need them. ``node_bytes``: the most memory
    that jobs requested on one node at one time; null where no job shows it. ``node_hour``: the price of a node for an
    hour. ``unasked_jobs`` requested no memory and used ``unasked_hours``, GiB-hours.
    """

    waste: WasteList
    held: ReportTotals
    days: int
    replayed: Freed
    fitted: Fitted
    week_days: int
    of_week: ReportTotals
    findings: list[ReportFinding]
    kept: list[Line]
    killed: list[Killed]
    idle: list[IdleUse]
    unasked_jobs: int
    unasked_hours: float
    node_bytes: float | None
    node_hour: float | None
    accuracy: AccuracyList
    excluded: list[Excluded]


def report(
    connection: Connection, reader: AnswerReader, scheduler: Scheduler | None, node_hour: float | None, now: float
) -> Report | None:
    """Return the report on all jobs of the database, of one cluster; None without a finished job.

    ``scheduler``: the syntax of the lines; ``node_hour``: the price of a node for an hour.
    """
    stored = stored_days(connection)
    if stored is None:
        return None
    asking, whole = Asking(connection, reader), widened(stored, stored)
    week_from = max(stored.first, stored.last - DAYS + 1)
    held, of_week = _held(connection, 0.0), _held(connection, week_from * DAY_S)
    lines = [
        line
        for metric in ASKED_FOR
        for line in lines_of_week(connection, asking, metric, week_from, getattr(of_week, metric), scheduler)
    ]
    killed, idle = killed_jobs(connection), list(idle_jobs(connection, whole))
    weeks = ACCURACY.asked("metric", limit=50, by="cluster")
    counted = waste(connection, asking, WASTE.asked(by="cluster"), stored)
    unasked, unasked_hours = connection.execute(_USED_UNASKED).one()
    unadvised = [line for line in lines if line.metric == "memory" and line.kept not in (None, "as requested")]
    return Report(
        waste=counted,
        held=held,
        days=stored.last - stored.first + 1,
        replayed=over_users(_freed_by(connection, whole, "user").values(), held.memory),
        fitted=_fitted([line for line in lines if line.metric == "memory"]),
        week_days=stored.last - week_from + 1,
        of_week=of_week,
        findings=_findings(asking, whole, scheduler, (held, of_week), lines, killed, idle),
        kept=unadvised[:KEPT],
        killed=killed,
        idle=idle,
        unasked_jobs=unasked,
        unasked_hours=float(unasked_hours or 0.0),
        node_bytes=connection.scalar(MOST_ON_A_NODE),
        node_hour=node_hour,
        accuracy=accuracy_list(connection, weeks, stored, reader.config.coverage, now),
        excluded=_excluded(connection, counted),
    )


def _held(connection: Connection, since: float) -> ReportTotals:
    number, *hours = connection.execute(_HELD.where(jobs.c.end >= since)).one()
    return ReportTotals(number, *(float(each or 0.0) for each in hours))


def _freed_by(connection: Connection, days: Days, level: str) -> dict[tuple[str, ...], float]:
    """Return the GiB-hours that advice at each submission would have freed, by the names of the level."""
    freed: dict[tuple[str, ...], float] = defaultdict(float)
    for _, *row in sums_of_all(connection, "memory", days, level):
        names, sums = row[: -len(COLUMNS)], row[-len(COLUMNS) :]
        amounts = saved_amounts(sums, "memory")
        if amounts.jobs:
            freed[tuple(names)] += amounts.freed_hours
    return freed


def _fitted(lines: Sequence[Line]) -> Fitted:
    saved = [line.saved for line in lines if line.saved is not None]
    return Fitted(
        jobs=sum(of.jobs for of in saved),
        would_run_out=sum(of.would_run_out or 0 for of in saved),
        freed_hours=sum(of.freed_hours or 0.0 for of in saved),
        users=len({line.user for line in lines if line.saved is not None}),
    )


def _findings(
    asking: Asking,
    days: Days,
    scheduler: Scheduler | None,
    held_and_week: tuple[ReportTotals, ReportTotals],
    lines: Iterable[Line],
    killed: Iterable[Killed],
    idle: Iterable[IdleUse],
) -> list[ReportFinding]:
    """Return the findings with a share of at least ``LEAST``, the largest first."""
    held, of_week = held_and_week
    replayed = _freed_by(asking.connection, days, "group")
    found: dict[tuple[str, str], ReportFinding] = {}

    def of(each: Line | Killed | IdleUse) -> ReportFinding:
        key = each.user, each.application
        return found.setdefault(key, ReportFinding(*key, 0.0, "memory", 0.0, replayed.get(key), [], [], []))

    for line in lines:
        if line.ask_for is not None:
            of(line).lines.append(line)
    for one in killed:
        larger = [line for line in of(one).lines if line.metric == one.metric and line.is_larger]
        if not larger:
            line_now = larger_line(
                asking, (one.cluster, one.user, one.application), one.processors, one.metric, scheduler
            )
            larger += [] if line_now is None else [line_now]
            of(one).lines += larger
        if larger:
            of(one).killed.append(one)
            one.similar = ran_out_of(larger, one.metric)
    for held_idle in idle:
        if 0.0 < (1.0 - BUSY_AT_MOST) * held_idle.held_hours <= held_idle.idle_hours:
            of(held_idle).idle.append(held_idle)
    for finding in found.values():
        if not finding.changes("memory"):
            finding.replayed_hours = None
        saved = dict.fromkeys(ASKED_FOR, 0.0)
        for line in finding.lines:
            saved[line.metric] += (line.saved and line.saved.freed_hours) or 0.0
        shares: list[tuple[float, Total]] = [
            (_share(saved["memory"], of_week.memory), "memory"),
            (_share(saved["runtime"], of_week.runtime), "runtime"),
            (_share(finding.replayed_hours or 0.0, held.memory), "memory"),
            (_share(sum(one.hours for one in finding.killed), held.processors), "processors"),
            *((_share(one.idle_hours, getattr(held, one.what)), one.what) for one in finding.idle),
        ]
        finding.share, finding.of = max(shares, key=lambda each: each[0])
        finding.fitted_hours = saved["memory"]
    findings = [finding for finding in found.values() if finding.share >= LEAST]
    return sorted(findings, key=lambda one: (-one.share, one.user, one.application))


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else 0.0


def _excluded(connection: Connection, found: WasteList) -> list[Excluded]:
    """Return what counts nowhere: lines without a job, runs without an end, jobs without a value or a request."""
    events = read_event_counts(connection)
    rows = [Excluded(REJECTIONS[each.name], each.label, each.value) for each in rejections(events)]
    not_ended = connection.execute(_NOT_ENDED.order_by(job_counts.c.state))
    rows += [Excluded("Runs", f"that were {state}", n) for state, n in not_ended]
    for resource, left in found.left_out.items():
        rows += [Excluded(resource, words, n) for reason, words in REASONS.items() if (n := getattr(left, reason))]
    unknown = Counter[tuple[str, str]]()
    for (name, label), n in events.items():
        metric, _, reason = label.partition(": ")
        if name == "profiles_missing" and metric in ("memory", "cpu"):
            unknown[metric, _NOT_IN_LOG if reason in _OF_SAMPLES else reason] += n
    return rows + [Excluded(f"{METRICS[metric].title} unknown", why, n) for (metric, why), n in unknown.items()]


_NOT_IN_LOG = "not in the log"
_OF_SAMPLES = (NO_SAMPLES.label, NO_NODES.label)
"""Reasons of runs without the log's own figure, where agents could have measured one."""
