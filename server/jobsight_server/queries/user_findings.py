"""Findings about users: killed jobs, idle processors and GPUs, memory to free, changes, broken forecasts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import Any

from sqlalchemy import func, select

from jobsight_predictor.metrics import METRICS
from jobsight_server.advice.idle import Held, to_ask, to_do
from jobsight_server.advice.words import log_format
from jobsight_server.forecasts.last_runs import last_runs
from jobsight_server.ground.amounts import DAY_S, many, percent
from jobsight_server.queries.accuracy import broken
from jobsight_server.queries.changed_use import changed_applications
from jobsight_server.queries.findings import (
    LISTED,
    WEEK_H,
    WORTH_HOURS,
    Finding,
    FindingEvidence,
    FindingsSite,
    Found,
    Kind,
    Row,
)
from jobsight_server.savings.confidence import over_users
from jobsight_server.savings.sums.kept import as_date
from jobsight_server.savings.sums.read import saved_amounts
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.schema import jobs
from jobsight_server.storage.schema.jobs import is_ended, took_s

_BUSY_AT_MOST = {"cpu": 0.25, "gpu_utilisation": 0.05}
_GPUS_OF_A_NODE = 4.0
_USERS_READ = 8
_NAMED = jobs.c["cluster", "user", "application", "failure"]
_RUNS, _LOST_S = func.count().label("runs"), func.sum(took_s * func.coalesce(jobs.c.processors, 1)).label("lost_s")
_KILLS = select(*_NAMED, _RUNS, _LOST_S).where(jobs.c.failure.is_not(None)).group_by(*_NAMED)
_KILLED_AS = {"time": "at the time limit", "memory": "out of memory"}


def user_findings(site: FindingsSite, settings: Settings) -> Found:
    """Yield what is found about users, and about the memory that a cluster's could free."""
    rows = site.sums("memory", columns=("requested", "request_held", "bound_held"))
    broke = list(_broken(site))
    yield from broke
    yield from _gains(site, settings, rows, {name for (noun, _, name), _ in broke if noun == "user"})
    yield from _killed(site)
    yield from _idle(site)
    yield from _changed(site, rows)


def _killed(site: FindingsSite) -> Found:
    """Yield users whose jobs ran out of memory or time, and what these had taken."""
    if site.days is None:
        return
    of_user: dict[tuple[str, str], list[Any]] = defaultdict(list)
    ends = (jobs.c.end >= site.days.first * DAY_S, jobs.c.end < (site.days.last + 1) * DAY_S)
    order = (_RUNS.desc(), jobs.c.application, jobs.c.failure)
    for row in site.connection.execute(_KILLS.where(*ends).order_by(*order)):
        of_user[row.cluster, row.user].append(row)
    for (cluster, user), rows in of_user.items():
        hours = sum(row.lost_s for row in rows) / 3600.0
        if (cost := hours / site.processors / site.weeks) < WORTH_HOURS:
            continue
        killed = {how: sum(row.runs for row in rows if row.failure == failure) for failure, how in _KILLED_AS.items()}
        most, application, number = sum(killed.values()), rows[0].application, rows[0].runs
        some = {words: f"{many:,}" if many < most else "all" for words, many in killed.items() if many}
        how = " and ".join(f"{many} {words}" if most > 1 else words for words, many in some.items())
        text = f"{many(most, 'job')} killed in {7.0 * site.weeks:.0f} days, {how}: {hours:,.0f} processor-hours lost"
        of = f" (most of {application}: {number:,})" if application and number < most else ""
        of = f" (all of {application})" if application and len(rows) == 1 else of
        action = f"Ask {user} to request what My jobs recommends, or to write checkpoints."
        to_user = f"{text[0].lower()}{text[1:]}{of}. What to request instead is on your page, My jobs."
        listed = site.jobs(cluster, user=user, outcome="killed")
        yield ("user", cluster, user), Finding("killed", f"{text}{of}.", action, cost, listed, to_user=to_user)


def _gains(site: FindingsSite, settings: Settings, rows: list[Row], unsure: Collection[str]) -> Found:
    """Yield for each cluster the users whose requests hold most memory that the recommended ones would not, but for
    those whose forecasts broke."""
    of_cluster: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for cluster, user, _, held, bound in rows:
        if held > bound and user not in unsure:
            of_cluster[cluster].append((bound - held, user))
    for cluster, users in of_cluster.items():
        first = [user for _, user in nsmallest(LISTED, users)]
        sums = site.memory_of(cluster, first)
        most = [(user, saved_amounts(sums[user], "memory")) for user in first]
        freed = over_users(of.freed_hours / site.weeks / site.gib for _, of in most)
        if freed.amount < WORTH_HOURS:
            continue
        between = "too few users for an interval"
        if freed.low is not None and freed.high is not None:
            between = f"{_nodes(freed.low)} to {_nodes(freed.high)} (90 %)"
        kills = sum(of.would_run_out for _, of in most) / site.weeks
        new = sum(max(0, of.would_run_out - of.needed_more) for _, of in most) / site.weeks
        text = (
            f"Lower memory for {many(len(most), 'user')} of {cluster}: {_nodes(freed.amount)} nodes, "
            f"{between}; {kills:.1f} jobs a week would run out, {new:.1f} of them new."
        )
        action = "Paste these lines into the settings file: jobsight adjust shows the changes, --apply makes them. "
        action += "They begin with a tenth of the users; the gain above is of all these users."
        lines = _adjust(site, settings, cluster, sorted(unsure))
        if cluster in {limits.cluster for limits in settings.adjust}:
            action, lines = f"jobsight adjust changes jobs of {cluster} already: raise its users_share.", None
        evidence = [
            FindingEvidence("user", cluster, user, f"{of.freed_hours / site.weeks:,.0f} GiB-hours a week to free")
            for user, of in most
        ]
        jobs = site.jobs(cluster, used_below="50")
        of_all = Finding("gain", text, action, freed.amount, jobs, evidence, settings=lines)
        yield ("cluster", cluster, cluster), of_all


def _adjust(site: FindingsSite, settings: Settings, cluster: str, keep: Sequence[str]) -> str | None:
    """Return the settings with which `jobsight adjust` lowers memory there, but not of the users to ``keep``; None if
    it has no commands of the scheduler."""
    scheduler = log_format(site.connection, settings.accounting, cluster)
    if scheduler not in (None, "slurm", "pbspro", "torque"):
        return None
    values = {"cluster": cluster, "scheduler": scheduler, "users_share": 0.1, "memory": True, "keep": keep}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items() if value not in (None, [])]
    return "\n".join(["[[adjust]]", *lines])


def _idle(site: FindingsSite) -> Found:
    """Yield users who keep few of their processors or GPUs busy, the dearest first."""
    for metric, at_most in _BUSY_AT_MOST.items():
        noun, of_node = ("processor", site.processors) if metric == "cpu" else ("GPU", _GPUS_OF_A_NODE)
        kind: Kind = "idle processors" if metric == "cpu" else "idle GPUs"
        what: Held = "processors" if metric == "cpu" else "gpus"
        idle = f"sum(used) <= {at_most} * sum(requested)"
        found = [
            (cost, cluster, user, requested, used)
            for cluster, user, requested, used in site.sums(metric, columns=("requested", "used"), having=idle)
            if (cost := (requested - used) / 3600.0 / site.weeks / of_node) >= WORTH_HOURS
        ]
        for number, (cost, cluster, user, requested, used) in enumerate(sorted(found, reverse=True)):
            busy = f"{percent(used / requested)} of {requested / 3600.0 / site.weeks:,.0f} {noun}-hours a week"
            most = _most_held(site, what, cluster, user) if number < LISTED else 0  # later ones are not shown
            action, to_user = to_ask(user, what, most), f"your jobs were busy for {busy}. {to_do(what, most)}"
            jobs = site.jobs(cluster, user=user, state="ended", profiled="yes")
            yield ("user", cluster, user), Finding(kind, f"Busy for {busy}.", action, cost, jobs, to_user=to_user)


def _most_held(site: FindingsSite, what: Held, cluster: str, user: str) -> int:
    """Return the most processors or GPUs that one of the user's jobs held in these days."""
    assert site.days is not None  # of a user with sums
    ends = (jobs.c.end >= site.days.first * DAY_S, jobs.c.end < (site.days.last + 1) * DAY_S)
    of_user = (is_ended, jobs.c.cluster == cluster, jobs.c.user == user)
    return site.connection.scalar(select(func.max(jobs.c[what])).where(*of_user, *ends)) or 0


def _changed(site: FindingsSite, rows: list[Row]) -> Found:
    """Yield applications, of the users that request most memory, whose jobs lately need something else."""
    for cluster, user, *_ in nlargest(_USERS_READ, rows, key=itemgetter(2)):
        for application, of in changed_applications(last_runs(site.connection, cluster, user), site.now).items():
            text = f"{application} {of.text}. {of.before_jobs} jobs before, {of.since_jobs} since."
            action = f"Ask {user} what changed. Recommendations already count the jobs since."
            cost, jobs = of.unused_gib_hours_a_week / site.gib, site.jobs(cluster, user=user, application=application)
            to_user = f"{text} Is that as you want it?"
            changed = Finding("changed", text, action, cost, jobs, histogram=of.histogram, to_user=to_user)
            yield ("user", cluster, user), changed


def _broken(site: FindingsSite) -> Found:
    """Yield users and clusters whose forecasts broke."""
    for noun in ("user", "cluster"):
        for group, fall in broken(site.connection, noun)[:LISTED]:
            assert fall is not None
            text = f"Forecasts of {METRICS[group.metric].name} are worse since {as_date(fall.day)}: accuracy "
            text += f"{fall.since:.2f}, before {fall.before:.2f}."
            action = "Do not lower these requests until the jobs since then are learned."
            jobs = {"cluster": group.cluster, noun: group.name, "state": "ended", "since": f"{as_date(fall.day)}"}
            yield (noun, group.cluster, group.name), Finding("broke", text, action, None, jobs)


def _nodes(hours: float) -> str:
    number = hours / WEEK_H
    return f"{number:.1f}" if number >= 1.0 else f"{number:.2g}"
