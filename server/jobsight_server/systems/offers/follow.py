"""Follows the accounting logs: when the jobs of confirmed offers start and how they end."""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy import Engine, Row, select

from jobsight_server.storage.schema import jobs
from jobsight_server.systems.offers.outcome import OfferError, Outcome, cancel, report_end, report_start
from jobsight_server.systems.offers.tables import offers

_SLACK_S = 60.0
_SIGNALLED = 256  # TORQUE adds it to the number of the signal

_REPORTED = (
    select(
        offers.c.id,
        offers.c.state,
        offers.c.requested_s,
        offers.c.planned_end,
        jobs.c.state.label("run_state"),
        jobs.c.start,
        jobs.c.end,
        jobs.c.exit_status,
    )
    .join(jobs, (jobs.c.cluster == offers.c.cluster) & (jobs.c.job_id == offers.c.job_id))
    .where(
        offers.c.state.in_(("confirmed", "running")),
        offers.c.job_id.is_not(None),
        (jobs.c.state != "running") | offers.c.started.is_(None),
        jobs.c.state != "queued",
        jobs.c.start >= offers.c.offered_at - _SLACK_S,
    )
    .order_by(offers.c.id, jobs.c.start)
)


def follow_jobs(engine: Engine, now: float, stop: threading.Event | None = None) -> int:
    """Reports starts and ends that the accounting logs have; returns how many."""
    with engine.connect().execution_options(reading=True) as connection:
        rows = {row.id: row for row in connection.execute(_REPORTED)}  # of several runs of a job, the last
    done = 0
    for row in rows.values():
        if stop is not None and stop.is_set():
            break
        done += _report(engine, row, now)
    return done


def outcome_of(row: Row[*tuple[Any, ...]]) -> Outcome:
    """What an ended run says: killed if the scheduler stopped it when its place was over, failed if for another reason.

    A job that exits by itself has finished, whatever its exit status; so has one that used all of its requested time.
    """
    if row.run_state == "requeued":
        return "failed"
    if row.exit_status is None or 0 <= row.exit_status < _SIGNALLED:
        return "finished"
    if row.end - row.start >= row.requested_s - _SLACK_S:
        return "finished"
    return "killed" if row.end >= row.planned_end - _SLACK_S else "failed"


def _report(engine: Engine, row: Row[*tuple[Any, ...]], now: float) -> bool:
    try:
        with engine.begin() as connection:
            if row.run_state == "deleted":
                cancel(connection, row.id, now)
                return True
            if row.state == "confirmed":
                report_start(connection, row.id, row.start, now)
            if row.run_state != "running":
                report_end(connection, row.id, outcome_of(row), max(row.end, row.start), now)
    except OfferError:  # reported otherwise in the meantime
        return False
    return True
