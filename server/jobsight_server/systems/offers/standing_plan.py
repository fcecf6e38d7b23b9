"""The plan of a cluster from its offers in the database, kept in each process, and the risk of a slot in it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Any, Literal

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, bindparam, select

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import RuntimeAccuracy
from jobsight_predictor.runtime.success import Correct, MachineFailure, SuccessProbability, machine_factors
from jobsight_scheduler.overbooking.plan import Booking, BookingPlace, BookingPlan, JobOffer
from jobsight_scheduler.overbooking.risk import KeptRisk
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.answers import Record, Share
from jobsight_server.systems.offers.run_times import RunTimes
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.offers.stored import STANDING, nodes_of
from jobsight_server.systems.offers.tables import offers, plans

HOUR_S = 3600.0
_DECIMALS = 5

_VERSION = select(plans.c.version).where(plans.c.cluster == bindparam("cluster"))
_OF_CLUSTER = select(offers).where(offers.c.cluster == bindparam("cluster")).order_by(offers.c.version)
_STANDING = _OF_CLUSTER.where(offers.c.state.in_(STANDING))
_CHANGED = _OF_CLUSTER.where(offers.c.version > bindparam("version"))


class StandingPlan:
    """Bookings by the number of their offer, in hours since 1970; ``nodes`` are those of the plan.

    Ended bookings leave it, so that their time is free again. ``risk`` is that of the plan at the last ``catch_up``;
    ``earliest_h`` keeps the earliest starts of its jobs.
    """

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.plan = BookingPlan(nodes)
        self.rows: dict[int, Row[Any]] = {}
        self.risk = KeptRisk(self.plan, 0.0)
        self.earliest_h: dict[int, float] = {}
        self._due: list[tuple[float, int]] = []
        self._version = -1
        self._changed_h = inf

    def catch_up(self, connection: Connection, cluster: str, now: float) -> None:
        """Read the changes since the last call, and remove bookings that are over at ``now``."""
        version = connection.scalar(_VERSION, {"cluster": cluster}) or 0
        if version != self._version:
            changed = _STANDING if self._version < 0 else _CHANGED
            found = connection.execute(changed, {"cluster": cluster, "version": self._version})
            self._apply(found.all())
            self._version = version
        while self._due and self._due[0][0] <= now:
            self._pass(heappop(self._due)[1], now)
        if self._changed_h < inf:
            self.risk.changed(self._changed_h)
            before = [job for job, booking in self.plan.bookings.items() if booking.from_h < self._changed_h]
            self.earliest_h = {job: self.earliest_h[job] for job in before if job in self.earliest_h}
            self._changed_h = inf
        self.risk.as_of(now / HOUR_S)

    def _apply(self, rows: Sequence[Row[Any]]) -> None:
        booked = []
        for row in rows:
            kept = self.plan.bookings.get(row.id) if row.state == "confirmed" else None
            if kept is None or kept.started_h is not None:  # a confirmation leaves the slot as it is
                self._take_out(row.id)
                if row.state in STANDING and (booking := self._booking(row)) is not None:
                    booked.append(booking)
            if row.state in STANDING:
                self.rows[row.id] = row
                moments = {row.planned_start, row.planned_end, *((row.expires_at,) if row.state == "offered" else ())}
                for moment in moments:
                    heappush(self._due, (moment, row.id))
        self.plan.load(booked)
        for booking in booked:
            self._changed_h = min(self._changed_h, booking.from_h)
            if (started := self.rows[booking.offer.job].started) is not None:
                self._start(booking.offer.job, min(started / HOUR_S, booking.until_h))

    def _start(self, number: int, at_h: float) -> None:
        self._changed_h = min(self._changed_h, self.plan.bookings[number].from_h, at_h)
        self.plan.start(number, at_h)

    def _pass(self, number: int, now: float) -> None:
        """Handle an offer whose slot or wait may be over at ``now``."""
        row = self.rows.get(number)
        if row is None:
            return
        if row.planned_end <= now or (row.state == "offered" and row.expires_at <= now):
            self._take_out(number)
            return
        booking = self.plan.bookings.get(number)
        if booking is not None and booking.started_h is None and row.planned_start <= now:
            # Its slot is free from then on, and no start was reported yet.
            self._start(number, row.planned_start / HOUR_S)

    def _booking(self, row: Row[Any]) -> Booking | None:
        """Return the booking of an offer; None if the cluster has lost the nodes."""
        processors = np.array([node for node in nodes_of(row.places) if node < self.nodes], dtype=np.int64)
        if not len(processors):
            return None
        place = BookingPlace(row.planned_start / HOUR_S, row.planned_end / HOUR_S, processors, (), ())
        offer = JobOffer(
            job=row.id,
            nodes=row.nodes,
            requested_h=row.requested_s / HOUR_S,
            release_h=row.release / HOUR_S,
            deadline_h=row.deadline / HOUR_S,
            accuracy=accuracy_of_text(row.run_times, row.source_jobs, row.source),
            charge=row.charge,
            penalty=row.penalty,
        )
        return Booking(offer, place, row.predicted, row.p_available * row.p_success)

    def _take_out(self, number: int) -> None:
        self.rows.pop(number, None)
        if number in self.plan.bookings:
            self._changed_h = min(self._changed_h, self.plan.remove(number).from_h)


class StandingPlans:
    """The plans of a process, one per cluster; bounded in number."""

    MOST = 16

    def __init__(self) -> None:
        self._plans: dict[str, StandingPlan] = {}
        self.lock = threading.Lock()

    def of(self, connection: Connection, cluster: str, nodes: int, now: float) -> StandingPlan:
        """Return the plan as of the connection's transaction; the caller holds ``lock`` while using it."""
        known = self._plans.get(cluster)
        if known is None or known.nodes != nodes:
            if len(self._plans) >= self.MOST:
                self._plans.clear()
            known = self._plans[cluster] = StandingPlan(nodes)
        known.catch_up(connection, cluster, now)
        return known


def accuracy_text(accuracy: RuntimeAccuracy) -> str:
    """Write a distribution as JSON, with five decimals."""
    return msgspec.json.encode(np.round(accuracy.cdf, _DECIMALS).tolist()).decode()


def accuracy_of_text(text: str, jobs: float, source: str) -> RuntimeAccuracy:
    """Parse the output of ``accuracy_text``."""
    return RuntimeAccuracy(np.array(msgspec.json.decode(text), dtype=np.float64), jobs, source)


@dataclass(frozen=True, slots=True)
class PlaceSeller:
    """The site's configuration, its present plans, and the run times of its jobs."""

    config: OffersSettings
    plans: StandingPlans = field(default_factory=StandingPlans)
    run_times: RunTimes = field(default_factory=RunTimes)


@dataclass(frozen=True, slots=True)
class Gap:
    """A job of ``requested_s`` on ``nodes`` nodes that would start at ``start`` and be stopped at ``end``.

    ``elapsed_s``: its run time so far.
    """

    cluster: str
    job: Question
    nodes: int
    requested_s: float
    start: float
    end: float
    elapsed_s: float = 0.0


class RunTimeSource(Record):
    """The finished jobs behind the distribution of a run time.

    ``group`` is the most specific group with any of them, ``jobs`` their number, recent ones counting more.
    ``known_user``: whether the user's own jobs are among them. ``median`` and ``p90``: shares of the requested time
    within which half and nine tenths of similar jobs end.
    """

    group: str
    jobs: float
    known_user: bool
    median: Share
    p90: Share


class Risk(Record):
    """The risk of a job in a gap. Charge and penalty are in hours of the requested time.

    ``pos`` = ``p_available`` (its nodes are up at the start) * ``p_executable`` (it ends within the gap) *
    ``p_success`` (no node fails meanwhile), ``pof`` = 1 - ``pos``. Nodes fail in any plan, so ``accept`` is
    whether 1 - ``p_executable`` is below ``max_failure``. ``p_executable`` is corrected by the outcomes of earlier jobs
    of this cluster's plan; ``p_executable_predicted`` is the same before correction.
    """

    cluster: str
    user: str | None
    application: str | None
    queue: str | None
    nodes: int
    requested_s: float
    start: float
    end: float
    p_available: Share
    p_executable: Share
    p_success: Share
    p_executable_predicted: Share
    pos: Share
    pof: Share
    max_failure: Share
    charge_h: float
    penalty_h: float
    expected_charge_h: float
    expected_penalty_h: float
    verdict: Literal["accept", "reject"]
    reason: str
    run_times: RunTimeSource


def risk_of(config: OffersSettings, gap: Gap, accuracy: RuntimeAccuracy, correct: Correct) -> Risk:
    """Return the risk of the job in the gap, without a job before it that could delay its start."""
    requested_h, elapsed = gap.requested_s / HOUR_S, gap.elapsed_s / gap.requested_s
    left = accuracy if elapsed == 0.0 else None  # similar jobs do not show the time left of a running job
    available, survives = machine_factors(machine_of(config), gap.nodes, requested_h * max(1.0 - elapsed, 0.0), left)
    if elapsed > 0.0:
        available = 1.0  # its nodes are up already
    predicted = float(accuracy.after(elapsed).within(elapsed + (gap.end - gap.start) / gap.requested_s))
    success = SuccessProbability(available, 1.0 - correct(1.0 - predicted), survives)
    charge_h, penalty_h = stakes(config, gap.requested_s)
    median, p90 = accuracy.quantiles(np.array([0.5, 0.9])).tolist()
    fits = 1.0 - success.executable < config.max_failure
    return Risk(
        **{name: getattr(gap, name) for name in ("cluster", "nodes", "requested_s", "start", "end")},
        **{name: getattr(gap.job, name) for name in ("user", "application", "queue")},
        p_available=success.available,
        p_executable=success.executable,
        p_success=success.survives,
        p_executable_predicted=predicted,
        pos=success.pos,
        pof=success.pof,
        max_failure=config.max_failure,
        charge_h=charge_h,
        penalty_h=penalty_h,
        expected_charge_h=success.pos * charge_h,
        expected_penalty_h=success.pof * penalty_h,
        verdict="accept" if fits else "reject",
        reason=f"{'It fits' if fits else 'Too risky'}: the estimated probability that it does not end in time is "
        f"{percent(1.0 - success.executable, 1)}, the limit {percent(config.max_failure, 1)}.",
        run_times=RunTimeSource(accuracy.source, accuracy.jobs, "user" in accuracy.source.split(" + "), median, p90),
    )


def machine_of(config: OffersSettings) -> MachineFailure:
    """Return the failures of one node."""
    return MachineFailure(config.failures_per_hour, config.repairs_per_hour)


def stakes(config: OffersSettings, requested_s: float) -> tuple[float, float]:
    """Return charge and penalty in hours: the requested time, and ``penalty_ratio`` times as many."""
    return requested_s / HOUR_S, config.penalty_ratio * requested_s / HOUR_S
