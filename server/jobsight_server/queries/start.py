"""What a week's start should decide: findings sorted by their cost, each with its evidence and one action."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, select

from jobsight_predictor.metrics import METRICS
from jobsight_server.forecasts.last_runs import last_runs
from jobsight_server.ground.amounts import DAY_S, percent
from jobsight_server.ground.answers import Record
from jobsight_server.queries.accuracy import broken
from jobsight_server.queries.changed_use import Histogram, changed_applications
from jobsight_server.queries.node_states import Machines, NodeName, seen_at, status
from jobsight_server.queries.running import nodes_of_running
from jobsight_server.savings.by_week import mean_node
from jobsight_server.savings.confidence import over_users
from jobsight_server.savings.kept_sums import as_date
from jobsight_server.savings.savings import Days, saved_amounts, stored_days, sums_of_all, sums_of_user, widened
from jobsight_server.savings.totals import COLUMNS
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import muted_findings, quarantine

SHOWN = 7
"""Findings on the page and in the mail."""
MUTED_DAYS_AT_MOST = 365
_LISTED = 10
_WEEK_H = 7 * 24.0
_SPAN_DAYS = 28
_WORTH_HOURS = 1.0
"""Node-hours a week below which nothing is said."""
_BUSY_AT_MOST = {"cpu": 0.25, "gpu_utilisation": 0.05}
_GPUS_OF_A_NODE = 4.0
_USERS_READ = 8
_LOST_LEAST = 5
_MISSING_FROM = 0.05

_Row = Sequence[Any]
"""Cluster, name and sums."""
Kind = Literal["changed", "broke", "gain", "idle", "kills", "silent", "missing"]


class FindingEvidence(Record):
    """A line behind a finding, about the user or the node ``name`` on ``cluster``."""

    noun: Literal["user", "node"]
    cluster: str
    name: str
    text: str


class Finding(Record):
    """One finding, known by its ``key``. ``node_hours``: its cost in a week, null if unknown. ``settings``: lines for
    the settings file. Muted findings say until when and why."""

    key: str
    kind: Kind
    text: str
    action: str
    node_hours: float | None
    evidence: list[FindingEvidence]
    histogram: Histogram | None = None
    settings: str | None = None
    muted_until: float | None = None
    muted_reason: str | None = None


class Start(Record):
    """The dearest ``findings``, ``more`` others, and the muted ones. Costs are in nodes of ``node_processors`` and
    ``node_gib`` of memory: the mean of the nodes with agents, else ``assumed``."""

    now: float
    findings: list[Finding]
    more: int
    muted: list[Finding]
    node_processors: float
    node_gib: float
    assumed: bool


@dataclass(frozen=True, slots=True)
class _Site:
    """The mean node, and the newest ``days`` with counted jobs, which are ``weeks``."""

    connection: Connection
    now: float
    processors: float
    gib: float
    assumed: bool
    days: Days | None
    weeks: float

    def sums(self, metric: str, level: str = "user", columns: Sequence[str] = COLUMNS) -> list[_Row]:
        """Return cluster, name and sums of each user or cluster."""
        if self.days is None:
            return []
        return sums_of_all(self.connection, metric, self.days, level, columns=columns)

    def saved(self, cluster: str, user: str) -> dict[str, Any]:
        """Return what recommended requests of memory would save of one user's."""
        assert self.days is not None  # of a user with sums
        ((_, _, *sums),) = sums_of_user(self.connection, "memory", self.days, "user", cluster, user)
        return saved_amounts(sums, "memory")


def _site(connection: Connection, now: float) -> _Site:
    node = mean_node(connection)
    stored = stored_days(connection)
    if stored is None:
        return _Site(connection, now, *node, None, 1.0)
    days = Days(max(stored.first, stored.last - _SPAN_DAYS + 1), stored.last)
    return _Site(connection, now, *node, widened(days, stored), (days.last - days.first + 1) / 7.0)


def start(
    connection: Connection, now: float, machines: Machines | None = None, adjusted: Collection[str] = ()
) -> Start:
    """Return the findings, those with the largest cost first, unknown costs last.

    ``adjusted``: the clusters whose waiting jobs `jobsight adjust` changes already.
    """
    site = _site(connection, now)
    rows, ages = site.sums("memory", columns=("requested", "request_held", "bound_held")), _ages(connection, now)
    running = _running_on(connection, ages, now)
    found = [*_gains(site, adjusted, rows), *_idle(site), *_changed(site, rows), *_broken(site),
             *_killing(site, machines), *_silent(ages, running), *_missing(site, running.keys() - ages)]  # fmt: skip
    found.sort(key=lambda each: (each.node_hours is None, -(each.node_hours or 0.0), each.key))
    mutes = {row.key: row for row in connection.execute(select(muted_findings).where(muted_findings.c.until > now))}
    shown, muted = [each for each in found if each.key not in mutes], [each for each in found if each.key in mutes]
    for each in muted:
        each.muted_until, each.muted_reason = mutes[each.key].until, mutes[each.key].reason
    return Start(now, shown[:SHOWN], len(shown[SHOWN:]), muted, site.processors, site.gib, site.assumed)


def mute(connection: Connection, key: str, until: float, reason: str) -> None:
    """Leave out a finding until a time; one in the past shows it again."""
    connection.execute(delete(muted_findings).where(muted_findings.c.key == key))
    connection.execute(insert(muted_findings).values(key=key, until=until, reason=reason))


def _gains(site: _Site, adjusted: Collection[str], rows: list[_Row]) -> Iterator[Finding]:
    """Yield for each cluster the users whose requests hold most memory that the recommended ones would not."""
    of_cluster: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for cluster, user, _, held, bound in rows:
        if held > bound:
            of_cluster[cluster].append((bound - held, user))
    for cluster, users in of_cluster.items():
        most = [(user, site.saved(cluster, user)) for _, user in sorted(users)[:_LISTED]]
        freed = over_users(of["freed_hours"] / site.weeks / site.gib for _, of in most)
        if freed.amount < _WORTH_HOURS:
            continue
        between = "too few users for an interval"
        if freed.low is not None and freed.high is not None:
            between = f"{_nodes(freed.low)} to {_nodes(freed.high)} (90 %)"
        kills = sum(of["would_run_out"] for _, of in most) / site.weeks
        new = sum(max(0, of["would_run_out"] - of["needed_more"]) for _, of in most) / site.weeks
        text = (
            f"Lower memory for {_many(len(most), 'user')} of {cluster}: {_nodes(freed.amount)} nodes, "
            f"{between}; {kills:.1f} jobs a week would run out, {new:.1f} of them new."
        )
        action = "Paste these lines into the settings file: jobsight adjust shows the changes, --apply makes them. "
        action += "They begin with a tenth of the users; the gain above is of all these users."
        settings: str | None = f'[[adjust]]\ncluster = "{cluster}"\nusers_share = 0.1\nmemory = true'
        if cluster in adjusted:
            action, settings = f"jobsight adjust changes jobs of {cluster} already: raise its users_share.", None
        evidence = [
            FindingEvidence("user", cluster, user, f"{of['freed_hours'] / site.weeks:,.0f} GiB-hours a week to free")
            for user, of in most
        ]
        yield Finding(f"gain {cluster}", "gain", text, action, freed.amount, evidence, settings=settings)


def _idle(site: _Site) -> Iterator[Finding]:
    """Yield processors and GPUs whose users keep few of them busy."""
    for metric, at_most in _BUSY_AT_MOST.items():
        noun, of_node = ("processor", site.processors) if metric == "cpu" else ("GPU", _GPUS_OF_A_NODE)
        users = []
        for cluster, user, requested, used in site.sums(metric, columns=("requested", "used")):
            if requested > 0.0 and used <= at_most * requested:
                held, busy = requested / 3600.0 / site.weeks, used / 3600.0 / site.weeks
                text = f"{percent(busy / held)} of {held:,.0f} {noun}-hours a week busy"
                users.append((held - busy, FindingEvidence("user", cluster, user, text)))
        idle = sum(hours for hours, _ in users)
        evidence = [each for _, each in sorted(users, key=lambda each: -each[0])[:_LISTED]]
        text = f"{_many(len(users), 'user')} kept at most {percent(at_most)} of their {noun}s busy"
        text += f": {idle:,.0f} idle {noun}-hours a week."
        action = f"Ask them whether their programs are serial, or wait for data, and request fewer {noun}s."
        if idle / of_node >= _WORTH_HOURS:
            yield Finding(f"idle {noun}s", "idle", text, action, idle / of_node, evidence)


def _changed(site: _Site, rows: list[_Row]) -> Iterator[Finding]:
    """Yield applications, of the users that request most memory, whose jobs lately need something else."""
    for cluster, user, *_ in nlargest(_USERS_READ, rows, key=itemgetter(2)):
        for application, of in changed_applications(last_runs(site.connection, cluster, user), site.now).items():
            evidence = [FindingEvidence("user", cluster, user, f"{of.before_jobs} jobs before, {of.since_jobs} since")]
            key, text = f"changed {cluster} {user} {application}", f"{application} of {user} on {cluster} {of.text}."
            action = f"Ask {user} what changed. Recommendations already count the jobs since."
            yield Finding(key, "changed", text, action, of.unused_gib_hours_a_week / site.gib, evidence, of.histogram)


def _broken(site: _Site) -> Iterator[Finding]:
    """Yield metrics of a cluster whose forecasts broke: for all of its jobs, or for some users."""
    found: dict[tuple[str, str], list[FindingEvidence]] = defaultdict(list)
    texts = {}
    of_users = broken(site.connection, "user")[:_LISTED]
    for group, fall in (*of_users, *broken(site.connection, "cluster")):
        assert fall is not None
        of = found[group.cluster, group.metric]
        text = f"since {as_date(fall.day)}: accuracy {fall.since:.2f}, before {fall.before:.2f}"
        if (group, fall) in of_users:
            of.append(FindingEvidence("user", group.cluster, group.name, text))
            text = f"for {', '.join(each.name for each in of)}"
        texts[group.cluster, group.metric] = text
    for (cluster, metric), evidence in found.items():
        text = f"Forecasts of {METRICS[metric].name} on {cluster} are worse {texts[cluster, metric]}."
        action = "Do not lower these requests until the jobs since then are learned."
        yield Finding(f"broke {cluster} {metric}", "broke", text, action, None, evidence)


def _killing(site: _Site, machines: Machines | None) -> Iterator[Finding]:
    worst = (machines or Machines()).worst(site.connection, None, site.now)
    if worst is None or worst.jobs < _LOST_LEAST:
        return
    days = (site.now - worst.since) / DAY_S
    key, hours = f"kills {worst.cluster} {worst.name}", worst.processor_hours / site.processors / (days / 7.0)
    text = f"{worst.name} of {worst.cluster} lost {worst.jobs} jobs in {days:.0f} days: evicted, requeued or failed."
    evidence = [
        FindingEvidence("node", worst.cluster, worst.name, f"{worst.processor_hours:,.0f} processor-hours lost")
    ]
    yield Finding(key, "kills", text, "Drain it, and look at its hardware and its log.", hours, evidence)


def _ages(connection: Connection, now: float) -> dict[NodeName, float]:
    """Return each node with an agent, and how long ago it was seen."""
    seen = "SELECT cluster, name, received_at, last_time, clock_skew_s FROM nodes"
    return {(cluster, name): now - seen_at(*times) for cluster, name, *times in fetch(connection, seen, ())}


def _silent(ages: Mapping[NodeName, float], running: Mapping[NodeName, int]) -> Iterator[Finding]:
    silent = [(*name, age_s) for name, age_s in ages.items() if status(age_s) == "silent"]
    if not silent:
        return
    stranded = {(cluster, name): running.get((cluster, name), 0) for cluster, name, _ in silent}
    silent.sort(key=lambda each: (-stranded[each[:2]], each[2], each[1]))
    named = ", ".join(name for _, name, _ in silent[:3]) + (", ..." if silent[3:] else ".")
    jobs_there = _many(sum(stranded.values()), "job")
    text = f"{_many(len(silent), 'node')} silent, with {jobs_there} stranded there: {named}"
    evidence = []
    for cluster, name, age_s in silent[:_LISTED]:
        there = _many(stranded[cluster, name], "running job")
        evidence.append(FindingEvidence("node", cluster, name, f"silent for {age_s / 3600:,.0f} h, {there}"))
    action = "See whether each is down: restart its agent, or drain it and requeue its jobs."
    hours = sum(min(age_s / 3600.0, _WEEK_H) for *_, age_s in silent)
    yield Finding("silent " + " ".join(sorted(map("/".join, stranded))), "silent", text, action, hours, evidence)


def _running_on(connection: Connection, known: Collection[NodeName], now: float) -> Mapping[NodeName, int]:
    """Return the numbers of running jobs by cluster and node; names that are not ``known`` are shortened."""
    found: dict[NodeName, int] = defaultdict(int)
    for cluster, _, name, _ in nodes_of_running(connection, now):
        found[cluster, name if (cluster, name) in known else name.partition(".")[0]] += 1
    return found


def _missing(site: _Site, without: Collection[NodeName]) -> Iterator[Finding]:
    """Yield clusters with many jobs without memory, and rejected readings."""
    for cluster, _, *sums in site.sums("memory", "cluster"):
        of = dict(zip(COLUMNS, sums, strict=True))
        counted = of["jobs"] + of["without_request"] + of["without_bound"] + of["without_use"]
        bare = [FindingEvidence("node", where, name, "no agent") for where, name in sorted(without) if where == cluster]
        text = f"{percent(of['without_use'] / max(counted, 1.0))} of the jobs of {cluster} have no exact memory"
        text += f"; {_many(len(bare), 'node')} with running jobs without an agent."
        action = "Install the agent on these nodes." if bare else "A job's page says why its memory is unknown."
        if counted and of["without_use"] >= _MISSING_FROM * counted:
            yield Finding(f"missing {cluster}", "missing", text, action, None, bare[:_LISTED])
    recent = select(func.count()).select_from(quarantine).where(quarantine.c.received_at >= site.now - 7 * DAY_S)
    if number := site.connection.scalar(recent):
        text = f"Batches of readings rejected in the last seven days: {number:,}."
        yield Finding("missing rejected", "missing", text, "Nodes says why, below the list.", None, [])


def _nodes(hours: float) -> str:
    number = hours / _WEEK_H
    return f"{number:.1f}" if number >= 1.0 else f"{number:.2g}"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
