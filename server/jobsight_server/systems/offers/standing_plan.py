"""The plan of a cluster as its offers in the database make it, kept in each process and brought up to date."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, select

from jobsight_predictor.runtime.accuracy import RuntimeAccuracy
from jobsight_scheduler.overbooking.booking import Booking, BookingPlace, JobOffer
from jobsight_scheduler.overbooking.kept_risk import KeptRisk
from jobsight_scheduler.overbooking.plan import BookingPlan
from jobsight_server.systems.offers.places import nodes_of
from jobsight_server.systems.offers.stored import STANDING
from jobsight_server.systems.offers.tables import offers, plans

HOUR_S = 3600.0
_DECIMALS = 5


class StandingPlan:
    """Bookings by the number of their offer, in hours since 1970; ``nodes`` are those that places are sold on.

    Bookings that have ended are taken out: their time is free again. ``risk`` is that of the plan at the last
    ``catch_up``.
    """

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.plan = BookingPlan(nodes)
        self.rows: dict[int, Row[Any]] = {}
        self.risk = KeptRisk(self.plan, 0.0)
        self._due: list[tuple[float, int]] = []
        self._version = -1
        self._changed_h = inf

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
        while self._due and self._due[0][0] <= now:
            self._pass(heappop(self._due)[1], now)
        if self._changed_h < inf:
            self.risk.changed(self._changed_h)
            self._changed_h = inf
        self.risk.as_of(now / HOUR_S)

    def _apply(self, rows: Sequence[Row[Any]]) -> None:
        booked = []
        for row in rows:
            self._take_out(row.id)
            if row.state in STANDING:
                self.rows[row.id] = row
                moments = {row.planned_start, row.planned_end, *((row.expires_at,) if row.state == "offered" else ())}
                for moment in moments:
                    heappush(self._due, (moment, row.id))
                if (booking := self._booking(row)) is not None:
                    booked.append(booking)
        self.plan.load(booked)
        for booking in booked:
            self._changed_h = min(self._changed_h, booking.from_h)
            if (started := self.rows[booking.offer.job].started) is not None:
                self._start(booking.offer.job, min(started / HOUR_S, booking.until_h))

    def _start(self, number: int, at_h: float) -> None:
        self._changed_h = min(self._changed_h, self.plan.bookings[number].from_h, at_h)
        self.plan.start(number, at_h)

    def _pass(self, number: int, now: float) -> None:
        """A moment has come at which something may become of the offer."""
        row = self.rows.get(number)
        if row is None:
            return
        if row.planned_end <= now or (row.state == "offered" and row.expires_at <= now):
            self._take_out(number)
            return
        booking = self.plan.bookings.get(number)
        if booking is not None and booking.started_h is None and row.planned_start <= now:
            # Its place is free for it from then on, and nothing was reported yet.
            self._start(number, row.planned_start / HOUR_S)

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
            self._changed_h = min(self._changed_h, self.plan.remove(number).from_h)


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
