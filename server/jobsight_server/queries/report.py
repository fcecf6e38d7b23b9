"""The report on a log: what jobs held, used and could free, who has most to gain, and how far to trust it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from sqlalchemy import Connection

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.series import accuracy
from jobsight_server.advice.words import AskLine, Scheduler, lines_to_ask
from jobsight_server.decision.evidence import ASKED_FOR, Resource
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.last_runs import FAILURE_OF
from jobsight_server.ground.answers import Record, Share
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.profiler.exactness import IDLE
from jobsight_server.queries.accuracy import ACCURACY, AccuracyList, accuracy_list
from jobsight_server.queries.rejected import REJECTIONS, rejections
from jobsight_server.savings.confidence import Freed, over_users
from jobsight_server.savings.kept_sums import group_name
from jobsight_server.savings.savings import (
    REASONS,
    Asking,
    Days,
    SavingsRow,
    saved_amounts,
    saving_row,
    stored_days,
    sums_of_all,
    widened,
)
from jobsight_server.savings.totals import COLUMNS
from jobsight_server.savings.waste import WASTE, Waste, WasteList, WasteRow, waste
from jobsight_server.storage.engine import fetch

LISTED = 10
LOOKED_AT = 30
"""Rows to look at: those whose applications have not run lately have no line to show."""
BEHIND = 3
"""Similar jobs to name under each line, and users whose requests are kept."""
_GIB = 2.0**30
_DAY_HOURS = 24.0

_LARGEST_ON_A_NODE = (
    "SELECT max(j.requested_memory_bytes / held.nodes) FROM jobs j JOIN "
    "(SELECT run_id, count(*) AS nodes FROM job_nodes GROUP BY run_id) held ON held.run_id = j.id "
    "WHERE j.memory_is_virtual IS NULL OR NOT j.memory_is_virtual"
)
_USERS_OF_APPLICATION = (
    f'SELECT g.cluster, g."user", {", ".join(f"sum(s.{name})" for name in COLUMNS)} '
    "FROM savings s JOIN savings_groups g ON g.id = s.group_id WHERE s.metric = ? AND s.level = 'group' "
    "AND s.period = 'month' AND g.cluster = ? AND g.application = ? GROUP BY 1, 2"
)
_KILLED = (
    "SELECT cluster, \"user\", application, count(*) FROM jobs WHERE state = 'ended' AND failure = ? GROUP BY 1, 2, 3"
)
_HELD = (
    'SELECT j."user", count(*), sum(j.processors * (j."end" - j.start)) / 3600.0 AS hours, '
    "coalesce(p.reason, '') <> ? AS is_seen FROM jobs j JOIN profiles p ON p.run_id = j.id AND p.metric = 'cpu' "
    'WHERE j.processors > 0 GROUP BY j."user", is_seen ORDER BY hours DESC'
)
_NOT_ENDED = "SELECT state, sum(n) FROM job_counts WHERE state <> 'ended' GROUP BY state ORDER BY state"


class SimilarJob(Record):
    """A job, with the memory in bytes or time in seconds that it requested and used."""

    job_id: str
    requested: float | None
    used: float | None


class Gain(Record):
    """A user or application with much to gain: the ``advice`` for jobs of one user and application, as lines.

    The lines are for a job on as many ``processors`` as the last one. ``similar`` jobs are behind
    them, ``exact`` of these known exactly; ``last_jobs`` are the latest of them.
    """

    row: WasteRow
    advice: SavingsRow
    ask_lines: list[AskLine]
    processors: int
    similar: int
    exact: int
    last_jobs: list[SimilarJob]


class NeedsMore(Record):
    """An application of a user, of which so many ``jobs`` needed more than they requested, and the lines for a job like
    the last one: ``ask_for`` instead of ``asked_for``, in bytes or seconds of the whole job."""

    user: str
    application: str
    metric: Resource
    jobs: int
    asked_for: float
    ask_for: float
    ask_lines: list[AskLine]


class KnownToday(Record):
    """Accuracy of today's forecasts for the similar ``jobs`` behind the lines, and the share that today's amounts would
    have held: they were learned from these very jobs."""

    metric: str
    jobs: int
    accuracy: Share
    held: Share


class Excluded(Record):
    """A number of records or jobs that do not count in ``what``, and the reason."""

    what: str
    reason: str
    count: int


class Unseen(Record):
    """Runs that used hardly any CPU time of their processors: what they held, its share of all, and who holds most."""

    jobs: int
    processor_hours: float
    share: Share
    users: list[str]


class Report(Record):
    """All finished jobs of a log, from ``users.first_day`` to ``users.last_day``.

    ``metric``: memory, or run time if no user can gain memory; gains are ordered by what its requests would have freed.
    ``kept``: the users with most unused, of whose largest application no less should be requested.
    ``freed``: GiB-hours. ``nodes``: the same in nodes over all days, each of ``node_bytes``, the largest memory that a
    job requested on one node. A node has at least that, so this many nodes at most; null where no job shows it.
    ``money``: of these nodes, at ``node_hour`` for each hour. ``unseen``: runs that were idle, or started past the
    batch system; no other figure has their processors and memory. Null without any.
    """

    metric: Resource
    users: WasteList
    applications: WasteList
    user_gains: list[Gain]
    application_gains: list[Gain]
    kept: list[WasteRow]
    need_more: list[NeedsMore]
    freed: Freed
    node_bytes: float | None
    nodes: Freed | None
    node_hour: float | None
    money: Freed | None
    trust: AccuracyList
    known_today: list[KnownToday]
    excluded: list[Excluded]
    unseen: Unseen | None


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
    metric: Resource = "memory"  # a shorter time limit frees nothing by itself
    users = _listed(connection, asking, stored, "user", f"{metric}_freed")
    applications = _listed(connection, asking, stored, "application", f"{metric}_freed")
    advised = [(row, getattr(row, f"{metric}_advice")) for row in users.rows]
    of_users = _gains(asking, advised, metric, scheduler)
    advised = [(row, _advice_of_application(connection, asking, row, metric, whole)) for row in applications.rows]
    of_applications = _gains(asking, advised, metric, scheduler)
    unused = _listed(connection, asking, stored, "user", metric).rows
    freed = over_users(
        saved_amounts(sums, "memory")["freed_hours"]
        for _, _, *sums in sums_of_all(connection, "memory", whole, "user")
        if sums[COLUMNS.index("jobs")]
    )
    ((node_bytes,),) = fetch(connection, _LARGEST_ON_A_NODE, ())
    node_hours = freed.times(_GIB / node_bytes) if node_bytes else None
    days, weeks = stored.last - stored.first + 1, ACCURACY.asked("metric", limit=50, by="cluster")
    return Report(
        metric=metric,
        users=users,
        applications=applications,
        user_gains=of_users,
        application_gains=of_applications,
        kept=[row for row in unused if (advice := getattr(row, f"{metric}_advice")) and advice.kept][:BEHIND],
        need_more=_need_more(connection, asking, whole, scheduler),
        freed=freed,
        node_bytes=node_bytes,
        nodes=node_hours and node_hours.times(1.0 / (days * _DAY_HOURS)),
        node_hour=node_hour,
        money=None if node_hours is None or node_hour is None else node_hours.times(node_hour),
        trust=accuracy_list(connection, weeks, stored, reader.config.coverage, now, asking),
        known_today=_known_today(asking, [each.advice for each in (*of_users, *of_applications)]),
        excluded=_excluded(connection, users),
        unseen=_unseen(connection),
    )


def _unseen(connection: Connection) -> Unseen | None:
    rows = fetch(connection, _HELD, (IDLE.reason,))
    held = [(user, int(n), float(hours)) for user, n, hours, is_seen in rows if not is_seen]
    if not held:
        return None
    hours = sum(one for _, _, one in held)
    share = hours / sum(float(row[2]) for row in rows)
    return Unseen(sum(n for _, n, _ in held), hours, share, [user for user, *_ in held[:BEHIND]])


def _listed(connection: Connection, asking: Asking, days: Days, by: str, sort: str) -> WasteList:
    return waste(connection, asking, WASTE.asked(sort, limit=LOOKED_AT, by=by), days)


def _advice_of_application(
    connection: Connection, asking: Asking, row: WasteRow, metric: str, days: Days
) -> SavingsRow | None:
    """Return the advice for the user whose jobs of this application would have freed most; None if none counts."""
    users = fetch(connection, _USERS_OF_APPLICATION, (metric, row.cluster, row.name))
    users = [found for found in users if found[2 + COLUMNS.index("jobs")]]
    if not users:
        return None
    cluster, user, *sums = max(users, key=lambda found: saved_amounts(found[2:], metric)["freed_hours"])
    return saving_row(connection, asking, "application", user, metric, days, (cluster, row.name, *sums))


def _gains(
    asking: Asking,
    advised: Iterable[tuple[WasteRow, SavingsRow | None]],
    metric: Resource,
    scheduler: Scheduler | None,
) -> list[Gain]:
    """Return the first for which recommended requests would have freed something."""
    gains = []
    for row, advice in advised:
        of: Waste = getattr(row, metric)
        found = None if advice is None else asking.of(advice.cluster, advice.user, advice.application)
        if advice is None or found is None or (of.freed_hours or 0.0) <= 0.0:
            continue
        like, recommended = found
        similar = recommended.decisions[metric].similar
        last = [
            SimilarJob(run.job_id, run.requested(metric), run.used(metric))
            for run in asking.similar(advice.cluster, advice.user, like)
            if run.used(metric) is not None
        ]
        gains.append(
            Gain(
                row=row,
                advice=advice,
                ask_lines=lines_to_ask(recommended, scheduler, like, [of for of in ASKED_FOR if like.requested(of)]),
                processors=like.processors,
                similar=similar.runs,
                exact=similar.exact,
                last_jobs=last[:BEHIND],
            )
        )
    return gains[:LISTED]


def _need_more(connection: Connection, asking: Asking, days: Days, scheduler: Scheduler | None) -> list[NeedsMore]:
    """Return the applications with most jobs that died of their request, or used more, and now need more."""
    needed: Counter[tuple[Resource, str, str, str]] = Counter()
    for metric in ASKED_FOR:
        for cluster, user, application, *sums in sums_of_all(connection, metric, days, "group"):
            needed[metric, cluster, user, application] += int(sums[COLUMNS.index("needed_more")])
        for cluster, user, name, n in fetch(connection, _KILLED, (FAILURE_OF[metric],)):
            key = metric, cluster, user, group_name(cluster, user, name, None, None).application
            needed[key] = max(needed[key], int(n))  # some of them count in the sums
    found: list[NeedsMore] = []
    for (metric, cluster, user, application), n in needed.most_common():
        advised = asking.of(cluster, user, application) if n and len(found) < LISTED else None
        if advised is not None:
            like, of = advised
            asked_for, ask_for = like.requested(metric), of.best(metric)
            if asked_for and ask_for and ask_for > asked_for:
                lines = lines_to_ask(of, scheduler, like, (metric,))
                found.append(NeedsMore(user, application, metric, n, asked_for, ask_for, lines))
    return found


def _known_today(asking: Asking, rows: Iterable[SavingsRow]) -> list[KnownToday]:
    keys = dict.fromkeys((row.cluster, row.user, row.application) for row in rows)
    found = [(key, *advised) for key in keys if (advised := asking.of(*key))]
    answers = []
    for metric in ASKED_FOR:
        near: list[float] = []
        within: list[bool] = []
        for (cluster, user, _), like, of in found:
            forecast, amount = of.answers[metric].value, of.best(metric)
            used = [run.used(metric) for run in asking.similar(cluster, user, like) if run.failure is None]
            if forecast is not None and amount is not None:
                near += [accuracy(forecast, value) for value in used if value is not None]
                within += [value <= amount for value in used if value is not None]
        if near:
            answers.append(KnownToday(metric, len(within), float(np.mean(near)), float(np.mean(within))))
    return answers


def _excluded(connection: Connection, found: WasteList) -> list[Excluded]:
    """Return what counts nowhere: lines without a job, runs without an end, jobs without a value or a request."""
    events = read_event_counts(connection)
    rows = [Excluded(REJECTIONS[each.name], each.label, each.value) for each in rejections(events)]
    rows += [Excluded("runs without an end", state, int(n)) for state, n in fetch(connection, _NOT_ENDED, ())]
    for resource, left in found.left_out.items():
        rows += [Excluded(resource, words, n) for reason, words in REASONS.items() if (n := getattr(left, reason))]
    for (name, label), n in events.items():
        metric, _, reason = label.partition(": ")
        if name == "profiles_missing" and metric in ("memory", "cpu"):
            reason = reason.replace("no samples of a node", "not in the log")
            rows.append(Excluded(f"{METRICS[metric].title} unknown", reason, n))
    return rows
