"""Filters of the list of jobs, beside cluster, user and state."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, or_, select

from jobsight_server.forecasts.request import ASKED_MEMORY, ASKED_PROCESSORS
from jobsight_server.storage.schema import job_nodes, jobs, profiles


@dataclass(frozen=True, slots=True)
class JobFilters:
    """None does not filter. ``node`` is as the log writes it; ``application`` is the job's name, or its application.

    Runs that ended from ``since`` on and before ``until``, UTC epoch seconds, and that ran for more than
    ``longer_than_s``, suspensions not counted: a run that has not ended is in no span and of no duration.
    ``used_below``: runs whose measured peak of memory is less than this share of their user's request.
    ``profiled``: whether their use is known, or was looked for.
    """

    queue: str | None = None
    account: str | None = None
    application: str | None = None
    exit_status: int | None = None
    node: str | None = None
    since: float | None = None
    until: float | None = None
    longer_than_s: float | None = None
    used_below: float | None = None
    profiled: bool | None = None

    @property
    def has_index(self) -> bool:
        """Return whether an index finds the runs, or a superset of them."""
        return self.node is not None or self.is_span or self.profiled is False

    @property
    def is_span(self) -> bool:
        """Return whether the filter keeps only runs that ended within a span of time."""
        return self.since is not None or self.until is not None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions, all of which must hold."""
        compared = (
            (jobs.c.queue, self.queue),
            (jobs.c.account, self.account),
            (jobs.c.exit_status, self.exit_status),
            (jobs.c.profiled, self.profiled),
        )
        found = [column == value for column, value in compared if value is not None]
        if self.application is not None:
            found.append(or_(jobs.c.name == self.application, jobs.c.application == self.application))
        if self.since is not None:
            found.append(jobs.c.end >= self.since)
        if self.until is not None:
            found.append(jobs.c.end < self.until)
        if self.longer_than_s is not None:
            found.append(jobs.c.end - jobs.c.start - func.coalesce(jobs.c.suspended_s, 0) > self.longer_than_s)
        if self.used_below is not None:
            # Per run by its key, as the other filters have left few of them.
            used = select(profiles.c.value).where(
                profiles.c.run_id == jobs.c.id, profiles.c.metric == "memory", profiles.c.lower_bound.is_(False)
            )
            found.append(used.scalar_subquery() * ASKED_PROCESSORS < self.used_below * ASKED_MEMORY)
        if self.node is not None:
            found.append(jobs.c.id.in_(select(job_nodes.c.run_id).where(job_nodes.c.node == self.node)))
        return found


NO_FILTERS = JobFilters()
