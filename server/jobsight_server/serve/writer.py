"""The writer's port: ``POST /api/v1/samples``, and its health."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from jobsight_server.front.addresses import listen
from jobsight_server.front.intake import Headers, Intake
from jobsight_server.front.server import BACKLOG, Front, recorder, run
from jobsight_server.front.table import process_limits
from jobsight_server.front.wsgi import Receive, Scope, Send, WsgiAnswer, send_answer
from jobsight_server.ingest import SAMPLES
from jobsight_server.ingest.reception import IngestReply, Reception
from jobsight_server.ingest.wire import TooLargeError
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.lock import ROLE_LOCK_S, Fence, role_lock

_HEALTH = ("/health", "/ready")
_HELD_BYTES = 8 * 2**20
_GRACE_S = 15
_THREADS = 8


class Writer:
    """The ASGI application of the writer."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception

    def take_now(self, headers: Headers, body: bytes, reply: Callable[[IngestReply], None]) -> bool:
        """Take an ordinary batch past ASGI; see ``Intake``."""
        encoding = _joined(headers, b"content-encoding").strip().lower()
        return self._reception.take_now(_joined(headers, b"authorization"), encoding, body, reply)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        unread = False
        if path == SAMPLES and method == "POST":
            body = _Body(scope, receive)
            try:
                answer = await self._reception.take(body.header(b"authorization"), body.encoding, body.read)
            except ConnectionResetError:
                return
            unread = body.is_unread
        elif path in _HEALTH and method in {"GET", "HEAD"}:
            answer = self._reception.health()
        else:
            status, name = (405, "Method Not Allowed") if path in {SAMPLES, *_HEALTH} else (404, "Not Found")
            message = f"{method} {path[:200]}: {name}; the writer accepts only POST {SAMPLES}"
            answer = IngestReply(status, {"error": message})
        headers = [("content-type", "application/json"), *answer.headers.items()]
        await send_answer(send, WsgiAnswer(str(answer.status), headers, answer.body), close=unread)


class _Body:
    """The body of a request, which is read only when asked for."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._receive = receive
        self.encoding = self.header(b"content-encoding").strip().lower()
        self.is_unread = True

    def header(self, wanted: bytes) -> str:
        return _joined(self._headers, wanted)

    async def read(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            TooLargeError: it has more bytes than ``limit``.
            ConnectionResetError: the client has gone.
        """
        declared = int(self.header(b"content-length") or 0)
        if declared > limit:
            raise TooLargeError(f"the body has {declared} bytes; at most {limit} are accepted")
        parts, length = [], 0
        while self.is_unread:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ConnectionResetError
            parts.append(message["body"])
            length += len(message["body"])
            if length > limit:
                raise TooLargeError(f"the body has more than {limit} bytes")
            self.is_unread = message["more_body"]
        return b"".join(parts)


def _joined(headers: Headers, wanted: bytes) -> str:
    """Return the values of a header, as PEP 3333 joins several."""
    return ",".join([value.decode("latin-1") for name, value in headers if name == wanted])


def run_role(settings: Settings, beat: Callable[[], None], clusters: Sequence[str]) -> None:
    """Collect samples of ``clusters``, or of all if empty, until SIGTERM: one process, with a thread that writes."""
    # In one order: two writers with common clusters must never wait for each other.
    names = [f"writer of {cluster}" for cluster in sorted(set(clusters))] or ["writer"]
    with ExitStack() as locks:
        # An engine each: in PostgreSQL each lock keeps a session, and a pool has few.
        fences = [locks.enter_context(role_lock(open_engine(settings.database), name, ROLE_LOCK_S)) for name in names]
        _serve(settings, fences, beat, frozenset(clusters) or None)


def _serve(
    settings: Settings, fences: Sequence[Fence], beat: Callable[[], None], clusters: frozenset[str] | None
) -> None:
    """Serve until SIGTERM; everything acknowledged is stored."""
    listener = listen(settings.ingest_listen, BACKLOG)
    engine = open_engine(settings.database)
    reception = Reception(settings, engine, ThreadPoolExecutor(_THREADS, "ingest"), fences=fences, collected=clusters)
    front = writer_front(reception, settings, recorder(engine, "writer"), beat)
    gc.freeze()
    try:
        run(front, [listener])
    finally:
        reception.committer.close()


def writer_front(
    reception: Reception,
    settings: Settings,
    record: Callable[[dict[str, int]], None] = lambda dropped: None,
    beat: Callable[[], None] = lambda: None,
) -> Front:
    """Return the front end of the writer."""
    limits = process_limits(_HELD_BYTES, settings.max_body_bytes)
    writer = Writer(reception)
    return Front(writer, limits, _GRACE_S, record, beat, partial(Intake, writer.take_now, SAMPLES))
