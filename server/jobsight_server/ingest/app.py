"""The writer's HTTP side: ``POST /api/v1/samples``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import Any

from flask import Flask, Response, current_app, request
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from jobsight_server.auth.tokens import AuthError, TokenCache
from jobsight_server.ingest.committer import GroupCommitter, OverloadedError, UnavailableError, UnstorableError
from jobsight_server.ingest.judge import RefusedBatchError, check_sender, judge, judge_again
from jobsight_server.ingest.refusals import Refusal
from jobsight_server.ingest.retry import retry_next
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.submission import BatchOutcome, Submission
from jobsight_server.ingest.unpacking import BudgetError, UnpackingBudget, stated_length
from jobsight_server.seldom import Seldom
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters
from jobsight_server.storage.fence import Fence, take_over
from jobsight_server.storage.late_batches import late_after
from jobsight_server.storage.outage import driver_outage, outage

log = logging.getLogger(__name__)

_COMMIT_TIMEOUT_S = 30.0
_BUDGET_BYTES = 40 * 2**20  # for all batches together that are being unpacked, decoded and committed
_LOGGED_S, _MOST_LOGGED = 60.0, 100  # a cluster and node whose batches are refused; lines within that time
_EXAMPLE_S, _MOST_EXAMPLES = 3600.0, 20  # the same in the list of rejected data


def create_writer(
    settings: Settings,
    engine: Engine,
    clock: Callable[[], float] = time.time,
    fences: Sequence[Fence] = (),
    collected: frozenset[str] | None = None,
) -> Flask:
    """The writer application on a writing ``engine``: accepts only samples.

    ``fences``: of the process that holds the writer's locks; without one, the writer takes over from any other.
    ``collected``: the clusters that are collected here; None is all.
    """
    app = Flask(__name__)
    fences = fences or [take_over(engine, "writer", lambda: None)]
    guarded = engine
    for fence in fences:
        guarded = fence.guard(guarded)
    late_s = late_after(settings.profile_grace_s)
    store = SampleStore(guarded, settings.assumed_speed_bps, settings.quarantine_bytes, late_s, clock, collected)
    clusters = KnownClusters(engine, settings.declared_clusters | (collected or frozenset()))
    again = partial(retry_next, guarded, store, lambda body: judge_again(settings, body, clock(), clusters), collected)
    committer = GroupCommitter(store, chores=(store.settle, again, store.merger.step), on_fault=fences[0].end)
    app.extensions["committer"] = committer
    tokens = TokenCache(engine)
    budget = UnpackingBudget(_BUDGET_BYTES)
    logged, listed_before = Seldom(_LOGGED_S, _MOST_LOGGED), Seldom(_EXAMPLE_S, _MOST_EXAMPLES)

    @app.post("/api/v1/samples")
    def post_samples() -> Response:
        now = clock()
        try:
            token = tokens.authenticate(request.headers.get("Authorization"), ("agent",), now)
        except AuthError as error:
            committer.refuse(Refusal(str(error), "not authorised", now, 0, None))
            return _answer(error.status, {"error": str(error)}, error.headers)
        body = b""
        try:
            body = _read_body(settings.max_body_bytes)
            encoding = request.headers.get("Content-Encoding", "").strip().lower()
            permitted = partial(check_sender, token, clusters, collected)
            with budget.batch(stated_length(body, encoding, settings.max_unpacked_bytes)):
                outcome = _outcome(committer, judge(settings, body, encoding, now, permitted))
        except BudgetError as error:
            return _refuse(committer, RefusedBatchError(503, str(error), "overloaded", keep=False), body, now)
        except RefusedBatchError as refused:
            example = False
            if (batch := refused.batch) is not None and not refused.keep:
                sender = (refused.label, batch.cluster, batch.node)
                if logged.lets(sender, now):
                    whose = batch.cluster[:100], batch.node[:100]
                    log.warning(
                        "a batch of cluster %r, node %r was refused with %d: %s", *whose, refused.status, refused.reason
                    )
                example = listed_before.lets(sender, now)
            return _refuse(committer, refused, body, now, example=example)
        return _answer(200, {"status": outcome.status, **({"samples": outcome.samples} if outcome.samples else {})})

    @app.errorhandler(HTTPException)
    def elsewhere(error: HTTPException) -> Response:
        message = f"{request.method} {request.path[:200]}: {error.name}; the writer accepts only POST /api/v1/samples"
        return _answer(error.code or 500, {"error": message})

    def away(error: Exception) -> Response:
        """A look-up, such as that of a token, that the database did not answer."""
        reason = outage(error) if isinstance(error, SQLAlchemyError) else driver_outage(error)
        if reason is None:
            raise error
        log.warning("a request was answered 503: %s", reason)
        committer.report(reason)
        return _reject(committer, reason, "database", clock())

    for kind in (SQLAlchemyError, engine.dialect.loaded_dbapi.Error):
        app.register_error_handler(kind, away)

    @app.get("/health")
    @app.get("/ready")
    def health() -> Response:
        if committer.trouble is None:
            return _answer(200, {"status": "ok", "reason": None})
        return _answer(503, {"status": "unavailable", "reason": committer.trouble}, {"Retry-After": "5"})

    return app


def _read_body(limit: int) -> bytes:
    length = request.content_length
    if length is not None and length > limit:
        raise RefusedBatchError(
            413, f"the body has {length} bytes; at most {limit} are accepted", "too large", keep=False
        )
    body = request.stream.read(limit + 1)
    if len(body) > limit:
        raise RefusedBatchError(413, f"the body has more than {limit} bytes", "too large", keep=False)
    if length is not None and len(body) < length:
        raise RefusedBatchError(400, f"the body ends after {len(body)} of {length} bytes", "cut short")
    return body


def _outcome(committer: GroupCommitter, submission: Submission) -> BatchOutcome:
    batch = submission.batch
    try:
        outcome = _done(committer.submit(submission))
    except OverloadedError as error:
        raise RefusedBatchError(503, str(error), "overloaded", keep=False) from error
    except UnavailableError as error:
        raise RefusedBatchError(503, str(error), "database", keep=False) from error
    except UnstorableError as error:
        raise RefusedBatchError(422, str(error), "cannot be stored", batch) from error
    if outcome.status == "conflict":
        raise RefusedBatchError(
            422,
            f"sequence {batch.sequence} of boot {batch.boot_id} was already used with other content; "
            "give each batch a number of its own",
            "conflict",
            batch,
        )
    return outcome


def _done(future: Future[BatchOutcome]) -> BatchOutcome:
    """The outcome, once it is durable."""
    try:
        return future.result(timeout=_COMMIT_TIMEOUT_S)
    except FutureTimeout as error:
        raise UnavailableError(f"the batch was not written within {_COMMIT_TIMEOUT_S:g} s") from error


def _refuse(
    committer: GroupCommitter, refused: RefusedBatchError, body: bytes, now: float, *, example: bool = False
) -> Response:
    """Answers only once the body is in quarantine: the agent will not send it again."""
    batch = refused.batch
    refusal = Refusal(
        refused.reason,
        refused.label,
        now,
        len(body),
        body if refused.keep else None,
        batch.cluster if batch else None,
        batch.node if batch else None,
        example,
    )
    try:
        _done(committer.refuse(refusal))
    except OverloadedError as error:
        return _reject(committer, str(error), "overloaded", now)
    except UnavailableError as error:
        return _reject(committer, str(error), "database", now)
    except UnstorableError:
        committer.refuse(Refusal(refused.reason, refused.label, now, len(body), None))
    headers = {"Retry-After": "5"} if refused.status == 503 else {}
    return _answer(refused.status, {"error": refused.reason}, headers)


def _reject(committer: GroupCommitter, reason: str, label: str, now: float) -> Response:
    """A batch to be sent again later: counted, not kept."""
    committer.refuse(Refusal(reason, label, now, 0, None))
    return _answer(503, {"error": reason}, {"Retry-After": "5"})


def _answer(status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    response = Response(current_app.json.dumps(content), mimetype="application/json")
    response.status_code = status
    response.headers.update(headers or {})
    return response
