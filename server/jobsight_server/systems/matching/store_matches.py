"""Stores matches with their holds, each only if it still fits the committed state, and ends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Engine, bindparam, delete, select, true, update

from jobsight_scheduler.matching.check import Match, faults
from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.problem import MatchJob, Problem
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import insert_into, insertion, pieces, write_many
from jobsight_server.systems.matching.catalogue import Catalogue, StoredResource
from jobsight_server.systems.matching.resource_state import ResourceError
from jobsight_server.systems.matching.tables import holds, matches, matching_state

MADE = "matches_made"
CONFLICTS = "match_conflicts"
LONGEST_HOLD_S = 366 * 86400.0
NO_MATCH = "no match {}; the oldest that ended are deleted"


@dataclass(frozen=True, slots=True)
class Seen:
    """The state that a batch was matched from: version of the definitions, and each resource as stored."""

    definitions: int
    resources: Mapping[str, StoredResource]

    @classmethod
    def of(cls, catalogue: Catalogue, problem: Problem) -> Seen:
        stored, id_of = catalogue.resources, catalogue.id_of
        return cls(catalogue.definitions, {r.name: stored[id_of[r.name]] for r in problem.resources})


def begin_storing(
    connection: Connection, catalogue: Catalogue, problem: Problem, found: Sequence[Match], seen: Seen
) -> tuple[StateChange, list[Match]]:
    """Start a change, with a number for each match; return those of ``found`` that fit the committed state.

    A match on a resource that changed since, or under other definitions, has to be made again.
    """
    change = begin_change(connection, len(found))
    if change.version - 1 == catalogue.version:
        return change, list(found)
    catalogue.refresh(connection, change.version - 1)
    numbers = {name: catalogue.id_of.get(name, 0) for name in seen.resources}
    same = {n for n, stored in seen.resources.items() if catalogue.resources.get(numbers[n]) is stored}
    if catalogue.definitions != seen.definitions:
        same = set()
    now = tuple(catalogue.resource(number, problem.now_s) for name, number in numbers.items() if name in same)
    present = replace(problem, resources=now)
    kept = [one for one in found if same.issuperset(name for names in one.resources.values() for name in names)]
    wrong = faults(Eligibility(present), kept)
    fitting = [one for one in kept if one.job not in wrong]
    add_event_counts(connection, {(CONFLICTS, ""): len(found) - len(fitting)})
    return change, fitting


def add_holds(
    connection: Connection, catalogue: Catalogue, problem: Problem, found: Sequence[tuple[int, Match]]
) -> None:
    """Store the holds of these matches, within the caller's change."""
    jobs = {job.name: job for job in problem.jobs}
    rows: list[tuple[int, str, int, str, str]] = []
    for number, match in found:
        for dependency in jobs[match.job].dependencies:
            amounts = msgspec.json.encode(dependency.amounts).decode()
            names = match.resources[dependency.name]
            rows += [(number, dependency.name, catalogue.id_of[name], name, amounts) for name in names]
    write_many(connection, insertion(holds), rows)
    add_event_counts(connection, {(MADE, ""): len(found)})


def until_of(job: MatchJob, hold_s: float, now: float) -> float:
    """Return the end of the hold: after the job's duration, else after ``hold_s``."""
    return now + min(hold_s if job.duration_s is None else job.duration_s, LONGEST_HOLD_S)


def match_row(job: MatchJob, document: str, change: StateChange, number: int) -> dict[str, Any]:
    """Return the columns of a new match that come from its job."""
    return {
        "id": number,
        "name": job.name,
        "user": job.user,
        "class": job.job_class or None,
        "priority": job.priority,
        "job": document,
        "rounds": 0,
        "version": change.version,
    }


# PostgreSQL keeps the row locked until the commit; SQLite has one writer anyway.
_STATE = matching_state.c
_RAISED = {"version": _STATE.version + 1, "next_match": _STATE.next_match + bindparam("reserved")}
_BEGIN = update(matching_state).values(_RAISED).returning(_STATE.version, _STATE.next_match)
_FIRST = {"id": 1, "version": 0, "removal_version": 0, "definition_version": 0, "next_match": 1}


@dataclass(frozen=True, slots=True)
class StateChange:
    """``version`` marks the rows that change; new matches are numbered from ``first_match``."""

    version: int
    first_match: int


def begin_change(connection: Connection, matches: int = 0) -> StateChange:
    """Start a change within the caller's transaction, for which all others wait; reserve ``matches`` numbers."""
    found = connection.execute(_BEGIN, {"reserved": matches}).one_or_none()
    if found is None:
        connection.execute(insert_into(connection, matching_state).on_conflict_do_nothing(), _FIRST)
        return begin_change(connection, matches)
    return StateChange(found.version, found.next_match - matches)


def mark_removal(connection: Connection) -> None:
    """Make every process read all resources again: a deleted row has no version."""
    connection.execute(update(matching_state).values(removal_version=_STATE.version))


def mark_definitions(connection: Connection) -> None:
    """Make every process read policies and objectives again."""
    connection.execute(update(matching_state).values(definition_version=_STATE.version))


ENDED = "matches_ended"
"""Counted by how: released, expired, lost, cancelled."""

OPEN = ("queued", "held")


def release(engine: Engine, numbers: Sequence[int], now: float) -> list[int]:
    """End these matches, and cancel those that are queued; return the numbers of those that were open."""
    ended = []
    with engine.begin() as connection:
        change = begin_change(connection)
        for part in pieces(numbers):
            some = matches.c.id.in_(part)
            _expire(connection, some, now, change.version)
            for before, after in (("held", "released"), ("queued", "cancelled")):
                ended += _end(connection, some & (matches.c.state == before), after, None, now, change.version)
    return sorted(ended)


def renew(engine: Engine, number: int, until: float, now: float) -> None:
    """Extend a match until ``until``.

    Raises:
        ResourceError: there is no such match, or it has ended.
    """
    with engine.begin() as connection:
        change = begin_change(connection)
        held = (matches.c.id == number) & (matches.c.state == "held") & (matches.c.until > now)
        if connection.execute(update(matches).where(held).values(until=until, version=change.version)).rowcount:
            return
        state = connection.scalar(select(matches.c.state).where(matches.c.id == number))
    if state is None:
        raise ResourceError(NO_MATCH.format(number), 404)
    raise ResourceError(f"match {number} is {'expired' if state == 'held' else state} and holds nothing to renew", 409)


def lose_matches(connection: Connection, resource_id: int, name: str, now: float, version: int) -> int:
    """End every match that holds part of a removed resource, within the caller's change."""
    on_it = matches.c.id.in_(select(holds.c.match_id).where(holds.c.resource_id == resource_id))
    _expire(connection, on_it, now, version)
    reason = f"resource {name} was removed"
    return len(_end(connection, on_it & (matches.c.state == "held"), "lost", reason, now, version))


def expire_matches(connection: Connection, now: float, version: int) -> int:
    """Mark the holds that are over, within the caller's change."""
    return len(_expire(connection, true(), now, version))


def some_expired(connection: Connection, now: float) -> bool:
    """Return whether a hold is over and not marked yet."""
    query = select(matches.c.id).where(matches.c.state == "held", matches.c.until <= now).limit(1)
    return connection.execute(query).first() is not None


def delete_ended(engine: Engine, kept: int) -> int:
    """Delete and count the oldest ended matches beyond ``kept``."""
    with engine.begin() as connection:
        begin_change(connection)
        ended = matches.c.state.not_in(OPEN)
        query = select(matches.c.id).where(ended).order_by(matches.c.id.desc()).limit(1).offset(kept)
        last = connection.scalar(query)
        if last is None:
            return 0
        old = ended & (matches.c.id <= last)
        connection.execute(delete(holds).where(holds.c.match_id.in_(select(matches.c.id).where(old))))
        count = connection.execute(delete(matches).where(old)).rowcount
        mark_removal(connection)
        add_event_counts(connection, {("matches_deleted", "more than are kept"): count})
        return count


def _expire(connection: Connection, which: ColumnElement[bool], now: float, version: int) -> list[int]:
    is_over = (matches.c.state == "held") & (matches.c.until <= now)
    return _end(connection, which & is_over, "expired", "its hold ended", now, version)


def _end(
    connection: Connection, which: ColumnElement[bool], state: str, reason: str | None, now: float, version: int
) -> list[int]:
    values = {"state": state, "ended_at": now, "version": version, "reason": reason, "tier": None}
    found = connection.execute(update(matches).where(which).values(values).returning(matches.c.id))
    ended = [number for (number,) in found]
    add_event_counts(connection, {(ENDED, state): len(ended)})
    return ended
