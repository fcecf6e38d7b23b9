"""Matches of jobs to resources, at once or through the queue: their holds, and the reasons of jobs that wait."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from flask import Blueprint, Response, redirect, request, url_for
from msgspec import Meta
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.ground.answers import Record
from jobsight_server.ground.parameters import Parameter, choice_of
from jobsight_server.storage.engine import LARGEST_ID
from jobsight_server.systems.matching.pages.definitions import objectives
from jobsight_server.systems.matching.queries import (
    MATCHES,
    STATES,
    MatchDetail,
    MatchEntry,
    MatchList,
    match_detail,
    match_list,
)
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.systems.matching.store_matches import LONGEST_HOLD_S, release, renew
from jobsight_server.systems.matching.submissions import BatchAnswer, SubmissionKey, SubmittedJobs
from jobsight_server.web.kit.inputs import choice_argument, parsed_body
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import Route, context, reading, record_reply
from jobsight_server.web.kit.system_parts import part

RELEASED_AT_MOST = 10_000

_SHAPE = '{"jobs": [{"name": N, "dependencies": [{"name": D, "type": T, "amounts": {...}}]}]}'

Number = Annotated[int, Meta(ge=1, le=LARGEST_ID)]


Jobs = Annotated[list[Any], Meta(max_length=10_000)]


class JobBatch(msgspec.Struct, forbid_unknown_fields=True):
    """Jobs to match (systems/matching/README.md); ``objectives`` override the administrator's.

    With a ``key``, the batch can be sent again: its matched jobs keep their match.
    """

    jobs: Jobs
    objectives: list[Any] | None = None
    key: SubmissionKey | None = None


class QueuedBatch(msgspec.Struct, forbid_unknown_fields=True):
    """Jobs to queue (systems/matching/README.md). With a ``key``, they can be sent again: no job is queued twice."""

    jobs: Jobs
    key: SubmissionKey | None = None


class Renewal(msgspec.Struct, forbid_unknown_fields=True):
    """Time for which the match should hold from now on."""

    duration_s: Annotated[float, Meta(gt=0, le=LONGEST_HOLD_S)]


class MatchNumbers(msgspec.Struct, forbid_unknown_fields=True):
    """Matches to release, and queued jobs to cancel."""

    ids: Annotated[list[Number], Meta(max_length=RELEASED_AT_MOST)]


class ReleasedMatches(Record):
    """The matches that were still open."""

    released: list[int]


def match_batch() -> Response:
    is_dry = choice_argument("dry_run", ("1", "0")) == "1"
    batch = parsed_body(JobBatch, _SHAPE, context().settings.max_body_bytes)
    return record_reply(part(Matcher).match(batch.jobs, batch.objectives, is_dry, batch.key))


def queue_batch() -> Response:
    """Queue jobs, to be matched by the administrator's objectives."""
    batch = parsed_body(QueuedBatch, _SHAPE, context().settings.max_body_bytes)
    return record_reply(part(Matcher).submit(batch.jobs, batch.key))


def matches() -> MatchList:
    return match_list(reading(), context().clock(), asked_of(MATCHES))


def match_of_path() -> MatchDetail:
    return match_detail(reading(), _number(), context().clock())


def renew_match() -> Response:
    number, here = _number(), context()
    sent, now = parsed_body(Renewal, '{"duration_s": 900}'), here.clock()
    renew(here.write_engine, number, now + sent.duration_s, now)
    return record_reply(match_of_path().match)


def release_match() -> Response:
    """Release a match; one that has ended stays unchanged."""
    number, here = _number(), context()
    release(here.write_engine, [number], here.clock())
    return record_reply(match_of_path().match)


def release_matches() -> Response:
    here = context()
    sent = parsed_body(MatchNumbers, '{"ids": [1, 2]}', here.settings.max_body_bytes)
    return record_reply(ReleasedMatches(release(here.write_engine, sent.ids, here.clock())))


def _number() -> int:
    return int((request.view_args or {})["id"])


def _shown(_: MatchList) -> dict[str, Any]:
    names = [one if isinstance(one, str) else one["name"] for one in objectives().objectives]
    return {"states": STATES, "objectives": names}


MATCH = Route("/api/v1/matches/{id}", match_of_path, "One job: its match or the reason why it waits")
_change = partial(Route, method="POST", errors=(409,))
ROUTES = (
    Route(
        "/api/v1/matches",
        matches,
        "Queued jobs and matches, newest first; 50 a page",
        listing=MATCHES,
        page="matches",
        shown=_shown,
    ),
    MATCH,
    _change(
        "/api/v1/matches",
        match_batch,
        "Matches a batch: each job gets everything it needs or nothing; a match holds until released or expired",
        (Parameter("dry_run", "1: dry run; nothing is held", choice_of(("1", "0"))),),
        answer=BatchAnswer,
        body=JobBatch,
    ),
    _change(
        "/api/v1/matches/queue",
        queue_batch,
        "Queues jobs for the rounds of matching; GET /api/v1/matches/{id} shows the state of each",
        answer=SubmittedJobs,
        body=QueuedBatch,
    ),
    Route(
        "/api/v1/matches/release",
        release_matches,
        "Releases many matches, and cancels queued jobs",
        method="POST",
        answer=ReleasedMatches,
        body=MatchNumbers,
    ),
    Route(
        "/api/v1/matches/{id}",
        renew_match,
        "Renews a match that still holds",
        method="PUT",
        errors=(409,),
        answer=MatchEntry,
        body=Renewal,
    ),
    Route(
        "/api/v1/matches/{id}",
        release_match,
        "Releases a match, or cancels a queued job",
        method="DELETE",
        answer=MatchEntry,
    ),
)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/matches/<id:id>", endpoint="match")
    def show_one(**_names: int) -> AnyResponse:
        return page("match.html", match_of_path(), MATCH)

    @pages.post("/matches/<id:id>/end", endpoint="match_end")
    def end(**_names: int) -> AnyResponse:
        release(context().write_engine, [_number()], context().clock())
        return redirect(url_for("pages.match", id=_number()), 303)
