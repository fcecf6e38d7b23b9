"""Findings about nodes: those that lose jobs, silent ones, and missing data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from sqlalchemy import Connection, func, select

from jobsight_server.ground.amounts import DAY_S, many, percent
from jobsight_server.queries.findings import LISTED, WEEK_H, Finding, FindingEvidence, FindingsSite, Found
from jobsight_server.queries.node_states import Machines, NodeName, seen_at, status
from jobsight_server.queries.running import nodes_of_running
from jobsight_server.savings.sums.add import COLUMNS
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import nodes, quarantine

_LOST_LEAST = 5
_MISSING_FROM = 0.05


def node_findings(site: FindingsSite, machines: Machines | None) -> Found:
    """Yield what is found about nodes, and the data that is missing."""
    ages = _ages(site)
    running = _running_on(site.connection, ages, site.now)
    yield from _killing(site, machines)
    yield from _silent(ages, running)
    yield from _missing(site, running.keys() - ages)


def _killing(site: FindingsSite, machines: Machines | None) -> Found:
    worst = (machines or Machines()).worst(site.connection, None, site.now)
    if worst is None or worst.jobs < _LOST_LEAST:
        return
    days = (site.now - worst.since) / DAY_S
    hours = worst.processor_hours / site.processors / (days / 7.0)
    text = f"{worst.name} of {worst.cluster} lost {worst.jobs} jobs in {days:.0f} days: evicted, requeued or failed; "
    text += f"{worst.processor_hours:,.0f} processor-hours lost."
    jobs = {"cluster": worst.cluster, "node": worst.name}
    lost = Finding("kills", text, "Drain it, and look at its hardware and its log.", hours, jobs)
    yield ("node", worst.cluster, worst.name), lost


def _ages(site: FindingsSite) -> dict[NodeName, float]:
    """Return each node with an agent, and how long ago it was seen."""
    seen = select(*nodes.c["cluster", "name", "received_at", "last_time", "clock_skew_s"])
    return {(cluster, name): site.now - seen_at(*times) for cluster, name, *times in fetch(site.connection, seen, {})}


def _silent(ages: Mapping[NodeName, float], running: Mapping[NodeName, int]) -> Found:
    silent = [(*name, age_s) for name, age_s in ages.items() if status(age_s) == "silent"]
    if not silent:
        return
    stranded = {(cluster, name): running.get((cluster, name), 0) for cluster, name, _ in silent}
    silent.sort(key=lambda each: (-stranded[each[:2]], each[2], each[1]))
    named = ", ".join(name for _, name, _ in silent[:3]) + (", ..." if silent[3:] else ".")
    jobs_there = many(sum(stranded.values()), "job")
    text = f"{many(len(silent), 'node')} silent, with {jobs_there} stranded there: {named}"
    evidence = []
    for cluster, name, age_s in silent[:LISTED]:
        there = many(stranded[cluster, name], "running job")
        evidence.append(FindingEvidence("node", cluster, name, f"silent for {age_s / 3600:,.0f} h, {there}"))
    action = "See whether each is down: restart its agent, or drain it and requeue its jobs."
    hours = sum(min(age_s / 3600.0, WEEK_H) for *_, age_s in silent)
    names = " ".join(sorted(map("/".join, stranded)))
    yield ("site", "", names), Finding("silent", text, action, hours, evidence=evidence)


def _running_on(connection: Connection, known: Collection[NodeName], now: float) -> Mapping[NodeName, int]:
    """Return the numbers of running jobs by cluster and node; names that are not ``known`` are shortened."""
    found: dict[NodeName, int] = defaultdict(int)
    for cluster, _, name, _ in nodes_of_running(connection, now):
        found[cluster, name if (cluster, name) in known else name.partition(".")[0]] += 1
    return found


def _missing(site: FindingsSite, without: Collection[NodeName]) -> Found:
    """Yield clusters with many jobs without memory, and rejected readings."""
    for cluster, _, *sums in site.sums("memory", "cluster"):
        of = dict(zip(COLUMNS, sums, strict=True))
        counted = of["jobs"] + of["without_request"] + of["without_bound"] + of["without_use"]
        bare = [FindingEvidence("node", where, name, "no agent") for where, name in sorted(without) if where == cluster]
        text = f"{percent(of['without_use'] / max(counted, 1.0))} of the jobs of {cluster} have no exact memory"
        text += f"; {many(len(bare), 'node')} with running jobs without an agent." if bare else "."
        action = "Install the agent on these nodes." if bare else "A job's page says why its memory is unknown."
        if counted and of["without_use"] >= _MISSING_FROM * counted:
            yield ("cluster", cluster, cluster), Finding("missing", text, action, None, evidence=bare[:LISTED])
    recent = select(func.count()).select_from(quarantine).where(quarantine.c.received_at >= site.now - 7 * DAY_S)
    if number := site.connection.scalar(recent):
        text = f"Batches of readings rejected in the last seven days: {number:,}."
        yield ("site", "", "rejected"), Finding("missing", text, "The page Nodes has the reasons.", None)
