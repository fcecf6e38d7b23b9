"""What becomes of an offer: confirmed or cancelled by the scheduler, and how its job starts and ends."""

from __future__ import annotations

from typing import Any, Literal, get_args

from sqlalchemy import Connection, Row, select

from jobsight_server.errors import RefusedError
from jobsight_server.systems.offers.calibration import read_calibration, write_calibration
from jobsight_server.systems.offers.expiry import REPORT_GRACE_S, expire_offers
from jobsight_server.systems.offers.risk import HOUR_S
from jobsight_server.systems.offers.stored import STANDING, change_offer, lock_plan, read_offer
from jobsight_server.systems.offers.tables import offers

Outcome = Literal["finished", "killed", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class OfferError(RefusedError):
    """What cannot be done with an offer."""


def confirm(connection: Connection, number: int, job_id: str | None, now: float) -> None:
    """The scheduler takes the place, for the job that its log calls ``job_id``; sent again, it changes nothing.

    Raises:
        OfferError: there is no such offer, it has expired or ended, or the job has another place.
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
    change_offer(
        connection, row.cluster, number, "confirmed", job_id=known, expires_at=row.planned_end + REPORT_GRACE_S
    )


def cancel(connection: Connection, number: int, now: float) -> None:
    """Gives the place up; sent again, it changes nothing.

    Raises:
        OfferError: there is no such offer, or its job has ended.
    """
    row = _locked(connection, number, now)
    if row.state in ("cancelled", "expired"):
        return
    if row.state not in STANDING:
        raise _too_late(row, "cancelled")
    change_offer(connection, row.cluster, number, "cancelled", ended=now)


def report_start(connection: Connection, number: int, at: float | None, now: float) -> None:
    """The job has started, now if ``at`` is None; sent again, it changes nothing.

    Raises:
        OfferError: there is no such offer, it was not confirmed, has ended, or started at another time.
    """
    row = _locked(connection, number, now)
    if row.state == "running" and at in (None, row.started):
        return
    if row.state != "confirmed":
        raise _too_late(row, "started")
    change_offer(connection, row.cluster, number, "running", started=now if at is None else at)


def report_end(connection: Connection, number: int, outcome: Outcome, at: float | None, now: float) -> None:
    """The job has ended, now if ``at`` is None: its time is free, and the promise is compared with the outcome.

    Sent again, it changes nothing.

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
    change_offer(connection, row.cluster, number, outcome, ended=at)
    write_calibration(connection, row.cluster, calibration)


def _locked(connection: Connection, number: int, now: float) -> Row[Any]:
    """The offer as it stands, with the plan of its cluster locked."""
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
