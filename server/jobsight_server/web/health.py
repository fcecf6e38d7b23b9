"""Routes for monitoring: ``/health``, the process is alive; ``/ready``, it can do its work; ``/metrics``."""

from __future__ import annotations

import http.client
import json
from typing import Literal

from flask import Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.accounting.last_read import is_unread
from jobsight_server.front.addresses import split_address
from jobsight_server.ground.answers import Record
from jobsight_server.ground.outage import AWAY, outage
from jobsight_server.queries.prometheus import exposition
from jobsight_server.storage.schema_version import NEWEST, version_of
from jobsight_server.web.kit.routes import AppContext, Route, context, reading, record_reply

_WRITER_TIMEOUT_S = 2.0


class Health(Record):
    """The process is alive."""

    status: Literal["ok"] = "ok"


class Ready(Record):
    """Readiness, or the reason why not."""

    status: Literal["ok", "unavailable"]
    reason: str | None


def show_health() -> Response:
    return record_reply(Health())


def show_ready() -> Response:
    """Reveal only the kind of problem: this answer needs no token."""
    here = context()
    reason = _database_problem(here) or _writer_problem(here)
    if reason is None:
        return record_reply(Ready("ok", None))
    return record_reply(Ready("unavailable", reason), 503, {"Retry-After": "5"})


def show_metrics() -> Response:
    """Return all counters and gauges, in the Prometheus text format 0.0.4."""
    return Response(exposition(reading(), context().clock()), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _database_problem(here: AppContext) -> str | None:
    settings = here.settings
    try:
        if version_of(reading()) != NEWEST:
            return "the database schema version does not match this program"
        if is_unread(reading(), settings.accounting, settings.follow_interval_s, here.clock()):
            return "an accounting log is not being read"
    except SQLAlchemyError as error:
        return outage(error) or AWAY
    return None


def _writer_problem(here: AppContext) -> str | None:
    if not here.settings.ingest_listen:
        return None  # writers run on other machines
    host, port = split_address(here.settings.ingest_listen)
    connection = http.client.HTTPConnection(host, port, timeout=_WRITER_TIMEOUT_S)
    try:
        connection.request("GET", "/ready")
        answer = connection.getresponse()
        if answer.status == 200:
            return None
        return f"the writer does not store batches: {json.loads(answer.read())['reason']}"
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return "the writer does not answer"
    finally:
        connection.close()


ROUTES = (
    Route("/health", show_health, "Whether this process is alive", roles=None, answer=Health),
    Route(
        "/ready",
        show_ready,
        "Whether database and writer answer, and accounting logs are read",
        roles=None,
        errors=(503,),
        answer=Ready,
    ),
    Route(
        "/metrics",
        show_metrics,
        "All counters and gauges, for Prometheus",
        answer=str,
        media_type=CONTENT_TYPE_PLAIN_0_0_4.partition("; charset")[0],
    ),
)
