"""Acceptance of jobs into time slots, by the rules of the strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jobsight_predictor.runtime.success import (
    Correct,
    MachineFailure,
    Recalibration,
    SuccessProbability,
    machine_factors,
)
from jobsight_scheduler.overbooking.plan import BookingPlace, BookingPlan, Choice, JobOffer
from jobsight_scheduler.overbooking.risk import FastRisk, PlanRisk

Rule = Literal["conservative", "first-fit", "highest-pos"]

WIDE, TOO_WIDE = "machine risk", "wider than the machine"
NO_ROOM, RISKY, GUARDED = "no room before the deadline", "risk", "risk to booked jobs"
REASONS = (TOO_WIDE, WIDE, NO_ROOM, RISKY, GUARDED)


@dataclass(frozen=True, slots=True)
class AcceptanceRule:
    """A rule for offers.

    ``rule``: conservative needs room for all of the requested time; the others sell shorter slots. ``pmax``: highest
    probability of failure, exclusive. ``guards``: refuse a slot that takes a booked successor above ``pmax``.
    ``expects_run``: node failures during the expected run time, not during all of the requested time.
    ``limits_machine``: ``pmax`` limits PoF, node failures included; otherwise only the risk that overbooking adds.
    """

    rule: Rule = "first-fit"
    pmax: float = 0.1
    choice: Choice = "strict"
    guards: bool = False
    expects_run: bool = False
    limits_machine: bool = True


@dataclass(frozen=True, slots=True)
class OfferDecision:
    """``place`` and its ``success`` if accepted, else the ``reason``. ``raw_pof`` is before recalibration.

    ``candidates`` is the number of slots considered. ``touched`` are overbooked jobs
    that wait after the slot, whose risk rises: the new probability of failure of each, and that before recalibration.
    """

    place: BookingPlace | None
    success: SuccessProbability | None
    raw_pof: float
    reason: str
    candidates: int
    touched: Mapping[int, tuple[float, float]] = field(default_factory=dict)


def decide(
    plan: BookingPlan,
    offer: JobOffer,
    now_h: float,
    rule: AcceptanceRule,
    machine: MachineFailure,
    correct: Correct | None = None,
    risk: PlanRisk[Any, Any] | None = None,
) -> OfferDecision:
    """Decide whether and where to book ``offer``. Changes nothing.

    ``correct`` corrects the probability that a job does not end in its gap. ``risk``: of this plan, as of now; None:
    ``FastRisk``.
    """
    if offer.nodes > plan.processors:
        return _rejected(TOO_WIDE)
    available, survives = machine_factors(
        machine, offer.nodes, offer.requested_h, offer.accuracy if rule.expects_run else None
    )
    if rule.rule == "conservative":
        return _conservative(plan, offer, available, survives)
    risk = FastRisk(plan, now_h) if risk is None else risk
    search = _Search(plan, offer, risk, rule, available, survives, correct)
    if not search.is_acceptable(available * survives, 1.0):
        return _rejected(WIDE)
    return search.decision()


def _rejected(reason: str, candidates: int = 0) -> OfferDecision:
    return OfferDecision(None, None, 1.0, reason, candidates)


def _conservative(plan: BookingPlan, offer: JobOffer, available: float, survives: float) -> OfferDecision:
    """Choose the first slot with processors free for all of the requested time, the lowest-numbered of them."""
    success = SuccessProbability(available, 1.0, survives)
    starts = plan.starts(offer.release_h, offer.deadline_h)
    candidates = 0
    for place in plan.places(starts, offer.nodes, offer.requested_h, offer.deadline_h, "full-first"):
        candidates += 1
        if place.end_h >= place.start_h + offer.requested_h:
            return OfferDecision(place, success, success.pof, "", candidates)
    return _rejected(NO_ROOM, candidates)


def decide_corrected(
    test: Callable[[Correct | None], OfferDecision], recalibration: Recalibration, now_h: float
) -> tuple[OfferDecision, bool | None]:
    """Apply ``test``, which is ``decide`` for one offer, with the present correction.

    Accept a small share of the jobs that only the correction refuses. The second value: whether this one was accepted
    so; None if the correction did not decide.
    """
    correct = recalibration.as_of(now_h)
    decision = test(correct)
    if decision.reason not in (RISKY, GUARDED) or recalibration.factor(now_h) <= 1.0:
        return decision, None
    as_predicted = test(None)
    if as_predicted.success is None or not recalibration.explores():
        return decision, False
    executable = 1.0 - correct(1.0 - as_predicted.success.executable)
    return replace(as_predicted, success=replace(as_predicted.success, executable=executable)), True


@dataclass(slots=True)
class _Search:
    """The search for a slot for one offer."""

    _plan: BookingPlan
    _offer: JobOffer
    _risk: PlanRisk[Any, Any]
    _rule: AcceptanceRule
    _available: float
    _survives: float
    _correct: Correct | None
    _candidates: int = 0

    def is_acceptable(self, pos: float, executable: float) -> bool:
        """Return whether a probability of success, of which ``executable`` is a factor, suffices."""
        return 1.0 - (pos if self._rule.limits_machine else executable) < self._rule.pmax

    def decision(self) -> OfferDecision:
        """Return the first acceptable slot, or the best one."""
        offer, rule = self._offer, self._rule
        machine = self._available * self._survives
        best: OfferDecision | None = None
        best_pos = -1.0
        reason = NO_ROOM
        starts = self._plan.starts(offer.release_h, offer.deadline_h)
        for place in self._plan.places(starts, offer.nodes, offer.requested_h, offer.deadline_h, rule.choice):
            self._candidates += 1
            executable = self._corrected(self._risk.best_case(offer, place))
            if not self.is_acceptable(machine * executable, executable) or machine * executable <= best_pos:
                reason = max(reason, RISKY, key=REASONS.index)
                continue
            raw = self._risk.executable(offer, place)
            success = SuccessProbability(self._available, self._corrected(raw), self._survives)
            if not self.is_acceptable(success.pos, success.executable):
                reason = max(reason, RISKY, key=REASONS.index)
                continue
            if success.pos <= best_pos:
                continue
            touched = self._touched(place) if rule.guards else {}
            if touched is None:
                reason = GUARDED
                continue
            best, best_pos = OfferDecision(place, success, 1.0 - raw, "", self._candidates, touched), success.pos
            if rule.rule == "first-fit" or best_pos >= machine:
                break
        return best or _rejected(reason, self._candidates)

    def _corrected(self, executable: float) -> float:
        return executable if self._correct is None else 1.0 - self._correct(1.0 - executable)

    def _touched(self, place: BookingPlace) -> dict[int, tuple[float, float]] | None:
        """Return the jobs whose risk rises; None if the guard forbids it for one of them."""
        found = {}
        for job, raw in self._risk.after(self._offer, place):
            executable = self._corrected(raw)
            pos = self._plan.bookings[job].machine * executable
            if not self.is_acceptable(pos, executable):
                return None
            found[job] = 1.0 - pos, 1.0 - raw
        return found


RULES: dict[str, AcceptanceRule] = {
    "release": AcceptanceRule("conservative"),
    "jobsight": AcceptanceRule("highest-pos", choice="full-first", guards=True, expects_run=True, limits_machine=False),
}
"""The rules that a site can choose."""
