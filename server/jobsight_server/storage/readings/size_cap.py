"""A limit of the database's size that ends retention early: the oldest readings go first."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

from sqlalchemy import Engine, text

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import used_bytes
from jobsight_server.storage.upkeep import delete_readings

log = logging.getLogger(__name__)

DELETED = "samples_deleted_for_space"
SHORTENED = "jobs_shortened_for_space"
"""Counted: samples, and jobs without a profile that lost readings with them."""

READINGS = ("readings", "job_samples", "gpu_samples", "marks")
_KEPT_S = 86400.0  # whatever the limit: jobs end and are profiled within this time, and batches are resent
_SMALLEST_STEP = 0.01  # of the time that readings cover
_FREED = 0.02  # of the limit, once it is exceeded: PostgreSQL's size is an estimate that varies by a percent

_OLDEST = text(
    "SELECT min(r.last_time) FROM (SELECT node_id, min(first_time) AS first_time FROM readings GROUP BY node_id) "
    "AS o JOIN readings r ON r.node_id = o.node_id AND r.first_time = o.first_time"
)
_LOSING = text(
    "SELECT count(*) FROM jobs WHERE profiled = :no AND state IN ('running', 'ended') "
    'AND start >= :oldest AND start < :before AND ("end" IS NULL OR "end" >= :oldest)'
)


def keep_size(engine: Engine, at_most_bytes: int, now: float, stop: threading.Event | None = None) -> int:
    """Delete the oldest readings of a database of more than ``at_most_bytes`` until it is 2 % smaller; 0 is no limit.

    Readings of the last day, profiles and jobs stay; jobs without a profile that lose readings are counted.
    Interrupted by ``stop`` between transactions.

    Returns the number of samples deleted, which is also counted and logged.
    """
    if not at_most_bytes:
        return 0
    deleted, jobs, before = 0, 0, None
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
            key = {"no": False, "oldest": oldest, "before": before}
            losing = connection.execute(_LOSING, key).scalar_one()
            add_event_counts(connection, {(SHORTENED, ""): losing})
        deleted, jobs = deleted + delete_readings(engine, before, DELETED, stop), jobs + losing
        used = used_bytes(engine, READINGS)
    if before is not None:
        log.warning(
            "database_bytes_at_most (%.3g GB) ends retention early: %d samples from before %s deleted; %d jobs without "
            "a profile lost readings",
            at_most_bytes / 1e9, deleted, datetime.fromtimestamp(before, UTC).isoformat(timespec="seconds"), jobs,
        )  # fmt: skip
    return deleted
