"""Reads the state for one dependency, as the published service does for each: for comparison with the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from jobsight_scheduler.matching.problem import Resource
from jobsight_server.matching.policy import StoredPolicy, policies_for
from jobsight_server.matching.stored_resource import (
    HeldPart,
    StoredResource,
    amounts_of,
    attributes_of,
    capacities_of,
    present,
)
from jobsight_server.storage.fetch import fetch

_RESOURCES = (
    "SELECT id, name, type, attributes, capacities, cost, is_static, state_at, owner_present, source "
    "FROM resources WHERE type = ? ORDER BY id"
)
_HELD = (
    'SELECT h.resource_id, m.id, m.name, m."user", m.matched_at, m.until, h.amounts '
    "FROM resources r JOIN holds h ON h.resource_id = r.id JOIN matches m ON m.id = h.match_id "
    "WHERE r.type = ? AND m.state = 'held' AND m.until > ?"
)


def resources_by_dependency(
    connection: Connection, kind: str, policies: Sequence[StoredPolicy], now: float, expiry_s: float
) -> tuple[list[Resource], int]:
    """The resources of one type at ``now``, and how many statements that took."""
    parts: dict[int, list[HeldPart]] = {}
    for number, match_id, job, user, since, until, amounts in fetch(connection, _HELD, (kind, now)):
        parts.setdefault(number, []).append(HeldPart(match_id, job, user, since, until, amounts_of(amounts)))
    found = []
    for number, name, of, attributes, capacities, cost, static, at, owner, source in fetch(
        connection, _RESOURCES, (kind,)
    ):
        stored = StoredResource(
            number,
            name,
            of,
            attributes_of(attributes),
            capacities_of(capacities),
            cost,
            bool(static),
            at,
            None if owner is None else bool(owner),
            source,
        )
        if not stored.is_stale(now, expiry_s):
            found.append(present(stored, parts.get(number, ()), policies_for(stored, policies)))
    return found, 2
