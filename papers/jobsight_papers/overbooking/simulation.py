"""Simulation of one strategy over a workload: jobs are offered, planned, started and ended."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jobsight_papers.overbooking.node_failures import Downtimes
from jobsight_papers.overbooking.plan import SimulatedPlan
from jobsight_papers.overbooking.strategies import RISK_FORMS, AccuracyHistory, OverbookingStrategy
from jobsight_predictor.arrays import Integers
from jobsight_predictor.question import Question
from jobsight_predictor.runtime.success import MachineFailure, Recalibration
from jobsight_scheduler.overbooking.accept import WIDE, OfferDecision, decide, decide_corrected
from jobsight_scheduler.overbooking.plan import Booking, JobOffer

DEADLINE_FACTOR = 5.0
"""Deadline after the release, as a multiple of the requested time (Birkenheuer, Brinkmann and Karl 2010)."""

_END, _RELEASE = 0, 1  # at one instant, ends come first


@dataclass(frozen=True, slots=True)
class OfferedJob:
    """A job offered at ``submitted_h``. Planners see everything except ``run_h``, its run time if nothing stops it."""

    job: int
    question: Question
    nodes: int
    requested_h: float
    submitted_h: float
    release_h: float
    deadline_h: float
    run_h: float


@dataclass(frozen=True, slots=True)
class AcceptedJob:
    """A job that was accepted and has ended. ``pof`` is the probability of failure predicted at its acceptance.

    ``is_overbooked``: its gap was shorter than its requested time. ``was_killed``: it reached its limit; otherwise
    ``node_failed``: one of its nodes was down.
    """

    job: int
    nodes: int
    charge: float
    penalty: float
    requested_h: float
    planned_h: float
    started_h: float
    ended_h: float
    pof: float
    is_overbooked: bool
    was_killed: bool
    node_failed: bool

    @property
    def has_succeeded(self) -> bool:
        """Return whether it was neither killed nor on a node that failed."""
        return not (self.was_killed or self.node_failed)

    @property
    def profit(self) -> float:
        """The charge, or minus the penalty."""
        return self.charge if self.has_succeeded else -self.penalty


class OverbookingSimulation:
    """A run of one strategy. ``accepted`` grows as jobs end, ``rejected`` counts refused jobs by reason.

    ``history`` has learned the jobs before; the simulation continues with a copy of it if the strategy learns.
    ``recalibration_state`` is from an earlier simulation.
    """

    def __init__(
        self,
        nodes: int,
        strategy: OverbookingStrategy,
        history: AccuracyHistory,
        machine: MachineFailure,
        downtimes: Downtimes,
        penalty_ratio: float = 1.0,
        recalibration_state: Mapping[str, Any] | None = None,
    ) -> None:
        self.plan = SimulatedPlan(nodes)
        self.accepted: list[AcceptedJob] = []
        self.rejected: Counter[str] = Counter()
        self.candidates = 0
        self._strategy, self._machine, self._downtimes = strategy, machine, downtimes
        self._history = deepcopy(history) if strategy.learns else history
        self._recalibration = Recalibration() if strategy.recalibrates else None
        if recalibration_state is not None:
            self._recalibration = Recalibration.from_state(recalibration_state, 0.0)
        self._penalty_ratio = penalty_ratio
        self._queues: list[list[int]] = [[] for _ in range(nodes)]  # jobs that have not ended, per processor, in order
        self._jobs: dict[int, OfferedJob] = {}
        self._raw_pof: dict[int, float] = {}
        self._planned_h: dict[int, float] = {}
        self._overbooked: dict[int, bool] = {}
        self._causes: dict[int, tuple[bool, bool]] = {}  # killed, node failed
        self._events: list[tuple[float, int, int]] = []

    def run(self, jobs: Sequence[OfferedJob]) -> None:
        """Offer ``jobs``, ascending by submission, and run the accepted ones to their ends."""
        for job in jobs:
            self.advance(job.submitted_h)
            self.offer(job)
        self.advance(np.inf)

    def recalibration_state(self) -> dict[str, Any] | None:
        """Return the state of recalibration; None if the strategy has none."""
        return None if self._recalibration is None else self._recalibration.state()

    def offer(self, job: OfferedJob) -> OfferDecision:
        """Accept the job into the plan or reject it."""
        now = job.submitted_h
        self.plan.forget(now)
        accuracy = self._history.distribution(job.question)
        charge = job.requested_h
        offer = JobOffer(
            job.job, job.nodes, job.requested_h, job.release_h, job.deadline_h, accuracy, charge,
            charge * self._penalty_ratio,
        )  # fmt: skip
        risk = RISK_FORMS[self._strategy.form](self.plan, now)
        test = partial(decide, self.plan, offer, now, self._strategy.rule, self._machine, risk=risk)
        if self._recalibration is not None:
            decision, _ = decide_corrected(test, self._recalibration, now)
        elif offer.nodes <= self.plan.processors and self._strategy.refuses(self._machine, offer):
            decision = OfferDecision(None, None, 1.0, WIDE, 0)
        else:
            decision = test(None)
        self.candidates += decision.candidates
        if decision.place is None or decision.success is None:
            self.rejected[decision.reason] += 1
            return decision
        success = decision.success
        for other, (pof, raw_pof) in decision.touched.items():
            self.plan.bookings[other].pof, self._raw_pof[other] = pof, raw_pof
        booking = Booking(offer, decision.place, success.pof, success.available * success.survives)
        self.plan.add(booking)
        self._jobs[job.job], self._raw_pof[job.job] = job, decision.raw_pof
        self._planned_h[job.job], self._overbooked[job.job] = decision.place.start_h, booking.is_overbooked
        self._queue(booking)
        heapq.heappush(self._events, (max(job.release_h, now), _RELEASE, job.job))
        return decision

    def advance(self, until_h: float) -> None:
        """Start and end jobs up to ``until_h``."""
        while self._events and self._events[0][0] <= until_h:
            time, kind, job = heapq.heappop(self._events)
            if kind == _RELEASE:
                self._start_if_first(job, time)
            else:
                self._end(job, time)

    def _queue(self, booking: Booking) -> None:
        for processor in booking.place.processors.tolist():
            queue = self._queues[processor]
            place = len(queue)
            while place and self.plan.bookings[queue[place - 1]].from_h > booking.from_h:
                place -= 1
            queue.insert(place, booking.offer.job)

    def _start_if_first(self, number: int, now: float) -> None:
        booking = self.plan.bookings[number]
        if booking.started_h is not None or now < booking.offer.release_h:
            return
        queues = self._queues
        if any(queues[processor][0] != number for processor in booking.place.processors.tolist()):
            return
        if now > booking.from_h:
            raise AssertionError(f"job {number} starts at {now} h, after its planned start at {booking.from_h} h")
        self.plan.start(number, now)
        end = now + self._jobs[number].run_h
        was_killed = end > booking.end_h
        end = min(end, booking.end_h)
        down = self._downtimes.first(booking.place.processors, now, end)
        self._causes[number] = (was_killed and down is None, down is not None)
        heapq.heappush(self._events, (end if down is None else down, _END, number))

    def _end(self, number: int, now: float) -> None:
        booking = self.plan.bookings[number]
        offer, first_start = booking.offer, booking.started_h
        was_killed, node_failed = self._causes[number]
        self.plan.end(number, now, self._strategy.resells)
        if first_start is None:
            raise AssertionError(f"job {number} ends at {now} h and has not started")
        ended = AcceptedJob(
            number, offer.nodes, offer.charge, offer.penalty, offer.requested_h, self._planned_h.pop(number),
            first_start, now, booking.pof, self._overbooked.pop(number), was_killed, node_failed,
        )  # fmt: skip
        self.accepted.append(ended)
        self._learn(self._jobs.pop(number), ended)
        del self._causes[number]
        self._leave(number, booking.place.processors, now)

    def _learn(self, job: OfferedJob, ended: AcceptedJob) -> None:
        raw = self._raw_pof.pop(job.job)
        if ended.node_failed:
            return
        if self._recalibration is not None and raw > 0.0:  # a certain outcome teaches nothing
            self._recalibration.learn(raw, ended.was_killed, ended.ended_h)
        if self._strategy.learns:
            # A killed job would have run longer: its request was not too long.
            self._history.learn(job.question, 1.0 if ended.was_killed else job.run_h / job.requested_h)

    def _leave(self, number: int, processors: Integers, now: float) -> None:
        """Take the job off its processors; those that follow it may start."""
        following = set()
        for processor in processors.tolist():
            queue = self._queues[processor]
            queue.remove(number)
            if queue:
                following.add(queue[0])
        for other in sorted(following):
            self._start_if_first(other, now)
