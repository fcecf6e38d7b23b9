"""One client's connection: its requests, their deadlines, and the responses."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from enum import Enum, auto
from typing import Protocol, cast

import httptools

from jobsight_server.front.limits import Limits
from jobsight_server.front.messages import HttpResponse, Renderer, Request, error_answer
from jobsight_server.front.table import Table

log = logging.getLogger(__name__)


class State(Enum):
    RECEIVING = auto()
    WORKING = auto()
    ANSWERING = auto()
    IDLE = auto()
    ENDING = auto()


class Server(Protocol):
    """What a connection needs from the front end."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    table: Table
    renderer: Renderer
    receiving: memoryview
    draining: bool

    def body_limit(self, request: Request) -> int:
        """Longest body that is read; of a longer one, the application sees only the length."""

    def work(self, connection: Connection, request: Request, client: str) -> HttpResponse | None:
        """The response if it is ready, or None: it will come through ``Connection.give``."""


class Connection(asyncio.BufferedProtocol):
    """Receives requests one after the other; the next is processed once the previous one has been answered.

    All connections receive into one buffer: a new one for each read makes the allocator return memory to the system
    and ask for it again with every request.
    """

    def __init__(self, server: Server) -> None:
        self._server, self._limits, self._table = server, server.limits, server.table
        self._parser = httptools.HttpRequestParser(self)
        self._state = State.RECEIVING
        self._incoming: Request | None = None
        self._whole: deque[Request] = deque()
        self._present: Request | None = None
        self._fault: HttpResponse | None = None
        self._head_bytes = 0
        self._held = 0
        self._begun = False
        self._close_after = False
        self._cut_off = False
        self._body_limit = 0
        self._writing_paused = False
        self.deadline = 0.0
        self.receiving_bytes = 0

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # so that resume_writing means that everything has been sent
        peer = self._transport.get_extra_info("peername")
        self._client = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._server.draining or not self._table.make_place():
            self._table.dropped["too many connections"] += not self._server.draining
            self._transport.abort()
            return
        self._receive()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        self._release()
        self._state = State.ENDING
        for request in (self._incoming, *self._whole):
            if request is not None:
                request.body.close()

    def eof_received(self) -> bool:
        # Half closed: a client that still waits for a response gets it, then the connection is closed.
        self._close_after = True
        return self._state is State.ANSWERING

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._state is State.ANSWERING:
            self._answered()
            self._go_on()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.receiving

    def buffer_updated(self, nbytes: int) -> None:
        if self._state is State.ENDING:
            return
        if self._state is State.IDLE:
            self._receive()
        self._begun = True
        if self._incoming is None or not self._incoming.method:
            self._head_bytes += nbytes
        try:
            self._parser.feed_data(self._server.receiving[:nbytes])
        except httptools.HttpParserUpgrade:
            self._close_after = True  # an upgrade request: it gets its response in this protocol
        except httptools.HttpParserCallbackError:
            log.exception("cannot read a request")
            self._try_later("internal error while reading this request; try again later")
        except httptools.HttpParserError as error:
            self._fault = self._fault or error_answer("400 Bad Request", f"not an HTTP request: {error}")
        if self._head_bytes > self._limits.header_bytes:
            self._refuse_header()
        self._go_on()

    # httptools

    def on_message_begin(self) -> None:
        self._incoming = Request()

    def on_url(self, url: bytes) -> None:
        assert self._incoming is not None
        self._incoming.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._incoming is not None
        self._incoming.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        request = self._incoming
        assert request is not None
        request.method = self._parser.get_method().decode("latin-1")
        request.version = self._parser.get_http_version()
        request.keep_alive = self._parser.should_keep_alive()
        length = sum(len(name) + len(value) for name, value in request.headers) + len(request.target)
        if length > self._limits.header_bytes:
            self._refuse_header()
        self._head_bytes = 0
        headers = {name.lower(): value for name, value in request.headers}
        declared = headers.get("content-length")
        request.declared = None if declared is None else int(declared)
        self._body_limit = self._server.body_limit(request)
        if (request.declared or 0) > self._body_limit:
            self._cut(request)
        elif request.declared or "transfer-encoding" in headers:
            request.expect_body()
            if headers.get("expect", "").lower() == "100-continue" and self._state is State.RECEIVING:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._give_time()

    def on_body(self, body: bytes) -> None:
        request = self._incoming
        if request is None or request.cut or self._fault is not None:
            return
        kept = body[: self._body_limit + 1 - request.received]
        try:
            request.body.write(kept)
        except OSError as error:
            log.error("cannot keep a body of %d bytes: %s", request.declared or request.received, error)
            self._try_later("the server has no room for a body of this length now; try again later")
            return
        request.received += len(kept)
        self.receiving_bytes = request.received
        self._held += len(kept)
        self._table.held_bytes += len(kept)
        if self._table.held_bytes > self._limits.held_bytes:
            self._find_room()
        if request.received > self._body_limit:
            self._cut(request)

    def on_message_complete(self) -> None:
        request, self._incoming, self._head_bytes = self._incoming, None, 0
        self.receiving_bytes = 0
        if request is None or request.cut:
            return
        if self._fault is not None:
            request.body.close()
            return
        self._whole.append(request)
        if len(self._whole) > self._limits.pipelined:
            message = f"more than {self._limits.pipelined} pipelined requests without an answer"
            self._fault = error_answer("400 Bad Request", message)  # after the responses to earlier requests

    # the front

    def give(self, answer: HttpResponse) -> None:
        """Sends the response to the request being processed, and continues with the next."""
        self._send(answer)
        self._go_on()

    def drain(self) -> None:
        """The server is stopping: a response under way is sent, nothing more is received."""
        if self._state in {State.RECEIVING, State.IDLE}:
            self._state = State.ENDING
            self._transport.close()

    def expire(self) -> None:
        """The deadline is over."""
        if self._state is State.RECEIVING:
            self._table.dropped["request too slow" if self._begun else "no request"] += 1
            if self._begun:
                answer = error_answer("408 Request Timeout", "the request took too long to arrive")
                self._transport.write(self._server.renderer.render(answer, Request(), close=True))
        elif self._state is State.ANSWERING:
            self._table.dropped["answer not read"] += 1
        self.drop()

    def drop(self) -> None:
        """Ends the connection now."""
        self._table.remove(self)
        self._state = State.ENDING
        self._transport.abort()

    # steps

    def _go_on(self) -> None:
        """Processes the next complete request, if there is one and nothing is under way."""
        while self._state is State.RECEIVING:
            if self._whole:
                request = self._present = self._whole.popleft()
                request.body.seek(0)
                answer = self._server.work(self, request, self._client)
                if answer is None:
                    self._state = State.WORKING
                    self._table.set_working(self)
                    self._transport.pause_reading()
                    return
                self._send(answer)
            elif self._fault is not None:
                self._present = Request(cut=True)
                self._send(self._fault)
            else:
                return

    def _send(self, answer: HttpResponse) -> None:
        request, self._present = self._present, None
        assert request is not None
        request.body.close()
        if self._transport.is_closing():
            return
        self._cut_off = request.cut
        self._close_after = self._close_after or not request.keep_alive or request.cut or self._server.draining
        data = self._server.renderer.render(answer, request, close=self._close_after)
        self._state = State.ANSWERING
        self.deadline = self._server.loop.time() + self._limits.answer_time_s(len(data))
        self._transport.write(data)
        if self._writing_paused:
            self._transport.pause_reading()
            self._table.set_unfinished(self)
        else:
            self._answered()

    def _answered(self) -> None:
        """The whole response has been sent."""
        self._release()
        self._transport.resume_reading()
        if self._close_after:
            self._end()
        elif self._whole or self._fault is not None or self._incoming is not None:
            self._receive()
        else:
            self._state = State.IDLE
            self._begun = False
            self.deadline = self._server.loop.time() + self._limits.idle_s
            self._table.set_idle(self)

    def _receive(self) -> None:
        self._state = State.RECEIVING
        self._give_time()
        self._table.set_unfinished(self)

    def _give_time(self) -> None:
        """The deadline for the header, or the body."""
        if self._state is State.RECEIVING:
            request = self._incoming
            if request is None or not request.method:
                seconds = self._limits.header_s
            else:
                seconds = self._limits.body_time_s(request.declared or 0)
            self.deadline = self._server.loop.time() + seconds

    def _refuse_header(self) -> None:
        message = f"the header is longer than {self._limits.header_bytes} bytes"
        self._fault = self._fault or error_answer("431 Request Header Fields Too Large", message)

    def _cut(self, request: Request) -> None:
        """The body is too long: the application is called without it, and the rest is discarded."""
        request.cut = True
        self._whole.append(request)

    def _find_room(self) -> None:
        """Too many bytes are held: drops the oldest unfinished bodies of others, or else this one."""
        if not self._table.make_room(self._limits.held_bytes, self):
            self._table.dropped["too many bytes of bodies"] += 1
            self._try_later("other requests fill the memory for request bodies; try again later")

    def _try_later(self, message: str) -> None:
        # Never 400 for what is not the client's fault: agents set aside batches that get it.
        self._fault = self._fault or error_answer("503 Service Unavailable", message, ("Retry-After", "5"))

    def _end(self) -> None:
        """Closes; if the client may still be sending, only after it has had time to read the response."""
        self._state = State.ENDING
        if not self._cut_off:
            self._transport.close()
            return
        self.deadline = self._server.loop.time() + self._limits.linger_s
        self._table.set_unfinished(self)
        self._transport.write_eof()

    def _release(self) -> None:
        self._table.held_bytes -= self._held
        self._held = 0
