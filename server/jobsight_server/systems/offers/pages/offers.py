"""Offers: a job asks for a place in the plan; the scheduler confirms or cancels it, and reports start and end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from flask import Response, request
from msgspec import Meta
from sqlalchemy import Connection
from werkzeug.exceptions import BadRequest, NotFound

from jobsight_server.record import Record
from jobsight_server.systems.offers.cluster_nodes import cluster_nodes
from jobsight_server.systems.offers.offer import PlaceRequest, answer_request
from jobsight_server.systems.offers.outcome import OUTCOMES, cancel, confirm, report_end, report_start
from jobsight_server.systems.offers.pages.risk import PLACE_AT_MOST_S, Moment, PlacedJob, moment_of, placed
from jobsight_server.systems.offers.queries import Offer, one_offer
from jobsight_server.systems.offers.seller import PlaceSeller
from jobsight_server.web.kit.context import context, part
from jobsight_server.web.kit.inputs import name_text, parsed_body
from jobsight_server.web.kit.questions import AskedName, job_in_body
from jobsight_server.web.kit.routes import Route, error_reply, record_reply

_LONGEST_NAME = 1000

JobId = Annotated[
    AskedName, Meta(description="the job's number in the accounting log, by which its start and end are found")
]


class PlaceQuestion(PlacedJob, kw_only=True):
    """A job that asks for a place: from ``release`` on (default: now), and ended by its ``deadline``."""

    deadline: Moment
    release: Moment | None = None
    job_id: JobId | None = None


class Confirmation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Takes an offered place."""

    job_id: JobId | None = None


class Cancellation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Gives a place up; the body is ``{}``."""


class StartReport(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The job has started, at ``time`` (default: now)."""

    time: Moment | None = None


class EndReport(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The job has ended, at ``time`` (default: now).

    ``killed``: it was stopped because its time in the plan was over; ``failed``: for another reason, as a node failure.
    """

    outcome: Annotated[str, Meta(extra_json_schema={"enum": [*OUTCOMES]})]
    time: Moment | None = None


class OfferAnswer(Record):
    """The offer, which has to be confirmed before it expires, or why the job was rejected.

    ``candidates`` is the number of places that were considered.
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
    job_id = None if asked.job_id is None else _job_id(asked.job_id)
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
        answer = answer_request(connection, seller.plans, seller.config, place, accuracy, now)
    offer = None if answer.number is None else _offer(answer.number)
    return record_reply(OfferAnswer(offer is not None, answer.reason or None, answer.candidates, offer))


def show_offer() -> Offer:
    number = _number()
    found = _known(number)
    if found is None:
        raise NotFound(f"id = {number}: unknown offer, or one that is no longer kept")
    return found


def confirm_offer() -> Response:
    sent = parsed_body(Confirmation, '{"job_id": JOB}, or {}')
    job_id = None if sent.job_id is None else _job_id(sent.job_id)
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
    found = _known(number)
    if found is None:  # the oldest are deleted
        raise NotFound(f"id = {number}: this offer is no longer kept")
    return found


def _known(number: int) -> Offer | None:
    here = context()
    with here.read_engine.connect() as connection:
        return one_offer(connection, part(PlaceSeller), number, here.clock())


def _number() -> int:
    assert request.view_args is not None
    return int(request.view_args["id"])


def _job_id(value: str) -> str:
    if len(name_text(value, "job_id")) > _LONGEST_NAME:
        raise BadRequest(f"job_id has {len(value)} characters; at most {_LONGEST_NAME} are kept")
    return value


def _span(asked: PlaceQuestion, now: float) -> tuple[float, float]:
    """Release and deadline."""
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


_CHANGE_ERRORS = (400, 404, 409, 410, 413, 415)
ROUTES = (
    Route(
        "POST",
        "/api/v1/offers",
        ask_place,
        ("scheduler",),
        "Asks for a place in the plan: an offer of nodes and time, or the reason why not",
        answer=OfferAnswer,
        body=PlaceQuestion,
        errors=(400, 404, 409, 413, 415),
    ),
    Route("GET", "/api/v1/offers/{id}", show_offer, ("scheduler",), "One offer as it stands", errors=(404,)),
    Route(
        "POST",
        "/api/v1/offers/{id}/confirm",
        confirm_offer,
        ("scheduler",),
        "Takes the place; sent twice, it counts once",
        answer=Offer,
        body=Confirmation,
        errors=_CHANGE_ERRORS,
    ),
    Route(
        "POST",
        "/api/v1/offers/{id}/cancel",
        cancel_offer,
        ("scheduler",),
        "Gives the place up; sent twice, it counts once",
        answer=Offer,
        body=Cancellation,
        errors=_CHANGE_ERRORS,
    ),
    Route(
        "POST",
        "/api/v1/offers/{id}/started",
        report_started,
        ("scheduler",),
        "The job has started; sent twice, it counts once",
        answer=Offer,
        body=StartReport,
        errors=_CHANGE_ERRORS,
    ),
    Route(
        "POST",
        "/api/v1/offers/{id}/ended",
        report_ended,
        ("scheduler",),
        "The job has ended: the rest of its time is free; sent twice, it counts once",
        answer=Offer,
        body=EndReport,
        errors=_CHANGE_ERRORS,
    ),
)
