"""One client's connection: uvicorn's protocol, with limits of time and bytes on every part of a request."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from jobsight_server.front.table import ConnectionLimits, Table
from jobsight_server.ground.errors import RefusedError


class Wire:
    """Sends header and body of a response with one system call; uvicorn writes them one after the other.

    ``closing`` is called before the transport is closed; if it returns True, it keeps the connection for a while.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, closing: Callable[[], bool]):
        self._transport, self._loop, self._keeps_open = transport, loop, closing
        self._parts: list[bytes] = []
        self._closed = False
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.get_extra_info: Callable[..., Any] = transport.get_extra_info
        self.waiting_bytes = transport.get_write_buffer_size

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        if self._parts:
            data, self._parts = b"".join(self._parts), []
            if not self._transport.is_closing():
                self._transport.write(data)

    def send(self, data: bytes) -> None:
        """Send a whole response now."""
        self.flush()
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        if self.is_closing():
            return
        self._closed = True
        if self._keeps_open():
            self._transport.write_eof()
        else:
            self._transport.close()

    def abort(self) -> None:
        self.flush()
        self._closed = True
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._closed or self._transport.is_closing()


log = logging.getLogger(__name__)

# All connections receive into one buffer: a new one for each read makes the allocator return memory to the system and
# ask for it again with every request.
_RECEIVING = memoryview(bytearray(64 * 1024))


class Phase(Enum):
    HEADER = auto()
    BODY = auto()
    WORKING = auto()
    ANSWERING = auto()
    IDLE = auto()
    ENDING = auto()


class Connection(HttpToolsProtocol, asyncio.BufferedProtocol):
    """Additions to uvicorn: total deadlines, limits of bytes, trailers that are ignored, upgrades answered in HTTP/1.1,
    one ``Host``, responses to clients that are half closed or still sending."""

    def __init__(
        self,
        limits: ConnectionLimits,
        table: Table,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits, self._table = limits, table
        self._phase = Phase.IDLE
        self._in_header = False
        self._in_body = False
        self._unanswered = 0  # requests whose header is complete
        self._framing = 0  # bytes of this request that are not its body
        self._body = 0
        self._declared = 0
        self._fault = b""
        self._half_closed = False
        self.held = 0
        self.deadline = 0.0

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        stream.set_write_buffer_limits(high=0)  # then resume_writing means that everything has been sent
        self._wire = Wire(stream, self.loop, self._lingers)
        super().connection_made(cast(asyncio.Transport, self._wire))
        if self._table.make_place():
            self._enter(Phase.HEADER)
        else:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._phase = Phase.ENDING
        self._table.remove(self)
        self._release()
        super().connection_lost(exc)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        # Half closed: a client that still waits gets its response, then the connection closes.
        self._half_closed = self._unanswered > self._in_body
        return self._half_closed

    def get_buffer(self, sizehint: int) -> memoryview:
        return _RECEIVING

    def buffer_updated(self, nbytes: int) -> None:
        if self._phase is Phase.ENDING or self._fault:
            return
        self._framing += nbytes
        self.held += nbytes
        self._table.held_bytes += nbytes
        try:
            self._feed(_RECEIVING[:nbytes])
        except httptools.HttpParserError as error:
            self._refuse_for(error)
        if self._framing > self._limits.header_bytes + self._body:
            self._refuse(431, f"header, chunk sizes or trailers are longer than {self._limits.header_bytes} bytes")
        elif not (self._fault or self._table.make_room(self._limits.held_bytes, self)):
            self._try_later("other requests fill the memory for requests; try again later")
        self._settle()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._settle()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._settle()

    # httptools

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_header = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_header:  # else a trailer, which must not count as a header
            if len(self.headers) == self._limits.header_fields:
                raise RefusedError(f"more than {self._limits.header_fields} header fields", 431)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        hosts = self._declared = 0
        length = len(self.url)
        for name, value in self.headers:
            length += len(name) + len(value)
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                self._declared = int(value)
        if length > self._limits.header_bytes:
            raise RefusedError(f"the header is longer than {self._limits.header_bytes} bytes", 431)
        version = self.parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            raise RefusedError(f"HTTP/{version} is not spoken here; use HTTP/1.1", 505)
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            raise RefusedError(f"{hosts} Host headers; send one", 400)
        if not self.url.startswith((b"/", b"http://", b"https://")) or self.parser.get_method() == b"CONNECT":
            raise RefusedError(f"the target {self.url[:100]!r} has no path", 400)
        self._in_header = False
        if self._upgrades():
            return
        if self._unanswered == self._limits.pipelined:
            raise RefusedError(f"more than {self._limits.pipelined} pipelined requests without an answer", 400)
        self._begin_request()
        self._unanswered += 1
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        self._count_body(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._upgrades():
            super().on_message_complete()
            self._end_request()

    # uvicorn

    def on_response_complete(self) -> None:
        """Complete a response without uvicorn's own timer: the table has the deadline of an idle connection."""
        self._wire.flush()
        self._unanswered -= 1
        self._release()
        if not self._wire.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
        self._settle()

    def shutdown(self) -> None:
        """Stop: send responses under way, receive nothing more."""
        if self._unanswered > self._in_body:
            self.cycle.keep_alive = False
        else:
            self._phase = Phase.ENDING
            self._wire.close()

    # the table

    def expire(self) -> None:
        """End the connection, or refuse its request, at the deadline."""
        begun = self._in_header or self._in_body or self._framing > 0
        if self._phase in {Phase.HEADER, Phase.BODY}:
            self._table.dropped["request too slow" if begun else "no request"] += 1
            if begun:
                self._wire.write(_error(408, "the request took too long to arrive"))
        elif self._phase is Phase.ANSWERING:
            self._table.dropped["answer not read"] += 1
        self.drop()

    def drop(self) -> None:
        """End the connection now; its bytes count as free at once, or every other one would be dropped for them."""
        self._table.remove(self)
        self._release()
        self._phase = Phase.ENDING
        self._wire.abort()

    # steps

    def _begin_request(self) -> None:
        super().on_headers_complete()

    def _count_body(self, body: bytes) -> None:
        self._framing -= len(body)
        self._body += len(body)

    def _end_request(self) -> None:
        self._in_body = False
        self._framing = self._body = 0

    def _abandon_request(self) -> None:
        """Forget the request whose body arrives."""
        if self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline.popleft()
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _feed(self, data: memoryview) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # httptools skips the body of a request for another protocol, so read it again without the upgrade. Each
            # such request in ``data`` is at least one byte, so this ends.
            header = b"".join(b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade")
            method, version = self.parser.get_method(), self.parser.get_http_version().encode()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, header))
            rest = data[upgrade.args[0] :]
            if rest:
                self._feed(rest)

    def _upgrades(self) -> bool:
        return bool(self.parser.should_upgrade())

    def _refuse_for(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if isinstance(cause, RefusedError):
            self._refuse(cause.status, str(cause))
        elif cause is None or isinstance(cause, httptools.HttpParserError | UnicodeError | AttributeError):
            self._refuse(400, f"not an HTTP request: {cause or error}")
        else:
            log.error("cannot read a request", exc_info=cause)
            self._try_later("internal error while reading this request; try again later")

    def _try_later(self, message: str) -> None:
        # Never 400 without a fault of the client: agents set aside batches that get it.
        self._refuse(503, message, b"retry-after: 5\r\n")

    def _refuse(self, status: int, message: str, header: bytes = b"") -> None:
        """Answer this request once earlier ones are answered, and end."""
        if self._fault:
            return
        self._fault = _error(status, message, header)
        self.flow.pause_reading()
        if self._in_body:
            self._in_body = False
            self._unanswered -= 1
            self._abandon_request()

    def _settle(self) -> None:
        """Find the phase that the connection is in."""
        if self._phase is Phase.ENDING:
            return
        if self.flow.write_paused:
            self._enter(Phase.ANSWERING)
        elif self._unanswered > self._in_body:
            self._enter(Phase.WORKING)
        elif self._fault:
            self._wire.write(self._fault)
            self._wire.close()
        elif self._half_closed:
            self._wire.close()
        elif self._in_body:
            self._enter(Phase.BODY)
        elif self._in_header:
            self._enter(Phase.HEADER)
        elif self._phase is not Phase.HEADER or not self._framing:
            self._enter(Phase.IDLE)

    def _enter(self, phase: Phase) -> None:
        if phase is self._phase:
            return
        self._phase = phase
        if phase is Phase.WORKING:
            self._table.set_working(self)
            return
        limits = self._limits
        if phase is Phase.IDLE:
            seconds = limits.idle_s
            self._table.set_idle(self)
        else:
            self._table.set_unfinished(self)
            if phase is Phase.HEADER:
                seconds = limits.header_s
            elif phase is Phase.BODY:
                seconds = limits.body_s + self._declared / limits.slowest_bytes_per_s
            elif phase is Phase.ANSWERING:
                seconds = limits.answer_s + self._wire.waiting_bytes() / limits.slowest_bytes_per_s
            else:
                seconds = limits.linger_s
        self.deadline = self.loop.time() + seconds

    def _lingers(self) -> bool:
        """Return whether the client may still be sending; it then gets time to read the response."""
        if not (self._in_body or self._fault) or self._half_closed:
            return False
        self.flow.resume_reading()
        self._enter(Phase.ENDING)
        return True

    def _release(self) -> None:
        self._table.held_bytes -= self.held
        self.held = 0


def _error(status: int, message: str, header: bytes = b"") -> bytes:
    """Return the front end's own errors, in the form of the API's."""
    body = json.dumps({"error": message}).encode()
    fields = b"content-type: application/json\r\ncache-control: no-store\r\nconnection: close\r\n" + header
    return STATUS_LINE[HTTPStatus(status)] + fields + b"content-length: %d\r\n\r\n" % len(body) + body
