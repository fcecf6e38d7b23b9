"""Who ran what: the groups of jobs whose totals are kept."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf, nextafter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jobsight_predictor.profile.steps import held
from jobsight_server.storage.engine import fetch_by_keys, write_many

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
    """Empty texts where the log does not say, and where a level leaves it out."""

    cluster: str
    user: str
    application: str
    queue: str


def group_name(cluster: str, user: str, application: str | None, queue: str | None) -> GroupName:
    """The name under which such jobs are counted; very long ones are cut."""
    return GroupName(cluster, user, _short(application or ""), _short(queue or ""))


def levels_of(name: GroupName) -> dict[str, GroupName]:
    """The names under which a group's jobs are counted at each level."""
    cluster, user, application, queue = name
    return {
        "group": name,
        "user": GroupName(cluster, user, "", ""),
        "application": GroupName(cluster, "", application, ""),
        "queue": GroupName(cluster, "", "", queue),
        "cluster": GroupName(cluster, "", "", ""),
    }


LEVELS = tuple(levels_of(GroupName("", "", "", "")))


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
    write_many(connection, _ADD, [name for name in wanted if name not in known])
    return _find(connection, wanted)


def _find(connection: Connection, names: Iterable[GroupName]) -> dict[GroupName, int]:
    rows = fetch_by_keys(connection, _FIND, list(dict.fromkeys(names)))
    return {GroupName(*name): group_id for *name, group_id in rows}


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:60]}#{hashlib.sha256(name.encode()).hexdigest()[:32]}"


METRICS = ("memory", "runtime")
"""Memory counts in byte seconds, run time in processor seconds."""

AMOUNTS = ("weight", "requested", "used", "reserved", "request_held", "bound_held")
COLUMNS = (
    "jobs",
    *AMOUNTS,
    "request_failures",
    "bound_failures",
    "without_request",
    "without_use",
    "without_bound",
)
"""Columns of the table that are added up.

``jobs`` have a request, a measured use and a bound that was given at submission; the amounts are theirs. ``weight`` is
what a value is multiplied by: processors asked for x run time of memory per processor, processors held of a run time.
``request_held`` is what ran, as it ran; ``bound_held`` has all attempts of the jobs that would have run out, the
``bound_failures``. The others are left out.
"""

# Sums of whole units are exact, in whatever order jobs are counted and taken back.
_UNITS = {"memory": 2.0**20, "runtime": 1.0}


def amounts_of(job: Any, metric: str, value: float | None, attempts: Sequence[float]) -> tuple[float, ...]:
    """The columns of one job, a row of ``jobs`` with ``lower_bound``; ``value`` is None if not measured or only shown.

    ``attempts``: the bound at its submission and what to reserve after it, as far as that is known; empty without one.

    A job that ran out of its request needed more, however little was measured.
    """
    if metric == "memory":  # is measured per processor asked for; others may be held too
        processors, request = job.asked_processors or 0, job.asked_memory_bytes
        weight = processors * (job.end - job.start)
        request = request / processors if request and processors else None
    else:
        processors, request = job.processors or 0, job.asked_walltime_s
        weight = float(processors)
    if value is None or not processors:
        return _left_out("without_use")
    if not request or request <= 0:
        return _left_out("without_request")
    if not attempts:
        return _left_out("without_bound")
    bound = attempts[0]
    if job.ran_out:
        value = max(value, nextafter(request, inf))
    unit = _UNITS[metric]
    per_unit = (request, value, bound, request, held(attempts, value, request))
    amounts = [round(weight), *(round(amount * weight / unit) * unit for amount in per_unit)]
    return (1, *amounts, int(value > request), int(value > bound), 0, 0, 0)


def _left_out(reason: str) -> tuple[float, ...]:
    return tuple(int(name == reason) for name in COLUMNS)
