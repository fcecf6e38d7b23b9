"""The writer's HTTP side: ``POST /api/v1/samples``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from flask import Flask, Response, request
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from jobsight_server.ingest.committer import GroupCommitter
from jobsight_server.ingest.reception import Reception, as_response, judge_again
from jobsight_server.ingest.retry import retry_next
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import RefusedBatchError, TooLargeError
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters
from jobsight_server.storage.late_batches import late_after
from jobsight_server.storage.lock import Fence, take_over
from jobsight_server.storage.outage import driver_outage, outage

log = logging.getLogger(__name__)

SAMPLES = "/api/v1/samples"


def create_writer(
    settings: Settings,
    engine: Engine,
    clock: Callable[[], float] = time.time,
    fences: Sequence[Fence] = (),
    collected: frozenset[str] | None = None,
) -> Flask:
    """Return the writer application on a writing ``engine``: it accepts only samples.

    ``fences``: those of the process with the writer's locks; without them, the writer takes over from any other.
    ``collected``: the clusters collected here; None is all.
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
    committer = GroupCommitter(store, chores=(again, store.joiner.step), on_fault=fences[0].end)
    reception = Reception(settings, engine, committer, clusters, clock, collected)
    app.extensions.update(committer=committer, reception=reception)

    @app.post(SAMPLES)
    def post_samples() -> Response:
        headers = request.headers
        encoding = headers.get("Content-Encoding", "").strip().lower()
        return reception.take(headers.get("Authorization"), encoding, _read_body)

    @app.errorhandler(HTTPException)
    def elsewhere(error: HTTPException) -> Response:
        message = f"{request.method} {request.path[:200]}: {error.name}; the writer accepts only POST {SAMPLES}"
        return as_response(error.code or 500, {"error": message})

    def away(error: Exception) -> Response:
        """Answer 503: the database did not answer a look-up, such as that of a token."""
        reason = outage(error) if isinstance(error, SQLAlchemyError) else driver_outage(error)
        if reason is None:
            raise error
        log.warning("a request was answered 503: %s", reason)
        committer.report(reason)
        return reception.reject(reason, "database", clock())

    for kind in (SQLAlchemyError, engine.dialect.loaded_dbapi.Error):
        app.register_error_handler(kind, away)

    @app.get("/health")
    @app.get("/ready")
    def health() -> Response:
        if committer.trouble is None:
            return as_response(200, {"status": "ok", "reason": None})
        return as_response(503, {"status": "unavailable", "reason": committer.trouble}, {"Retry-After": "5"})

    return app


def _read_body(limit: int) -> bytes:
    length = request.content_length
    if length is not None and length > limit:
        raise TooLargeError(f"the body has {length} bytes; at most {limit} are accepted")
    body = request.stream.read(limit + 1)
    if len(body) > limit:
        raise TooLargeError(f"the body has more than {limit} bytes")
    if length is not None and len(body) < length:
        raise RefusedBatchError(400, f"the body ends after {len(body)} of {length} bytes", "cut short")
    return body
