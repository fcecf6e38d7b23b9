"""Offers and risks: a job asks for a time slot; the scheduler confirms or cancels it, and reports start and end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from flask import Response, request
from msgspec import Meta
from sqlalchemy import Connection
from werkzeug.exceptions import BadRequest, NotFound

from jobsight_server.ground.amounts import time_s
from jobsight_server.ground.answers import Record
from jobsight_server.ground.parameters import LATEST_TIME_S, TIME
from jobsight_server.systems.offers.calibration import read_calibration
from jobsight_server.systems.offers.offer import PlaceRequest, answer_request
from jobsight_server.systems.offers.outcome import OUTCOMES, cancel, confirm, report_end, report_start
from jobsight_server.systems.offers.queries import Offer, one_offer
from jobsight_server.systems.offers.settings import MOST_NODES
from jobsight_server.systems.offers.standing_plan import HOUR_S, Gap, PlaceSeller, Risk, risk_of
from jobsight_server.systems.offers.stored import cluster_nodes
from jobsight_server.web.kit.inputs import (
    WALLTIME_AT_MOST_S,
    AskedName,
    DescribedJob,
    Walltime,
    amount_of,
    job_in_body,
    name_text,
    parsed_body,
)
from jobsight_server.web.kit.routes import Route, context, error_reply, reading, record_reply
from jobsight_server.web.kit.system_parts import part

PLACE_AT_MOST_S = 10 * 365 * 86400.0
"""The longest requested time, and the farthest deadline, of a job in a plan."""

_HOURS_AT_MOST = PLACE_AT_MOST_S / 3600

Moment = Annotated[float, Meta(extra_json_schema=TIME)]
Nodes = Annotated[
    float,
    Meta(description="nodes", extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": MOST_NODES}),
]
Hours = Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": _HOURS_AT_MOST})]


class PlacedJob(DescribedJob, kw_only=True):
    """A job that asks for ``nodes`` nodes for ``walltime_s``, its requested run time."""

    nodes: Nodes
    walltime_s: Walltime


class RiskQuestion(PlacedJob, kw_only=True):
    """A job and a gap.

    The gap is from ``start`` (default: now) to ``end``, or of that many ``hours``. ``elapsed_s``: run time of the job
    before the gap.
    """

    start: Moment | None = None
    end: Moment | None = None
    hours: Hours | None = None
    elapsed_s: Walltime | None = None


def ask_risk() -> Response:
    here, seller = context(), part(PlaceSeller)
    shape = '{"cluster": C, "user": U, "nodes": N, "walltime_s": S, "hours": H}'
    asked = parsed_body(RiskQuestion, shape)
    cluster, job = job_in_body(asked, "")
    nodes, requested_s = placed(asked)
    start = here.clock() if asked.start is None else moment_of(asked.start, "start")
    end = _end(asked, start)
    elapsed_s = amount_of(asked.elapsed_s, "elapsed_s", time_s, WALLTIME_AT_MOST_S) if asked.elapsed_s else 0.0
    gap = Gap(cluster, job, nodes, requested_s, start, end, elapsed_s)
    accuracy = seller.run_times.of(reading(), cluster, job)
    correct = read_calibration(reading(), cluster).recalibration.as_of(here.clock() / HOUR_S)
    return record_reply(risk_of(seller.config, gap, accuracy, correct))


def placed(asked: PlacedJob) -> tuple[int, float]:
    """Return the number of nodes and the requested seconds of a job in a body.

    Raises:
        BadRequest: with the value, its field and what to do.
    """
    if not (asked.nodes.is_integer() and 1 <= asked.nodes <= MOST_NODES):
        raise BadRequest(f"nodes = {asked.nodes!r} is not a whole number from 1 to {MOST_NODES}")
    requested_s = amount_of(asked.walltime_s, "walltime_s", time_s, WALLTIME_AT_MOST_S)
    if not 1.0 <= requested_s <= PLACE_AT_MOST_S:
        raise BadRequest(f"walltime_s = {asked.walltime_s!r} is not from 1 s to {PLACE_AT_MOST_S:.0f} s (10 years)")
    return int(asked.nodes), requested_s


def moment_of(value: float, place: str) -> float:
    """Check a time in a body.

    Raises:
        BadRequest: it is not a time.
    """
    if not 0 <= value <= LATEST_TIME_S:
        raise BadRequest(f"{place} = {value!r} is not a time; give UTC epoch seconds")
    return value


def _end(asked: RiskQuestion, start: float) -> float:
    if (asked.end is None) == (asked.hours is None):
        raise BadRequest("give either the gap's end or its length in hours")
    if asked.hours is not None:
        if not 0 < asked.hours <= _HOURS_AT_MOST:
            raise BadRequest(f"hours = {asked.hours!r} is not above 0 and at most {_HOURS_AT_MOST:.0f} (10 years)")
        return start + asked.hours * 3600.0
    assert asked.end is not None
    end = moment_of(asked.end, "end")
    if end <= start:
        raise BadRequest(f"end = {end!r} is not after the start, {start!r}")
    return end


_LONGEST_NAME = 1000

JobId = Annotated[AskedName, Meta(description="the job's number in the accounting log, to find its start and end")]


class PlaceQuestion(PlacedJob, kw_only=True):
    """A job that asks for a time slot between ``release`` (default: now) and ``deadline``."""

    deadline: Moment
    release: Moment | None = None
    job_id: JobId | None = None


class Confirmation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Takes an offered time slot."""

    job_id: JobId | None = None


class Cancellation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Gives a time slot up; the body is ``{}``."""


class StartReport(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The job has started, at ``time`` (default: now)."""

    time: Moment | None = None


class EndReport(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The job has ended, at ``time`` (default: now).

    ``killed``: stopped because its time in the plan was over; ``failed``: for another reason, such as a node failure.
    """

    outcome: Annotated[str, Meta(extra_json_schema={"enum": [*OUTCOMES]})]
    time: Moment | None = None


class OfferAnswer(Record):
    """The offer, which has to be confirmed before it expires, or why the job was rejected.

    ``candidates`` is the number of time slots considered.
    """

    accepted: bool
    reason: str | None
    candidates: int
    offer: Offer | None


def ask_place() -> Response:
    here, seller = context(), part(PlaceSeller)
    asked = parsed_body(
        PlaceQuestion, '{"cluster": C, "user": U, "nodes": N, "walltime_s": S, "deadline": UTC_SECONDS}'
    )
    cluster, job = job_in_body(asked, "")
    nodes, requested_s = placed(asked)
    now = here.clock()
    release, deadline = _span(asked, now)
    job_id = _job_id(asked.job_id)
    with here.read_engine.connect() as connection:
        in_cluster, _ = cluster_nodes(connection, seller.config, cluster)
        accuracy = seller.run_times.of(connection, cluster, job)
    if not in_cluster:
        return error_reply(
            f"cluster = {cluster[:60]!r} has no nodes to plan with; set nodes of [offers], or run agents there",
            409,
        )
    place = PlaceRequest(cluster, in_cluster, job, nodes, requested_s, release, deadline, job_id)
    with here.write_engine.begin() as connection:
        number, decision = answer_request(connection, seller.plans, seller.config, place, accuracy, now)
    offer = None if number is None else _offer(number)
    return record_reply(OfferAnswer(offer is not None, decision.reason or None, decision.candidates, offer))


def show_offer() -> Offer:
    return _offer(_number())


def confirm_offer() -> Response:
    sent = parsed_body(Confirmation, '{"job_id": JOB}, or {}')
    job_id = _job_id(sent.job_id)
    return _changed(lambda connection, number, now: confirm(connection, number, job_id, now))


def cancel_offer() -> Response:
    parsed_body(Cancellation, "{}")
    return _changed(cancel)


def report_started() -> Response:
    at = _past(parsed_body(StartReport, '{"time": UTC_SECONDS}, or {}').time)
    return _changed(lambda connection, number, now: report_start(connection, number, at, now))


def report_ended() -> Response:
    sent = parsed_body(EndReport, '{"outcome": "finished", "killed" or "failed"}, and time')
    for outcome in OUTCOMES:
        if outcome == sent.outcome:
            break
    else:
        raise BadRequest(f"outcome = {sent.outcome[:60]!r} is unknown; use one of: {', '.join(OUTCOMES)}")
    at = _past(sent.time)
    return _changed(lambda connection, number, now: report_end(connection, number, outcome, at, now))


def _changed(change: Callable[[Connection, int, float], None]) -> Response:
    here, number = context(), _number()
    with here.write_engine.begin() as connection:
        change(connection, number, here.clock())
    return record_reply(_offer(number))


def _offer(number: int) -> Offer:
    found = one_offer(reading(), part(PlaceSeller), number, context().clock())
    if found is None:  # the oldest are deleted
        raise NotFound(f"id = {number}: unknown or deleted offer")
    return found


def _number() -> int:
    assert request.view_args is not None
    return int(request.view_args["id"])


def _job_id(value: str | None) -> str | None:
    if value is not None and len(name_text(value, "job_id")) > _LONGEST_NAME:
        raise BadRequest(f"job_id has {len(value)} characters; at most {_LONGEST_NAME} are kept")
    return value


def _span(asked: PlaceQuestion, now: float) -> tuple[float, float]:
    """Return release and deadline."""
    release = now if asked.release is None else moment_of(asked.release, "release")
    deadline = moment_of(asked.deadline, "deadline")
    if deadline <= max(release, now):
        raise BadRequest(f"deadline = {deadline!r} is not after the release, and after now ({now:.0f})")
    if deadline > now + PLACE_AT_MOST_S:
        raise BadRequest(f"deadline = {deadline!r} is more than 10 years ahead")
    return max(release, now), deadline


def _past(value: float | None) -> float | None:
    if value is None:
        return None
    here = context()
    at, now = moment_of(value, "time"), here.clock()
    if at > now + here.settings.max_future_s:
        raise BadRequest(f"time = {at!r} is in the future; it is {now:.0f} now")
    return at


def _change(action: str, handler: Callable[[], Response], summary: str, body: type) -> Route:
    path = f"/api/v1/offers/{{id}}/{action}"
    return Route(path, handler, summary, method="POST", errors=(409, 410), answer=Offer, body=body)


ROUTES = (
    Route(
        "/api/v1/risk",
        ask_risk,
        "Whether a job fits a gap: its probability of success with its three factors, and their value",
        method="POST",
        answer=Risk,
        body=RiskQuestion,
    ),
    Route(
        "/api/v1/offers",
        ask_place,
        "Asks for a time slot in the plan: an offer of nodes and time, or the reason why not",
        method="POST",
        errors=(409,),
        answer=OfferAnswer,
        body=PlaceQuestion,
    ),
    Route("/api/v1/offers/{id}", show_offer, "One offer"),
    _change("confirm", confirm_offer, "Takes the time slot; sent twice, it counts once", Confirmation),
    _change("cancel", cancel_offer, "Gives the time slot up; sent twice, it counts once", Cancellation),
    _change("started", report_started, "The job has started; sent twice, it counts once", StartReport),
    _change(
        "ended", report_ended, "The job has ended: the rest of its time is free; sent twice, it counts once", EndReport
    ),
)
