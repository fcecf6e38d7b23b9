"""Findings: what each costs in a week, the jobs behind it, and what to do; and the site on which they are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection

from jobsight_server.ground.answers import Record
from jobsight_server.queries.changed_use import Histogram
from jobsight_server.savings.by_week import mean_node
from jobsight_server.savings.sums.add import COLUMNS, JobSums
from jobsight_server.savings.sums.kept import GroupName, as_date, known_ids
from jobsight_server.savings.sums.read import Days, stored_days, sums_of_all, widened

LISTED = 10
"""Lines of evidence behind a finding."""
WORTH_HOURS = 1.0
"""Node-hours a week below which nothing is shown."""
WEEK_H = 7 * 24.0
_SPAN_DAYS = 28

Row = Sequence[Any]
"""Cluster, name and sums."""
Noun = Literal["user", "node", "cluster", "site"]
Subject = tuple[Noun, str, str]
"""What a finding is about, its cluster and its name."""
Kind = Literal["killed", "idle processors", "idle GPUs", "changed", "broke", "gain", "kills", "silent", "missing"]


class FindingEvidence(Record):
    """A line behind a finding, about the user or the node ``name`` on ``cluster``."""

    noun: Literal["user", "node"]
    cluster: str
    name: str
    text: str


class Finding(Record):
    """One finding, in a sentence, and one action. ``node_hours``: its cost in a week, null if unknown. ``jobs``:
    filters of the list of jobs behind it. ``to_user``: the same to the user; ``settings``: lines for the settings file.
    """

    kind: Kind
    text: str
    action: str
    node_hours: float | None
    jobs: dict[str, str] | None = None
    evidence: Sequence[FindingEvidence] = ()
    histogram: Histogram | None = None
    to_user: str | None = None
    settings: str | None = None


Found = Iterator[tuple[Subject, Finding]]


@dataclass(frozen=True, slots=True)
class FindingsSite:
    """The mean node, and the newest ``days`` with counted jobs, which are ``weeks``."""

    connection: Connection
    now: float
    processors: float
    gib: float
    assumed: bool
    days: Days | None
    weeks: float

    def sums(
        self, metric: str, level: str = "user", columns: Sequence[str] = COLUMNS, ids: Any = None, having: str = ""
    ) -> list[Row]:
        """Return cluster, name and sums of each user or cluster ``having`` these, or of those with ``ids``."""
        if self.days is None:
            return []
        return sums_of_all(self.connection, metric, self.days, level, columns=columns, ids=ids, having=having)

    def memory_of(self, cluster: str, users: Sequence[str]) -> dict[str, JobSums]:
        """Return the sums of these users' memory."""
        ids = known_ids(self.connection, [GroupName(cluster, user, "", "", "") for user in users]).values()
        return {user: JobSums._make(sums) for _, user, *sums in self.sums("memory", ids=ids)}

    def jobs(self, cluster: str, **filters: str) -> dict[str, str]:
        """Return the filters of a list of the cluster's jobs that ended in these days."""
        first, last = self.days or Days(0, 0)
        return {"cluster": cluster, **filters, "since": f"{as_date(first)}", "until": f"{as_date(last)}"}


def site_of(connection: Connection, now: float) -> FindingsSite:
    """Return the site as of the newest four weeks with counted jobs."""
    node = mean_node(connection)
    stored = stored_days(connection)
    if stored is None:
        return FindingsSite(connection, now, *node, None, 1.0)
    days = Days(max(stored.first, stored.last - _SPAN_DAYS + 1), stored.last)
    return FindingsSite(connection, now, *node, widened(days, stored), (days.last - days.first + 1) / 7.0)
