"""Connects the front end to a WSGI application (PEP 3333)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import httptools

from jobsight_server.front.messages import HttpResponse, Request, error_answer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)


def target_parts(target: bytes) -> tuple[str, str] | None:
    """Path, with escapes resolved, and query of a request's target; None if it has no path."""
    if not target.startswith(b"/"):
        try:
            target = _origin_form(target)
        except (httptools.HttpParserInvalidURLError, ValueError):
            return None
        if not target.startswith(b"/"):
            return None
    path, _, query = target.partition(b"#")[0].partition(b"?")
    if b"%" in path:
        path = unquote_to_bytes(path)
    return path.decode("latin-1"), query.decode("latin-1")


def _origin_form(target: bytes) -> bytes:
    """``/path?query`` of ``http://host/path?query``, as a client may send to a proxy."""
    url = httptools.parse_url(target)
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")


def environ_of(request: Request, path: str, query: str, server: tuple[str, str], client: str) -> WSGIEnvironment:
    """The environment of PEP 3333. Names with an underscore are dropped: ``X_A`` could pass for ``X-A``."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": server[0],
        "SERVER_PORT": server[1],
        "SERVER_PROTOCOL": f"HTTP/{request.version}",
        "REMOTE_ADDR": client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": request.body,
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in request.headers:
        if "_" in name:
            continue
        key = name.upper().replace("-", "_")
        if key in {"CONTENT_LENGTH", "TRANSFER_ENCODING"}:
            continue
        key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
        joint = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = f"{environ[key]}{joint}{value}" if key in environ else value
    if request.declared is not None:
        environ["CONTENT_LENGTH"] = str(request.declared)
    elif request.received and not request.cut:
        environ["CONTENT_LENGTH"] = str(request.received)
    return environ


def run_app(app: WSGIApplication, environ: WSGIEnvironment) -> HttpResponse:
    """The application's whole response; exceptions are logged and answered 500."""
    try:
        return _run(app, environ)
    except Exception:
        log.exception("%s %s failed", environ["REQUEST_METHOD"], environ["PATH_INFO"][:200])
        return error_answer("500 Internal Server Error", "internal error; the server's log has the details")


def _run(app: WSGIApplication, environ: WSGIEnvironment) -> HttpResponse:
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
    return HttpResponse(status, headers, written[0] if len(written) == 1 else b"".join(written))
