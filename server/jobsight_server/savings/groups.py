"""Who ran what: the groups of jobs whose totals are kept."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import Connection

from jobsight_server.storage.fetch import fetch_by_keys, write_many

OTHER = "(other applications)"
"""Stands for further applications of a user with very many, such as one who names each job by the time of day."""
GROUPS_OF_A_USER = 100

_LONGEST = 100  # PostgreSQL does not accept index entries above 2,704 bytes

_FIND = (
    'WITH asked(cluster, "user", application, queue) AS (VALUES {asked}) '
    'SELECT g.cluster, g."user", g.application, g.queue, g.id FROM asked CROSS JOIN savings_groups g '
    'WHERE g.cluster = asked.cluster AND g."user" = asked."user" '
    "AND g.application = asked.application AND g.queue = asked.queue"
)
_COUNT = (
    'WITH asked(cluster, "user") AS (VALUES {asked}) '
    'SELECT g.cluster, g."user", count(*) FROM asked CROSS JOIN savings_groups g '
    'WHERE g.cluster = asked.cluster AND g."user" = asked."user" GROUP BY g.cluster, g."user"'
)
_ADD = 'INSERT INTO savings_groups (cluster, "user", application, queue) VALUES (?, ?, ?, ?)'


class GroupName(NamedTuple):
    """Empty texts if the log does not say; without a user, all jobs of the cluster together."""

    cluster: str
    user: str
    application: str
    queue: str


def group_name(cluster: str, user: str, application: str | None, queue: str | None) -> GroupName:
    """The name under which such jobs are counted; very long ones are cut."""
    return GroupName(cluster, user, _short(application or ""), _short(queue or ""))


def whole_cluster(name: GroupName) -> GroupName:
    """All jobs of its cluster together."""
    return GroupName(name.cluster, "", "", "")


def group_ids(connection: Connection, names: Collection[GroupName]) -> dict[GroupName, int]:
    """The id of each group, created if it is new.

    A user has at most ``GROUPS_OF_A_USER``; what comes after these is counted together, by queue.
    """
    found = _find(connection, names)
    missing = [name for name in dict.fromkeys(names) if name not in found]
    if not missing:
        return found
    users = list(dict.fromkeys(name[:2] for name in missing))
    known: Counter[tuple[str, str]] = Counter({(c, u): n for c, u, n in fetch_by_keys(connection, _COUNT, users)})
    instead = {}
    for name in missing:
        full = known[name[:2]] >= GROUPS_OF_A_USER
        instead[name] = name._replace(application=OTHER) if full else name
        known[name[:2]] += 1
    there = _find(connection, set(instead.values()))
    write_many(connection, _ADD, [name for name in dict.fromkeys(instead.values()) if name not in there])
    made = _find(connection, set(instead.values()))
    return found | {name: made[other] for name, other in instead.items()}


def _find(connection: Connection, names: Iterable[GroupName]) -> dict[GroupName, int]:
    rows = fetch_by_keys(connection, _FIND, list(dict.fromkeys(names)))
    return {GroupName(*name): group_id for *name, group_id in rows}


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:60]}#{hashlib.sha256(name.encode()).hexdigest()[:32]}"
