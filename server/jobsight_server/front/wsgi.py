"""A bridge from uvicorn to a WSGI application (PEP 3333), which sees only complete requests."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from jobsight_server.auth.client_address import UNIX

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

_IN_MEMORY_BYTES = 64 * 1024  # bytes of one body in memory; a longer one goes to a temporary file
READING = frozenset({"GET", "HEAD"})
_SERVER: dict[str, Any] = {
    "SCRIPT_NAME": "",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.input_terminated": True,
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
}

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WsgiAnswer:
    """``status`` is a code, maybe with a phrase; ``headers`` need not name the length."""

    status: str
    headers: Sequence[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class WsgiBridge:
    """The ASGI application that runs ``app``.

    ``lane_of``: the threads by method, path and length of the body; None for the event loop itself.
    ``body_limit``: the longest body.
    """

    app: WSGIApplication
    lane_of: Callable[[str, str, int], Executor | None]
    body_limit: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        environ = environ_of(scope)
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        limit = self.body_limit
        declared, chunked = environ.get("CONTENT_LENGTH"), environ.pop("HTTP_TRANSFER_ENCODING", None)
        length = int(declared or 0)
        cut = length > limit  # the rest of the body is discarded, and the connection cannot be reused
        spooled = chunked or length > _IN_MEMORY_BYTES
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) if spooled else io.BytesIO() as body:
            if not cut and (length or chunked):
                try:
                    received = await _receive_body(receive, body, limit)
                except OSError as error:
                    log.error("cannot keep a body of %d bytes: %s", length, error)
                    message = "the server has no room for a body of this length now; try again later"
                    await send_answer(send, error_answer("503", message, ("retry-after", "5")), close=True)
                    return
                if received is None:
                    return
                cut = received > limit
                if chunked and not cut:
                    environ["CONTENT_LENGTH"] = str(received)
                length = received
            if cut:
                answer = error_answer("413", f"the body has more than {limit} bytes")
            else:
                environ["wsgi.input"] = body
                lane = self.lane_of(method, path, length)
                run = partial(run_app, self.app, environ)
                if lane is None:
                    answer = run()
                elif method in READING:
                    answer = await asyncio.get_running_loop().run_in_executor(lane, run)
                elif (changed := await _unless_gone(lane, run, receive)) is not None:
                    answer = changed
                else:
                    return
            await send_answer(send, answer, close=cut)


async def _unless_gone(lane: Executor, run: Callable[[], WsgiAnswer], receive: Receive) -> WsgiAnswer | None:
    """Return the answer to a change, which is not begun once its client has gone; then None."""
    answer = asyncio.get_running_loop().run_in_executor(lane, run)
    gone: asyncio.Future[Any] = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
        return None if gone.done() and not answer.done() and answer.cancel() else await answer
    finally:
        gone.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] == "http.request":
        pass


def environ_of(scope: Scope) -> WSGIEnvironment:
    """Return the environment of PEP 3333. Names with an underscore are dropped: ``X_A`` could pass for ``X-A``."""
    path, server, client = scope["raw_path"], scope["server"], scope["client"]
    if b"%" in path:
        path = unquote_to_bytes(path)
    environ = {
        **_SERVER,
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": path.decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": str(server[0]) if server else "",
        "SERVER_PORT": str(server[1] or "") if server else "",
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        # A TCP client that has gone has no address either: its request is not from a Unix socket.
        "REMOTE_ADDR": client[0] if client else UNIX if server and server[1] is None else "",
        "wsgi.errors": sys.stderr,
    }
    for raw_name, raw_value in scope["headers"]:
        if b"_" in raw_name:
            continue
        key, value = raw_name.decode("latin-1").upper().replace("-", "_"), raw_value.decode("latin-1")
        if key not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
            key = f"HTTP_{key}"
        joint = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = f"{environ[key]}{joint}{value}" if key in environ else value
    return environ


def error_answer(status: str, message: str, *headers: tuple[str, str]) -> WsgiAnswer:
    """Return an error of the front end, in the form of the API's."""
    body = json.dumps({"error": message}).encode()
    return WsgiAnswer(status, [("content-type", "application/json"), ("cache-control", "no-store"), *headers], body)


def run_app(app: WSGIApplication, environ: WSGIEnvironment) -> WsgiAnswer:
    """Return the application's whole response; exceptions are logged and answered 500."""
    try:
        return _run(app, environ)
    except Exception:  # PEP 3333: a server answers for any fault of the application
        log.exception("%s %s failed", environ["REQUEST_METHOD"], environ["PATH_INFO"][:200])
        return error_answer("500", "internal error; the server's log has the details")


async def _receive_body(receive: Receive, body: IO[bytes], limit: int) -> int | None:
    """Return the number of bytes written to ``body``, at most one more than ``limit``; None if the client has gone."""
    received, more = 0, True
    while more and received <= limit:
        message = await receive()
        if message["type"] != "http.request":
            return None
        received += body.write(message["body"][: limit + 1 - received])
        more = message["more_body"]
    body.seek(0)
    return received


async def send_answer(send: Send, answer: WsgiAnswer, *, close: bool) -> None:
    """Send the whole answer; ``close`` ends the connection afterwards."""
    headers = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.headers]
    bodiless = answer.status[:1] == "1" or answer.status[:3] in {"204", "304"}
    if not bodiless and not any(name.lower() == b"content-length" for name, _ in headers):
        headers.append((b"content-length", b"%d" % len(answer.body)))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": int(answer.status[:3]), "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _run(app: WSGIApplication, environ: WSGIEnvironment) -> WsgiAnswer:
    started: list[tuple[str, list[tuple[str, str]]]] = []
    written: list[bytes] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _exc_info: object = None, /
    ) -> Callable[[bytes], object]:
        started[:] = [(status, headers)]
        return written.append

    content: Iterable[bytes] = app(environ, start_response)
    try:
        written.extend(content)
    finally:
        close = getattr(content, "close", None)
        if close is not None:
            close()
    status, headers = started[0]
    return WsgiAnswer(status, headers, written[0] if len(written) == 1 else b"".join(written))
