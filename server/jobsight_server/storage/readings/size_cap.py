"""A limit of the database's size that ends retention early: the oldest readings go first."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

from sqlalchemy import Engine, Select, func, or_, select

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import used_bytes
from jobsight_server.storage.schema import jobs, readings
from jobsight_server.storage.upkeep import delete_readings

log = logging.getLogger(__name__)

DELETED = "samples_deleted_for_space"
SHORTENED = "jobs_shortened_for_space"
"""Counted: samples, and jobs without a profile that lost readings with them."""

READINGS = ("readings", "job_samples", "gpu_samples", "marks")
_KEPT_S = 86400.0  # whatever the limit: jobs end and are profiled within this time, and batches are resent
_SMALLEST_STEP = 0.01  # of the time that readings cover
_FREED = 0.02  # of the limit, once it is exceeded: PostgreSQL's size is an estimate that varies by a percent

_FIRST = select(readings.c.node_id, func.min(readings.c.first_time).label("time")).group_by(readings.c.node_id).cte()
_OLDEST = select(func.min(readings.c.last_time)).join_from(
    _FIRST, readings, (readings.c.node_id == _FIRST.c.node_id) & (readings.c.first_time == _FIRST.c.time)
)


def keep_size(engine: Engine, at_most_bytes: int, now: float, stop: threading.Event | None = None) -> int:
    """Delete the oldest readings of a database of more than ``at_most_bytes`` until it is 2 % smaller; 0 is no limit.

    Readings of the last day, profiles and jobs stay; jobs without a profile that lose readings are counted.
    Interrupted by ``stop`` between transactions.

    Returns the number of samples deleted, which is also counted and logged.
    """
    if not at_most_bytes:
        return 0
    deleted, shortened, before = 0, 0, None
    used = used_bytes(engine, READINGS)
    if used <= at_most_bytes:
        return 0
    aim = (1 - _FREED) * at_most_bytes
    while used > aim and not (stop and stop.is_set()):
        with engine.connect() as connection:
            oldest = connection.execute(_OLDEST).scalar()
        if oldest is None or oldest >= now - _KEPT_S:
            log.warning(
                "the database has %.3g GB, and readings of the last day alone are left: raise database_bytes_at_most"
                " (%.3g GB)",
                used / 1e9, at_most_bytes / 1e9,
            )  # fmt: skip
            break
        # The share of readings to delete exceeds that of the whole: approach it from below, and never go far beyond.
        share = max(_SMALLEST_STEP, 1 - aim / used)
        before = min(oldest + share * (now - oldest), now - _KEPT_S)
        with engine.begin() as connection:
            losing = connection.execute(_losing(oldest, before)).scalar_one()
            add_event_counts(connection, {(SHORTENED, ""): losing})
        deleted, shortened = deleted + delete_readings(engine, before, DELETED, stop), shortened + losing
        used = used_bytes(engine, READINGS)
    if before is not None:
        log.warning(
            "database_bytes_at_most (%.3g GB) ends retention early: %d samples from before %s deleted; %d jobs without "
            "a profile lost readings",
            at_most_bytes / 1e9, deleted, datetime.fromtimestamp(before, UTC).isoformat(timespec="seconds"), shortened,
        )  # fmt: skip
    return deleted


def _losing(oldest: float, before: float) -> Select[int]:
    """Return the query for the number of jobs without a profile that lose readings from ``oldest`` to ``before``."""
    has_run = jobs.c.state.in_(("running", "ended"))
    ends = or_(jobs.c.end.is_(None), jobs.c.end >= oldest)
    return select(func.count()).where(~jobs.c.profiled, has_run, jobs.c.start >= oldest, jobs.c.start < before, ends)
