"""The writer's HTTP side: ``POST /api/v1/samples``."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from flask import Flask, Response, current_app, request
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from jobsight_server.auth.tokens import AuthError, TokenCache
from jobsight_server.ingest.committer import GroupCommitter, OverloadedError
from jobsight_server.ingest.refusals import Refusal
from jobsight_server.ingest.store import Outcome, SampleStore, Submission
from jobsight_server.ingest.unpacking import BudgetError, UnpackingBudget, stated_length, unpack
from jobsight_server.ingest.wire import Batch, TooLargeError, WireError, decode
from jobsight_server.settings import Settings

_COMMIT_TIMEOUT_S = 30.0
_BUDGET_BYTES = 40 * 2**20  # for all batches that are being unpacked, decoded and committed, together
_QUARANTINED_BYTES = 64 * 1024  # of each refused body, enough to see what is wrong with it


class RefusedError(Exception):
    """A request that is answered with ``status``; ``body`` is what to keep in quarantine, if anything."""

    def __init__(self, status: int, reason: str, label: str, batch: Batch | None = None, *, keep: bool = True) -> None:
        super().__init__(reason)
        self.status, self.reason, self.label, self.batch, self.keep = status, reason, label, batch, keep


def create_writer(settings: Settings, engine: Engine, clock: Callable[[], float] = time.time) -> Flask:
    """The writer application on a writing ``engine``: takes in samples, nothing else."""
    app = Flask(__name__)
    committer = GroupCommitter(SampleStore(engine, settings.assumed_speed_bps, settings.quarantine_keep))
    app.extensions["committer"] = committer
    tokens = TokenCache(engine)
    budget = UnpackingBudget(_BUDGET_BYTES)

    @app.post("/api/v1/samples")
    def post_samples() -> Response:
        now = clock()
        try:
            tokens.authenticate(request.headers.get("Authorization"), ("agent",), now)
        except AuthError as error:
            committer.refuse(Refusal(str(error), "not authorised", now, 0, None))
            return _answer(error.status, {"error": str(error)}, error.headers)
        body = b""
        try:
            body = _read_body(settings.max_body_bytes)
            encoding = request.headers.get("Content-Encoding", "").strip().lower()
            with budget.batch(stated_length(body, encoding, settings.max_unpacked_bytes)):
                outcome = _take_in(committer, settings, body, encoding, now)
        except BudgetError as error:
            return _refuse(committer, RefusedError(503, str(error), "overloaded", keep=False), body, now)
        except RefusedError as refused:
            return _refuse(committer, refused, body, now)
        return _answer(200, {"status": outcome.status, **({"samples": outcome.samples} if outcome.samples else {})})

    @app.errorhandler(HTTPException)
    def elsewhere(error: HTTPException) -> Response:
        message = f"{request.method} {request.path[:200]}: {error.name}; the writer takes POST /api/v1/samples alone"
        return _answer(error.code or 500, {"error": message})

    @app.get("/health")
    def health() -> Response:
        return _answer(200, {"status": "ok"})

    return app


def _read_body(limit: int) -> bytes:
    length = request.content_length
    if length is not None and length > limit:
        raise RefusedError(413, f"the body has {length} bytes; at most {limit} are taken", "too large", keep=False)
    body = request.stream.read(limit + 1)
    if len(body) > limit:
        raise RefusedError(413, f"the body has more than {limit} bytes", "too large", keep=False)
    if length is not None and len(body) < length:
        raise RefusedError(400, f"the body ends after {len(body)} of {length} bytes", "cut short")
    return body


def _take_in(committer: GroupCommitter, settings: Settings, body: bytes, encoding: str, now: float) -> Outcome:
    try:
        payload = unpack(body, encoding, settings.max_unpacked_bytes)
    except TooLargeError as error:
        raise RefusedError(413, str(error), "too large", keep=False) from error
    except WireError as error:
        raise RefusedError(400, str(error), "not readable") from error
    try:
        batch = decode(payload)
    except WireError as error:
        raise RefusedError(422, str(error), "wrong content") from error
    _check_times(batch, settings, now)
    try:
        return _outcome(committer, Submission(batch, zlib.crc32(payload), now))
    except OverloadedError as error:
        raise RefusedError(503, str(error), "overloaded", keep=False) from error
    except (SQLAlchemyError, OverflowError, ValueError, FutureTimeout) as error:
        raise RefusedError(503, f"the database did not take the batch: {error}", "database", keep=False) from error


def _check_times(batch: Batch, settings: Settings, now: float) -> None:
    first, last = batch.time[0], batch.time[-1]
    if not (math.isfinite(last) and last <= now + settings.max_future_s):
        ahead = last - now
        raise RefusedError(
            422,
            f"time {last:.3f} lies {ahead:.0f} s ahead of the server's clock; at most {settings.max_future_s:g} s "
            "are allowed: set the node's clock",
            "time in the future",
            batch,
        )
    if first < now - settings.retention_days * 86400:
        raise RefusedError(
            422,
            f"time {first:.3f} is older than the {settings.retention_days:g} days that are kept",
            "too old",
            batch,
        )


def _outcome(committer: GroupCommitter, submission: Submission) -> Outcome:
    outcome = committer.submit(submission).result(timeout=_COMMIT_TIMEOUT_S)
    if outcome.status == "conflict":
        batch = submission.batch
        raise RefusedError(
            422,
            f"sequence {batch.sequence} of boot {batch.boot_id} was used before with other content; "
            "a sequence number names one batch",
            "conflict",
            batch,
        )
    return outcome


def _refuse(committer: GroupCommitter, refused: RefusedError, body: bytes, now: float) -> Response:
    batch = refused.batch
    kept = body[:_QUARANTINED_BYTES] if refused.keep else None
    refusal = Refusal(
        refused.reason,
        refused.label,
        now,
        len(body),
        kept,
        batch.cluster if batch else None,
        batch.node if batch else None,
    )
    try:
        committer.refuse(refusal)
    except OverloadedError as error:
        committer.refuse(Refusal(str(error), "overloaded", now, len(body), None))
        return _answer(503, {"error": str(error)}, {"Retry-After": "5"})
    headers = {"Retry-After": "5"} if refused.status == 503 else {}
    return _answer(refused.status, {"error": refused.reason}, headers)


def _answer(status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    response = Response(current_app.json.dumps(content), mimetype="application/json")
    response.status_code = status
    response.headers.update(headers or {})
    return response
