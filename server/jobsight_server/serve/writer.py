"""The writer's port."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

from flask import Flask

from jobsight_server.front.addresses import listen
from jobsight_server.front.server import BACKLOG, Front, recorder, run
from jobsight_server.front.table import process_limits
from jobsight_server.front.wsgi import (
    AsgiApp,
    Receive,
    Scope,
    Send,
    WsgiAnswer,
    WsgiBridge,
    environ_of,
    run_app,
    send_answer,
)
from jobsight_server.ingest.app import SAMPLES, create_writer
from jobsight_server.ingest.reception import Committing, Reception, outcome_content
from jobsight_server.ingest.wire import Submission, stated_length
from jobsight_server.settings import Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.lock import Fence

_BODY_BYTES = 64 * 1024
_UNPACKED_BYTES = 128 * 1024  # decoding blocks the loop for a millisecond or two
_PATIENCE_S = 5.0  # then a thread waits; once all do, further requests wait for a thread
_READ = {b"authorization", b"content-encoding", b"content-length"}
_HEADERS = [("content-type", "application/json")]
_ANSWERED = {"stored", "duplicate"}


class SmallBatches:
    """The ASGI application before ``rest``; a batch that is not stored soon waits in a thread of ``lane``."""

    def __init__(self, reception: Reception, max_body_bytes: int, rest: AsgiApp, lane: Executor) -> None:
        self._reception, self._rest, self._lane = reception, rest, lane
        self._body_bytes = min(_BODY_BYTES, max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self._plain_headers(scope)
        if headers is None:
            await self._rest(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            return
        encoding = headers.get(b"content-encoding", "").strip().lower()
        length, budget = stated_length(body, encoding, _UNPACKED_BYTES), self._reception.budget
        answer = None
        if length and budget.take_at_once(length):
            try:
                begun = self._reception.begin(headers[b"authorization"], encoding, body)
                if begun is not None:
                    answer = await self._answer(scope, *begun, body)
            finally:
                budget.give_back(length)
        if answer is None:
            await self._rest(scope, partial(_again, body), send)
        else:
            await send_answer(send, answer, close=False)

    def _plain_headers(self, scope: Scope) -> dict[bytes, str] | None:
        """Return the relevant headers; None if the request is not plain."""
        if scope["path"] != SAMPLES or scope["method"] != "POST":
            return None
        found: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            if name in found or name == b"transfer-encoding":
                return None
            if name in _READ:
                found[name] = value.decode("latin-1")
        short = 0 < int(found.get(b"content-length", 0)) <= self._body_bytes
        return found if short and b"authorization" in found else None

    async def _answer(self, scope: Scope, submission: Submission, committing: Committing, body: bytes) -> WsgiAnswer:
        waiting = asyncio.wrap_future(committing)
        waiting.add_done_callback(
            lambda late: late.cancelled() or late.exception()
        )  # ``conclude`` reports one that is late
        done, _ = await asyncio.wait([waiting], timeout=_PATIENCE_S)
        if done and waiting.exception() is None:
            outcome = waiting.result()
            if outcome.status in _ANSWERED:
                content = json.dumps(outcome_content(outcome)).encode()
                return WsgiAnswer("200", _HEADERS, content)

        def conclude(environ: Any, start_response: Any) -> Any:
            return self._reception.conclude(submission, committing, body)(environ, start_response)

        work = partial(run_app, conclude, environ_of(scope))
        return await asyncio.get_running_loop().run_in_executor(self._lane, work)


async def _body(receive: Receive) -> bytes | None:
    """Return the body; None if the client has gone."""
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message["body"])
        more = message["more_body"]
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _again(body: bytes) -> dict[str, Any]:
    """Return the body again, as ``receive`` would."""
    return {"type": "http.request", "body": body, "more_body": False}


_HELD_BYTES = 8 * 2**20
_GRACE_S = 15


def serve_writer(
    settings: Settings, fences: Sequence[Fence], beat: Callable[[], None], clusters: frozenset[str] | None = None
) -> None:
    """Serve until SIGTERM; everything acknowledged is stored. ``clusters``: those collected here; None is all."""
    listener = listen(settings.ingest_listen, BACKLOG)
    engine = open_engine(settings.database)
    app = create_writer(settings, engine, fences=fences, collected=clusters)
    lane = ThreadPoolExecutor(settings.ingest_threads, "ingest")
    front = writer_front(app, settings, lane, recorder(engine, "writer"), beat)
    gc.freeze()
    try:
        run(front, [listener])
    finally:
        app.extensions["committer"].close()


def writer_front(
    app: Flask,
    settings: Settings,
    lane: Executor,
    record: Callable[[dict[str, int]], None] = lambda dropped: None,
    beat: Callable[[], None] = lambda: None,
) -> Front:
    """Return the front end of ``create_writer``'s application; small batches bypass it and its threads, ``lane``."""
    bridge = WsgiBridge(
        app,
        lambda method, path, length: None if path == "/health" else lane,
        settings.max_body_bytes,
    )
    batches = SmallBatches(app.extensions["reception"], settings.max_body_bytes, bridge, lane)
    return Front(batches, process_limits(_HELD_BYTES, settings.max_body_bytes), _GRACE_S, record, beat)
