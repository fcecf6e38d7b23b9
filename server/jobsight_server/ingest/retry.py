"""Processes quarantined batches again after each start.

The writer does it, with the same checks and the same store as for an arriving batch: one stored in the meantime
counts once, and after a crash it is simply retried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from sqlalchemy import Engine, delete, select, update
from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.ground.outage import CONTENT_ERRORS, outage
from jobsight_server.ingest.store import SampleStore, storable
from jobsight_server.ingest.wire import RefusedBatchError, Submission
from jobsight_server.storage.schema import quarantine

# Checks a body; raises ``RefusedBatchError``.
Judge = Callable[[bytes], Submission]


def retry_next(engine: Engine, store: SampleStore, judge: Judge, collected: Collection[str] | None = None) -> bool:
    """Retry the oldest marked batch; return whether there was one.

    ``collected``: the clusters whose batches are stored here; None is all.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database failed; the batch stays marked.
    """
    query = select(quarantine.c.id, quarantine.c.body).where(quarantine.c.retry.is_(True))
    if collected is not None:
        query = query.where(quarantine.c.cluster.in_(collected) | quarantine.c.cluster.is_(None))
    with engine.connect().execution_options(reading=True) as connection:
        row = connection.execute(query.order_by(quarantine.c.id).limit(1)).first()
    if row is None:
        return False
    here = (quarantine.c.id == row.id) & quarantine.c.retry.is_(True)
    status, reason = "refused", "the same sequence number was already used with other content"
    try:
        submission = judge(row.body)
        if collected is not None and submission.batch.cluster not in collected:
            with engine.begin() as connection:  # its own writer finds it by its cluster
                connection.execute(update(quarantine).where(here).values(cluster=submission.batch.cluster))
            return True
        status = store.apply([submission])[0].status
    except RefusedBatchError as error:
        reason = str(error)
    except (*CONTENT_ERRORS, SQLAlchemyError) as error:
        if outage(error) is not None:
            raise
        reason = "a value in it cannot be stored"
    counts: Counter[tuple[str, str]] = Counter({("quarantine_retried", status): 1})
    if status == "conflict":
        counts["quarantined_because", "conflict"] += 1  # the store counted it as received once more
    with engine.begin() as connection:
        if status in {"stored", "duplicate"}:
            done = connection.execute(delete(quarantine).where(here))
        else:
            done = connection.execute(update(quarantine).where(here).values(retry=False, reason=storable(reason)))
        if done.rowcount:  # else another writer judged a body without a cluster at the same time
            add_event_counts(connection, counts)
    return True
