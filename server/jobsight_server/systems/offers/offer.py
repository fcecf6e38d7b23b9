"""Answers a request for a time slot: the acceptance test against the plan, and the offer that holds the slot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import RuntimeAccuracy
from jobsight_scheduler.overbooking.accept import RULES, OfferDecision, decide, decide_corrected
from jobsight_scheduler.overbooking.plan import JobOffer
from jobsight_server.forecasts.request import question_text
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.systems.offers.calibration import read_calibration, write_calibration
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.offers.standing_plan import (
    HOUR_S,
    StandingPlans,
    accuracy_of_text,
    accuracy_text,
    machine_of,
    stakes,
)
from jobsight_server.systems.offers.stored import (
    REJECTIONS,
    add_offer,
    expire_offers,
    lock_plan,
    note_touched,
    places_text,
)

CELLS = 4_000_000
"""Most nodes times planned jobs of a plan that is searched: some 150 MB."""

FULL = "the plan is full"

_NEW = -1  # the number of a job that has no offer yet


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """A job that asks for ``nodes`` of the ``cluster_nodes`` for ``requested_s``, from ``release`` to ``deadline``."""

    cluster: str
    cluster_nodes: int
    job: Question
    nodes: int
    requested_s: float
    release: float
    deadline: float
    job_id: str | None = None


def answer_request(
    connection: Connection,
    plans: StandingPlans,
    config: OffersSettings,
    request: PlaceRequest,
    accuracy: RuntimeAccuracy,
    now: float,
) -> tuple[int | None, OfferDecision]:
    """Test the request against the plan within the caller's transaction, and store the offer if it is accepted; return
    its number, or None, and the decision.

    A small share of the jobs that only the correction refuses is accepted: otherwise it would never learn that jobs
    have become more reliable again.
    """
    cluster = request.cluster
    lock_plan(connection, cluster)
    expire_offers(connection, cluster, now)
    calibration = read_calibration(connection, cluster)
    stored = accuracy_text(accuracy)
    charge_h, penalty_h = stakes(config, request.requested_s)
    offer = JobOffer(
        job=_NEW,
        nodes=request.nodes,
        requested_h=request.requested_s / HOUR_S,
        release_h=max(request.release, now) / HOUR_S,
        deadline_h=request.deadline / HOUR_S,
        # Rounded as in the database, so that each decision rests on the same figures.
        accuracy=accuracy_of_text(stored, accuracy.jobs, accuracy.source),
        charge=charge_h,
        penalty=penalty_h,
    )
    with plans.lock:
        standing = plans.of(connection, cluster, request.cluster_nodes, now)
        decision, explored = OfferDecision(None, None, 1.0, FULL, 0), None
        if (len(standing.plan.bookings) + 1) * standing.nodes <= CELLS:
            now_h = now / HOUR_S
            rule = replace(RULES[config.strategy], pmax=config.max_failure)
            test = partial(decide, standing.plan, offer, now_h, rule, machine_of(config), risk=standing.risk)
            decision, explored = decide_corrected(test, calibration.recalibration, now_h)
        if explored is not None:
            write_calibration(connection, cluster, calibration)
    if decision.place is None or decision.success is None:
        add_event_counts(connection, {(REJECTIONS, decision.reason): 1})
        return None, decision
    note_touched(connection, {job: raw_pof for job, (_, raw_pof) in decision.touched.items()})
    number = add_offer(connection, cluster, _row(config, request, offer, decision, stored, now))
    return number, decision


def _row(
    config: OffersSettings, request: PlaceRequest, offer: JobOffer, decision: OfferDecision, run_times: str, now: float
) -> dict[str, Any]:
    place, success = decision.place, decision.success
    assert place is not None
    assert success is not None
    predicted = 0.0 if config.strategy == "release" else decision.raw_pof
    return {
        "question": question_text(request.job),
        **{name: getattr(request, name) for name in ("nodes", "requested_s", "release", "deadline", "job_id")},
        "places": places_text(place.processors.tolist()),
        "planned_start": max(place.start_h * HOUR_S, request.release),
        "planned_end": min(place.end_h * HOUR_S, request.deadline),
        "p_available": success.available,
        "p_executable": success.executable,
        "p_success": success.survives,
        "pos": success.pos,
        "predicted": predicted,
        "charge": offer.charge,
        "penalty": offer.penalty,
        "source": offer.accuracy.source,
        "source_jobs": offer.accuracy.jobs,
        "run_times": run_times,
        "strategy": config.strategy,
        "offered_at": now,
        "expires_at": now + config.hold_s,
    }
