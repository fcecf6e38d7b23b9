"""Changes of an offer: the scheduler confirms or cancels it; its job starts and ends, as reported or logged."""

from __future__ import annotations

import threading
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Engine, Row, select

from jobsight_server.ground.errors import RefusedError
from jobsight_server.storage.schema import jobs
from jobsight_server.systems.offers.calibration import read_calibration, write_calibration
from jobsight_server.systems.offers.standing_plan import HOUR_S
from jobsight_server.systems.offers.stored import (
    REPORT_GRACE_S,
    STANDING,
    change_offers,
    expire_offers,
    lock_plan,
    read_offer,
)
from jobsight_server.systems.offers.tables import offers

Outcome = Literal["finished", "killed", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class OfferError(RefusedError):
    """A refused change of an offer."""


def confirm(connection: Connection, number: int, job_id: str | None, now: float) -> None:
    """Confirm the slot for the job that the accounting log calls ``job_id``; a repetition changes nothing.

    Raises:
        OfferError: there is no such offer, it has expired or ended, or the job has another slot.
    """
    row = _locked(connection, number, now)
    if row.state in ("confirmed", "running") and job_id in (None, row.job_id):
        return
    if row.state != "offered":
        raise _too_late(row, "confirmed")
    known = row.job_id if job_id is None else job_id
    if known is not None:
        other = select(offers.c.id).where(
            offers.c.cluster == row.cluster,
            offers.c.job_id == known,
            offers.c.state.in_(("confirmed", "running")),
            offers.c.id != number,
        )
        if (taken := connection.scalar(other.limit(1))) is not None:
            raise OfferError(f"job_id = {known[:60]!r} has offer {taken} already; cancel that first", 409)
    change_offers(
        connection, row.cluster, [number], "confirmed", job_id=known, expires_at=row.planned_end + REPORT_GRACE_S
    )


def cancel(connection: Connection, number: int, now: float) -> None:
    """Give the slot up; a repetition changes nothing.

    Raises:
        OfferError: there is no such offer, or its job has ended.
    """
    row = _locked(connection, number, now)
    if row.state in ("cancelled", "expired"):
        return
    if row.state not in STANDING:
        raise _too_late(row, "cancelled")
    change_offers(connection, row.cluster, [number], "cancelled", ended=now)


def report_start(connection: Connection, number: int, at: float | None, now: float) -> None:
    """Record the start of the job, now if ``at`` is None; a repetition changes nothing.

    Raises:
        OfferError: there is no such offer, it was not confirmed, has ended, or started at another time.
    """
    row = _locked(connection, number, now)
    if row.state == "running" and at in (None, row.started):
        return
    if row.state != "confirmed":
        raise _too_late(row, "started")
    change_offers(connection, row.cluster, [number], "running", started=now if at is None else at)


def report_end(connection: Connection, number: int, outcome: Outcome, at: float | None, now: float) -> None:
    """Record the end of the job, now if ``at`` is None: free its time, and compare the promise with the outcome.

    A repetition changes nothing.

    Raises:
        OfferError: there is no such offer, it was not confirmed, or ended otherwise.
    """
    row = _locked(connection, number, now)
    if row.state == outcome and at in (None, row.ended):
        return
    at = now if at is None else at
    if row.state not in ("confirmed", "running", "unknown"):
        raise _too_late(row, "ended")
    if row.started is not None and at < row.started:
        raise OfferError(f"time = {at!r} is before the start of the job, {row.started!r}", 409)
    calibration = read_calibration(connection, row.cluster)
    calibration.learn(row.predicted, 1.0 - row.pos, outcome, at / HOUR_S)
    change_offers(connection, row.cluster, [number], outcome, ended=at)
    write_calibration(connection, row.cluster, calibration)


def _locked(connection: Connection, number: int, now: float) -> Row[Any]:
    """Read the offer, with the plan of its cluster locked."""
    row = read_offer(connection, number)
    if row is None:
        raise OfferError(f"id = {number}: unknown offer; give the id from the answer", 404)
    lock_plan(connection, row.cluster)
    expire_offers(connection, row.cluster, now)
    row = read_offer(connection, number)
    if row is None:  # deleted since
        raise OfferError(f"id = {number}: this offer has ended and is no longer kept", 410)
    return row


def _too_late(row: Row[Any], wanted: str) -> OfferError:
    if row.state == "expired":
        return OfferError(f"id = {row.id}: this offer has expired; ask again", 410)
    if row.state == "offered":
        return OfferError(f"id = {row.id}: this offer is not confirmed; confirm it before its job is {wanted}", 409)
    return OfferError(f"id = {row.id}: this offer is {row.state}; it cannot be {wanted}", 409)


_SLACK_S = 60.0
_SIGNALLED = 256  # TORQUE adds it to the number of the signal

_REPORTED = (
    select(
        *(offers.c[name] for name in ("id", "state", "requested_s", "planned_end")),
        *(jobs.c.state.label("run_state"), jobs.c.start, jobs.c.end, jobs.c.exit_status),
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
    """Record starts and ends from the accounting logs; return the number of them."""
    with engine.connect().execution_options(reading=True) as connection:
        rows = {row.id: row for row in connection.execute(_REPORTED)}  # the last of several runs of a job
    done = 0
    for row in rows.values():
        if stop is not None and stop.is_set():
            break
        done += _report(engine, row, now)
    return done


def outcome_of(row: Row[*tuple[Any, ...]]) -> Outcome:
    """Classify an ended run: killed if the scheduler stopped it at the end of its slot, failed if for another reason.

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
