"""A connection of agents: ordinary batches are answered without uvicorn's request, everything else as any request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from jobsight_server.front.connection import Connection, Phase
from jobsight_server.ingest.reception import ORDINARY_BYTES, IngestReply

Headers = Sequence[tuple[bytes, bytes]]
Take = Callable[[Headers, bytes, Callable[[IngestReply], None]], bool]
"""Takes the header and body of a batch, and what is called with the reply, in the event loop; returns False, and calls
nothing, where the application must answer."""


class _ReplySlot:
    """A batch among the replies of its connection, which are sent in the order of the requests."""

    __slots__ = ("_connection", "reply")

    def __init__(self, connection: Intake) -> None:
        self._connection = connection
        self.reply: IngestReply | None = None

    def fill(self, reply: IngestReply) -> None:
        self.reply = reply
        self._connection.send_replies()


class Intake(Connection):
    """Hands ordinary batches for ``path`` to ``take``; pipelined requests of both kinds are answered in order.

    Batches behind a request of the application are its requests, too; a request behind batches waits for their replies.
    """

    def __init__(self, take: Take, path: str, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._take, self._path = take, path.encode()
        self._parts: list[bytes] | None = None  # the body of the batch that arrives
        self._slots: deque[_ReplySlot] = deque()

    def _begin_request(self) -> None:
        if self._is_ordinary():
            self._parts = []
        else:
            super()._begin_request()

    def _abandon_request(self) -> None:
        if self._parts is None:
            super()._abandon_request()
        self._parts = None

    def on_body(self, body: bytes) -> None:
        if self._parts is None:
            super().on_body(body)
        else:
            self._count_body(body)
            self._parts.append(body)

    def on_message_complete(self) -> None:
        if self._parts is None:
            super().on_message_complete()
            return
        slot, body = _ReplySlot(self), b"".join(self._parts)
        is_taken = self._take(self.headers, body, slot.fill)
        self._parts = None
        if is_taken:
            self._slots.append(slot)
            if len(self._slots) > 1:
                self.flow.pause_reading()
            self._end_request()
            return
        super()._begin_request()
        HttpToolsProtocol.on_body(self, body)
        super().on_message_complete()

    def send_replies(self) -> None:
        """Send the replies that are next, and start the request behind them."""
        while self._slots and (reply := self._slots[0].reply) is not None:
            self._slots.popleft()
            self._unanswered -= 1
            if self._phase is not Phase.ENDING:
                self._wire.send(self._response(reply))
        if self._phase is Phase.ENDING:
            return
        self._release()
        if not self._slots:
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            elif self._table.draining:
                self._wire.close()
        self._settle()

    def shutdown(self) -> None:
        if not self._slots or self.pipeline:  # else the last reply ends the connection
            super().shutdown()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if self._slots:
            self.flow.pause_reading()
            self.pipeline.append((cycle, app))
        else:
            super()._start_asgi_task(cycle, app)

    def _is_ordinary(self) -> bool:
        return (
            self.url == self._path
            and 0 < self._declared <= ORDINARY_BYTES
            and self._unanswered == len(self._slots)
            and self.parser.get_method() == b"POST"
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
            and not self.expect_100_continue
        )

    def _response(self, reply: IngestReply) -> bytes:
        body = reply.body
        fields = b"".join(b"%b: %b\r\n" % field for field in self.server_state.default_headers)
        fields += b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in reply.headers.items())
        if self._table.draining and not (self._slots or self.pipeline):
            fields += b"connection: close\r\n"
        return b"%b%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            STATUS_LINE[HTTPStatus(reply.status)], fields, len(body), body,
        )  # fmt: skip
