"""``POST /api/v1/samples`` on the query side: forwards it unchanged to the writer and returns the answer.

Only the writer judges and counts batches, so a request that it will refuse by its headers (a wrong token, a body too
long) is forwarded as well, but without its body: the former as if it had none, the latter with its length, which the
writer refuses before it waits for a body.
"""

from __future__ import annotations

import http.client
from typing import Literal

from flask import Response, request
from msgspec import UNSET, UnsetType

from jobsight_server.auth.tokens import AuthError
from jobsight_server.forecasts.record import Record
from jobsight_server.front.addresses import split_address
from jobsight_server.ingest.wire import Batch
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.web.kit.routes import AppContext, Route, context, error_reply

_TIMEOUT_S = 15.0
_HANDED_ON = ("Authorization", "Content-Encoding", "Content-Type", "User-Agent")
_HANDED_BACK = ("Content-Type", "Retry-After", "WWW-Authenticate")


class Stored(Record):
    """The outcome of a batch; ``samples`` if it was stored."""

    status: Literal["stored", "duplicate"]
    samples: int | UnsetType = UNSET


def relay_samples() -> Response:
    here = context()
    try:
        here.tokens.authenticate(request.headers.get("Authorization"), ("agent",), here.clock())
    except AuthError as error:
        if not here.settings.ingest_listen:
            return error_reply(str(error), error.status, error.headers)
        return _hand_on(here, b"", 0, error.headers)
    if not here.settings.ingest_listen:
        with here.write_engine.begin() as connection:
            add_event_counts(
                connection, {("batches_received", ""): 1, ("batches_rejected", "collected by another server"): 1}
            )
        # 403: the agent keeps the batch until its settings are corrected.
        return error_reply("this server has no writer: send to the server that collects the cluster", 403)
    limit = here.settings.max_body_bytes
    length = request.content_length
    if length is not None and length > limit:
        return _hand_on(here, b"", length, {})
    body = request.stream.read(limit + 1)
    return _hand_on(here, body, len(body), {})


def _hand_on(here: AppContext, body: bytes, length: int, extra: dict[str, str]) -> Response:
    host, port = split_address(here.settings.ingest_listen)
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.putrequest("POST", "/api/v1/samples", skip_accept_encoding=True)
        for name in _HANDED_ON:
            value = request.headers.get(name)
            if value is not None:
                connection.putheader(name, value.encode("latin-1", "replace"))
        connection.putheader("Content-Length", str(length))
        connection.putheader("Connection", "close")
        connection.endheaders(body or None)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException, ValueError):
        return error_reply("the writer does not answer; keep the batch and send it again", 503, {"Retry-After": "5"})
    finally:
        connection.close()
    headers = {**extra, **{name: value for name in _HANDED_BACK if (value := answer.headers.get(name))}}
    return Response(content, answer.status, headers)


ROUTES = (
    Route(
        "/api/v1/samples",
        relay_samples,
        "A batch of readings of one node (see docs/operate/wire-format.md), checked by the writer",
        method="POST",
        roles=("agent",),
        errors=(403, 422, 429, 503),
        answer=Stored,
        body=Batch,
        checks_roles_itself=True,
    ),
)
