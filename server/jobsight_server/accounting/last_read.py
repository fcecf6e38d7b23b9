"""The last read of each log, so that a server reports one that it has stopped reading, and which runs are running."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, or_, select

from jobsight_server.accounting.runs import RUNNING
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import jobs, log_reads

_NOTED_EVERY_S = 15.0
_UNREAD_AFTER_S = 60.0
_FOLLOWED_WITHIN_S = _LONG_S = 86_400.0


class LastRead:
    """Notes a few times a minute that ``source`` was read."""

    def __init__(self, engine: Engine, source: AccountingSource, clock: Callable[[], float]) -> None:
        self._engine, self._clock = engine, clock
        self._key = {"cluster": source.cluster, "source": source.name}
        self._noted = float("-inf")

    def note(self) -> None:
        """Note it now, unless it was noted within the last seconds."""
        now = self._clock()
        if 0.0 <= now - self._noted < _NOTED_EVERY_S:
            return
        with self._engine.begin() as connection:
            connection.execute(delete(log_reads).filter_by(**self._key))
            connection.execute(insert(log_reads).values(self._key | {"at": now}))
        self._noted = now


def is_unread(connection: Connection, sources: Sequence[AccountingSource], interval_s: float, now: float) -> bool:
    """Return whether nothing of a log was read, nor its end found, for a minute and three intervals.

    Slurm's commands are excluded: their failures are counted, and end by themselves.
    """
    at = {(cluster, source): at for cluster, source, at in connection.execute(select(log_reads))}
    since = now - _UNREAD_AFTER_S - 3 * interval_s
    return any(at.get((each.cluster, each.name), 0.0) < since for each in sources if not each.sacct)


def is_running(now: float) -> ColumnElement[bool]:
    """Select the running runs of ``jobs``: by a log that was read within a day, and not long beyond their limit.

    The end of any other was never logged, as of the last runs of an old import.
    """
    followed = select(log_reads.c.cluster).where(log_reads.c.at >= now - _FOLLOWED_WITHIN_S)
    return and_(jobs.c.state == RUNNING, jobs.c.cluster.in_(followed), within_limit(now))


def within_limit(now: float) -> ColumnElement[bool]:
    """Select the runs that are not long beyond their limit: by the limit once more and a day, as some schedulers do not
    enforce it."""
    limit_s = jobs.c.requested_walltime_s
    latest = jobs.c.start + func.coalesce(jobs.c.suspended_s, 0.0) + 2.0 * limit_s + _LONG_S
    return or_(limit_s.is_(None), latest >= now)
