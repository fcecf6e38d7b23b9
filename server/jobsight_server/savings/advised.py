"""How many applications are advised to request less or more memory, and why the others keep their request."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection

from jobsight_server.ground.answers import Record
from jobsight_server.savings.kept_sums import OTHER, month_of
from jobsight_server.savings.savings import Asking, stored_days
from jobsight_server.storage.engine import fetch

APPLICATIONS = 10  # each costs some milliseconds of CPU time
"""Applications of users to look at, those that requested most in the newest month."""

_QUERY = (
    'SELECT g.cluster, g."user", g.application FROM savings s JOIN savings_groups g ON g.id = s.group_id '
    "WHERE s.metric = 'memory' AND s.level = 'group' AND s.period = 'month' AND s.first_day = ? AND s.jobs > 0 "
    'AND g.application <> ?{of_cluster} GROUP BY g.cluster, g."user", g.application '
    "ORDER BY sum(s.requested) DESC LIMIT ?"
)


class KeptRequests(Record):
    """Applications that keep their request for this ``reason``, as in the advice."""

    reason: str
    applications: int


class AdvisedRequests(Record):
    """Of ``applications``, those of users that requested most memory in the newest month, how many should request less
    or more, and how many keep their request, by reason."""

    applications: int
    less: int
    more: int
    kept: list[KeptRequests]


def advised_requests(connection: Connection, asking: Asking, cluster: str | None = None) -> AdvisedRequests:
    """Return the counts for the next job of each application, like its last one."""
    stored = stored_days(connection)
    last = 0 if stored is None else month_of(stored.last)
    less = more = 0
    kept: Counter[str] = Counter()
    query = _QUERY.format(of_cluster="" if cluster is None else " AND g.cluster = ?")
    asked = (last, OTHER, *([] if cluster is None else [cluster]), APPLICATIONS)
    for place, user, application in fetch(connection, query, asked):
        found = asking.of(place, user, application)
        if found is None:
            kept["not measured"] += 1
            continue
        like, advice = found
        decision = advice.decisions["memory"]
        if decision.kept is not None:
            kept[decision.kept] += 1
        elif (decision.amount or 0.0) < (like.requested_memory_bytes or 0.0):
            less += 1
        else:
            more += 1
    return AdvisedRequests(
        less + more + kept.total(), less, more, [KeptRequests(reason, count) for reason, count in kept.most_common()]
    )
