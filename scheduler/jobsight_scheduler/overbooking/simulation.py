"""Jobs that are offered, planned, started, killed: one run of one strategy over a workload."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jobsight_predictor.runtime.machine_failure import MachineFailure
from jobsight_predictor.runtime.recalibrate import Recalibration

from .accept import AcceptanceRule, OfferDecision, decide
from .booking import Booking, JobOffer
from .node_failures import Downtimes
from .plan import BookingPlan

_END, _RELEASE = 0, 1


@dataclass(frozen=True, slots=True)
class OfferedJob:
    """A job as it is offered at ``submitted_h``, and, unknown to the planner, its ``run_h``."""

    offer: JobOffer
    submitted_h: float
    run_h: float


@dataclass(frozen=True, slots=True)
class JobResult:
    """An accepted job. ``killed``: it ran into its limit; ``node_failed``: one of its nodes was down."""

    offer: JobOffer
    planned_h: float
    started_h: float
    ended_h: float
    limit_h: float
    pof: float
    killed: bool
    node_failed: bool
    processors: int

    @property
    def succeeded(self) -> bool:
        return not (self.killed or self.node_failed)


class OverbookingSimulation:
    """Runs one rule; ``results`` and ``rejections`` grow as jobs end and are refused."""

    def __init__(
        self,
        nodes: int,
        rule: AcceptanceRule,
        machine: MachineFailure,
        downtimes: Downtimes,
        resells: bool = False,
        recalibration: Recalibration | None = None,
        on_end: Callable[[JobResult, OfferedJob], None] | None = None,
    ) -> None:
        self.plan = BookingPlan(nodes)
        self.results: list[JobResult] = []
        self.decisions: list[OfferDecision] = []
        self._rule, self._machine, self._downtimes = rule, machine, downtimes
        self._resells = resells
        self._recalibration = recalibration
        self._lines: list[list[int]] = [[] for _ in range(nodes)]
        self._jobs: dict[int, OfferedJob] = {}
        self._raw: dict[int, float] = {}
        self._fates: dict[int, tuple[bool, bool]] = {}
        self._events: list[tuple[float, int, int]] = []

    def run(self, jobs: Sequence[OfferedJob]) -> None:
        for job in jobs:
            self.advance(job.submitted_h)
            self.offer(job)
        self.advance(np.inf)

    def offer(self, job: OfferedJob) -> OfferDecision:
        now = job.submitted_h
        self.plan.forget(now)
        correct = None if self._recalibration is None else self._recalibration.corrected
        decision = decide(self.plan, job.offer, now, self._rule, self._machine, correct)
        self.decisions.append(decision)
        if decision.place is not None and decision.success is not None:
            success = decision.success
            booking = Booking(job.offer, decision.place, success.pof, success.available * success.survives)
            self.plan.add(booking)
            number = job.offer.job
            self._jobs[number] = job
            self._raw[number] = decision.raw_pof
            for processor in decision.place.processors.tolist():
                line = self._lines[processor]
                place = len(line)
                while place and self.plan.bookings[line[place - 1]].from_h > booking.from_h:
                    place -= 1
                line.insert(place, number)
            heapq.heappush(self._events, (max(job.offer.release_h, now), _RELEASE, number))
        return decision

    def advance(self, until_h: float) -> None:
        while self._events and self._events[0][0] <= until_h:
            time, kind, job = heapq.heappop(self._events)
            if kind == _RELEASE:
                self._try(job, time)
            else:
                self._end(job, time)

    def _try(self, number: int, now: float) -> None:
        booking = self.plan.bookings[number]
        if booking.started_h is not None or now < booking.offer.release_h:
            return
        processors = booking.place.processors
        lines = self._lines
        for processor in processors.tolist():
            if lines[processor][0] != number:
                return
        assert now <= booking.from_h
        job = self._jobs[number]
        self.plan.start(number, now)
        end = now + job.run_h
        killed = end > booking.end_h
        end = min(end, booking.end_h)
        down = self._downtimes.first(processors, now, end)
        self._fates[number] = (killed and down is None, down is not None)
        heapq.heappush(self._events, (end if down is None else down, _END, number))

    def _end(self, number: int, now: float) -> None:
        booking = self.plan.bookings[number]
        offer = booking.offer
        self.plan.end(number, now, self._resells)
        killed, failed = self._fates.pop(number)
        started = booking.started_h
        assert started is not None
        result = JobResult(
            offer, booking.place.start_h, started, now, booking.end_h, booking.pof, killed, failed, offer.nodes
        )
        self.results.append(result)
        if self._recalibration is not None:
            self._recalibration.learn(self._raw[number], killed)
        del self._jobs[number], self._raw[number]
        following = set()
        for processor in booking.place.processors.tolist():
            line = self._lines[processor]
            del line[0]
            if line:
                following.add(line[0])
        for other in sorted(following):
            self._try(other, now)
