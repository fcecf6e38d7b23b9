"""Groups of jobs by who ran what, and the levels at which their totals are kept."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, select

from jobsight_server.storage.engine import fetch_by_keys, write_many
from jobsight_server.storage.schema import forecast_scores, savings, savings_groups

OTHER = "(other applications)"
"""Stands for further applications of a user with very many, such as one who names each job by the time of day."""
GROUPS_OF_A_USER = 100

_LONGEST = 100  # PostgreSQL does not accept index entries above 2,704 bytes

_FIND = (
    'WITH asked(cluster, "user", application, queue, account) AS (VALUES {asked}) '
    'SELECT g.cluster, g."user", g.application, g.queue, g.account, g.id FROM asked CROSS JOIN savings_groups g '
    'WHERE g.cluster = asked.cluster AND g."user" = asked."user" '
    "AND g.application = asked.application AND g.queue = asked.queue AND g.account = asked.account"
)
_COUNT = (
    'WITH asked(cluster, "user") AS (VALUES {asked}) '
    'SELECT g.cluster, g."user", count(*) FROM asked CROSS JOIN savings_groups g '
    'WHERE g.cluster = asked.cluster AND g."user" = asked."user" GROUP BY g.cluster, g."user"'
)
_ADD_GROUP = 'INSERT INTO savings_groups (cluster, "user", application, queue, account) VALUES (?, ?, ?, ?, ?)'


class GroupName(NamedTuple):
    """Empty texts where the log does not say, and where a level leaves it out."""

    cluster: str
    user: str
    application: str
    queue: str
    account: str


def group_name(cluster: str, user: str, application: str | None, queue: str | None, account: str | None) -> GroupName:
    """The name under which such jobs are counted; very long ones are cut."""
    return GroupName(cluster, user, _short(application or ""), _short(queue or ""), _short(account or ""))


def levels_of(name: GroupName) -> dict[str, GroupName]:
    """The names under which a group's jobs are counted at each level."""
    cluster, user, application, queue, account = name
    return {
        "group": name,
        "user": GroupName(cluster, user, "", "", ""),
        "application": GroupName(cluster, "", application, "", ""),
        "queue": GroupName(cluster, "", "", queue, ""),
        "account": GroupName(cluster, "", "", "", account),
        "cluster": GroupName(cluster, "", "", "", ""),
    }


LEVELS = tuple(levels_of(GroupName("", "", "", "", "")))


def counted_as(connection: Connection, names: Sequence[GroupName]) -> dict[GroupName, GroupName]:
    """The group that each counts in: itself, or ``OTHER`` for those after a user's ``GROUPS_OF_A_USER``, by queue."""
    known = _find(connection, names)
    users = list(dict.fromkeys(name[:2] for name in names if name not in known))
    count: Counter[tuple[str, str]] = Counter({(c, u): n for c, u, n in fetch_by_keys(connection, _COUNT, users)})
    found = {name: name for name in known}
    for name in names:
        if name not in found:
            found[name] = name if count[name[:2]] < GROUPS_OF_A_USER else name._replace(application=OTHER)
            count[name[:2]] += 1
    return found


def group_ids(connection: Connection, names: Iterable[GroupName]) -> dict[GroupName, int]:
    """The id of each group, created if it is new."""
    wanted = list(dict.fromkeys(names))
    known = _find(connection, wanted)
    write_many(connection, _ADD_GROUP, [name for name in wanted if name not in known])
    return _find(connection, wanted)


def _find(connection: Connection, names: Iterable[GroupName]) -> dict[GroupName, int]:
    rows = fetch_by_keys(connection, _FIND, list(dict.fromkeys(names)))
    return {GroupName(*name): group_id for *name, group_id in rows}


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:60]}#{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def forget_empty_groups(connection: Connection) -> None:
    """Removes the groups without any counted job."""
    counted = select(savings.c.group_id).where(savings.c.level.in_(LEVELS), savings.c.period == "month")
    scored = select(forecast_scores.c.group_id).where(
        forecast_scores.c.level.in_(LEVELS), forecast_scores.c.period == "week"
    )
    unused = and_(savings_groups.c.id.not_in(counted), savings_groups.c.id.not_in(scored))
    connection.execute(delete(savings_groups).where(unused))
