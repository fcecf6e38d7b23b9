"""Stores matches with what they hold, each only if it still fits what is committed by then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection

from jobsight_scheduler.matching.answer import Match
from jobsight_scheduler.matching.policies import verdict
from jobsight_scheduler.matching.problem import Capacity, MatchJob, Problem, Resource
from jobsight_server.matching.catalogue import Catalogue
from jobsight_server.matching.stored_resource import StoredResource
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.fetch import write_many

MADE = "matches_made"
CONFLICTS = "match_conflicts"

TOLERANCE = 1e-9
"""Of a total: how much the sum of amounts may be above it by rounding."""

_HOLD = "INSERT INTO holds (match_id, dependency, resource_id, resource, amounts) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a batch was matched from: the definitions' state, and each resource as it was stored."""

    definitions: int
    resources: Mapping[str, StoredResource]

    @classmethod
    def of(cls, catalogue: Catalogue, problem: Problem) -> Seen:
        stored, id_of = catalogue.resources, catalogue.id_of
        return cls(catalogue.definitions, {r.name: stored[id_of[r.name]] for r in problem.resources})


def still_fitting(
    catalogue: Catalogue, problem: Problem, found: Sequence[Match], seen: Seen, now: float
) -> list[Match]:
    """The matches that fit the catalogue as it is now, the first ones first.

    One on a resource that was changed since it was seen, or under other definitions, has to be made again.
    """
    if catalogue.definitions != seen.definitions:
        return []
    jobs = {job.name: job for job in problem.jobs}
    taken: dict[tuple[str, str], float] = {}
    running: dict[str, int] = {}
    fitting = []
    for match in found:
        wanted = _wanted(jobs[match.job], match)
        names = {name for name, _ in wanted}
        if not all(_is_as_seen(catalogue, seen, name) for name in names):
            continue
        there = {name: catalogue.resource(catalogue.id_of[name], now) for name in names}
        if not all(
            _fits(there[name].capacities.get(capacity), taken.get((name, capacity), 0.0), amount)
            for (name, capacity), amount in wanted.items()
            if capacity
        ):
            continue
        if not all(_allowed(jobs[match.job], there[name], running.get(name, 0), problem.hour) for name in names):
            continue
        for key, amount in wanted.items():
            taken[key] = taken.get(key, 0.0) + amount
        for name in names:
            running[name] = running.get(name, 0) + 1
        fitting.append(match)
    return fitting


def add_holds(
    connection: Connection, catalogue: Catalogue, problem: Problem, found: Sequence[tuple[int, Match]]
) -> None:
    """Stores what these matches hold, within the caller's change."""
    jobs = {job.name: job for job in problem.jobs}
    rows: list[tuple[int, str, int, str, str]] = []
    for number, match in found:
        for dependency in jobs[match.job].dependencies:
            amounts = msgspec.json.encode(dict(dependency.amounts)).decode()
            names = match.resources[dependency.name]
            rows += [(number, dependency.name, catalogue.id_of[name], name, amounts) for name in names]
    write_many(connection, _HOLD, rows)
    add_event_counts(connection, {(MADE, ""): len(found)})


def until_of(job: MatchJob, hold_s: float, longest_s: float, now: float) -> float:
    """When the hold ends by itself: after the job's duration, else after ``hold_s``."""
    return now + min(hold_s if job.duration_s is None else job.duration_s, longest_s)


def _wanted(job: MatchJob, match: Match) -> dict[tuple[str, str], float]:
    """Amounts by (resource, capacity); a resource of which nothing is taken has the capacity ''."""
    wanted: dict[tuple[str, str], float] = {}
    for dependency in job.dependencies:
        for name in match.resources[dependency.name]:
            wanted.setdefault((name, ""), 0.0)
            for capacity, amount in dependency.amounts.items():
                wanted[name, capacity] = wanted.get((name, capacity), 0.0) + amount
    return wanted


def _is_as_seen(catalogue: Catalogue, seen: Seen, name: str) -> bool:
    number = catalogue.id_of.get(name)
    return number is not None and catalogue.resources[number] is seen.resources.get(name)


def _fits(capacity: Capacity | None, taken: float, amount: float) -> bool:
    if capacity is None:
        return amount == 0.0
    return amount == 0.0 or capacity.used + taken + amount <= capacity.total * (1.0 + TOLERANCE)


def _allowed(job: MatchJob, resource: Resource, more: int, hour: float | None) -> bool:
    if not resource.policies:
        return True
    shares = [capacity.used / capacity.total for capacity in resource.capacities.values() if capacity.total > 0.0]
    return verdict(
        resource.policies, job.job_class, hour, resource.matches_running + more, max(shares, default=0.0)
    ).allowed


def match_row(job: MatchJob, document: str) -> dict[str, Any]:
    """The columns of a match that are the job's own."""
    return {
        "name": job.name,
        "user": job.user,
        "class": job.job_class or None,
        "priority": job.priority,
        "job": document,
    }
