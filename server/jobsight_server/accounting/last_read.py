"""The last read of each log, so that a server reports a log that it has stopped reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, delete, insert, select

from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import log_reads

_NOTED_EVERY_S = 15.0
_UNREAD_AFTER_S = 60.0


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
