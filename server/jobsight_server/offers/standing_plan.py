"""The plan of a cluster as its offers in the database make it, kept in each process and brought up to date."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, select

from jobsight_predictor.runtime.accuracy import RuntimeAccuracy
from jobsight_scheduler.overbooking.booking import Booking, BookingPlace, JobOffer
from jobsight_scheduler.overbooking.plan import BookingPlan
from jobsight_server.offers.places import nodes_of
from jobsight_server.offers.stored import STANDING
from jobsight_server.storage.schema import offers, plans

HOUR_S = 3600.0
_DECIMALS = 5


class StandingPlan:
    """Bookings by the number of their offer, in hours since 1970; ``nodes`` are those that places are sold on.

    Bookings that have ended are taken out: their time is free again.
    """

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.plan = BookingPlan(nodes)
        self.rows: dict[int, Row[Any]] = {}
        self._version = -1

    def catch_up(self, connection: Connection, cluster: str, now: float) -> None:
        """Reads what has changed since, and takes out what is over at ``now``."""
        version = connection.scalar(select(plans.c.version).where(plans.c.cluster == cluster)) or 0
        if version != self._version:
            changed = select(offers).where(offers.c.cluster == cluster)
            if self._version < 0:
                changed = changed.where(offers.c.state.in_(STANDING))
            else:
                changed = changed.where(offers.c.version > self._version)
            self._apply(connection.execute(changed.order_by(offers.c.version)).all())
            self._version = version
        for number, row in list(self.rows.items()):
            is_over = row.planned_end <= now or (row.state == "offered" and row.expires_at <= now)
            if is_over:
                self._take_out(number)
            elif row.planned_start <= now and row.started is None:
                booking = self.plan.bookings.get(number)
                # Its place is kept free for it from then on; nobody said that it was late.
                if booking is not None and booking.started_h is None:
                    self.plan.start(number, row.planned_start / HOUR_S)

    def _apply(self, rows: Sequence[Row[Any]]) -> None:
        booked = []
        for row in rows:
            self._take_out(row.id)
            if row.state in STANDING:
                self.rows[row.id] = row
                if (booking := self._booking(row)) is not None:
                    booked.append(booking)
        self.plan.load(booked)
        for booking in booked:
            if (started := self.rows[booking.offer.job].started) is not None:
                self.plan.start(booking.offer.job, min(started / HOUR_S, booking.until_h))

    def _booking(self, row: Row[Any]) -> Booking | None:
        """The booking of an offer; None if the cluster has lost the nodes."""
        processors = np.array([node for node in nodes_of(row.places) if node < self.nodes], dtype=np.int64)
        if not len(processors):
            return None
        place = BookingPlace(row.planned_start / HOUR_S, row.planned_end / HOUR_S, processors, (), ())
        return Booking(job_offer(row), place, row.predicted, row.p_available * row.p_success)

    def _take_out(self, number: int) -> None:
        self.rows.pop(number, None)
        if number in self.plan.bookings:
            self.plan.remove(number)


class StandingPlans:
    """The plans of a process, one for each cluster; bounded in number."""

    MOST = 16

    def __init__(self) -> None:
        self._plans: dict[str, StandingPlan] = {}
        self.lock = threading.Lock()

    def of(self, connection: Connection, cluster: str, nodes: int, now: float) -> StandingPlan:
        """The plan as of the connection's transaction; the caller holds ``lock`` while using it."""
        known = self._plans.get(cluster)
        if known is None or known.nodes != nodes:
            if len(self._plans) >= self.MOST:
                self._plans.clear()
            known = self._plans[cluster] = StandingPlan(nodes)
        known.catch_up(connection, cluster, now)
        return known


def job_offer(row: Row[Any]) -> JobOffer:
    """What was asked for in the row of an offer."""
    return JobOffer(
        job=row.id,
        nodes=row.nodes,
        requested_h=row.requested_s / HOUR_S,
        release_h=row.release / HOUR_S,
        deadline_h=row.deadline / HOUR_S,
        accuracy=accuracy_of_text(row.run_times, row.source_jobs, row.source),
        charge=row.charge,
        penalty=row.penalty,
    )


def accuracy_text(accuracy: RuntimeAccuracy) -> str:
    """A distribution as JSON, with five decimals."""
    return msgspec.json.encode(np.round(accuracy.cdf, _DECIMALS).tolist()).decode()


def accuracy_of_text(text: str, jobs: float, source: str) -> RuntimeAccuracy:
    """Parses the output of ``accuracy_text``."""
    return RuntimeAccuracy(np.array(msgspec.json.decode(text), dtype=np.float64), jobs, source)
