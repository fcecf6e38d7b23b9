"""The event loop of one process: accepts, lets ``Connection`` read, runs the application, stops cleanly."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from jobsight_server.addresses import split_address
from jobsight_server.errors import UserError
from jobsight_server.front.connection import Connection
from jobsight_server.front.lanes import Lane
from jobsight_server.front.limits import Limits
from jobsight_server.front.messages import HttpResponse, Renderer, Request, error_answer
from jobsight_server.front.table import Table
from jobsight_server.front.wsgi import environ_of, run_app, target_parts

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

_BACKLOG = 2048
_SWEEP_S = 0.5
_RECORD_S = 10.0
_OUT_OF_DESCRIPTORS_S = 0.1
_SWITCH_S = 0.0002
_ACCEPTED_AT_ONCE = 16
_RECEIVED_AT_ONCE = 256 * 1024  # bytes

LaneOf = Callable[[str, str], Lane | None]
"""From method and path, the lane that processes the request, or None for the event loop itself."""


def listen(address: str) -> socket.socket:
    """A listening socket on ``HOST:PORT``.

    Raises:
        UserError: the address is in use, or not one of this machine's.
    """
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UserError(f"cannot listen on {address}: {error.strerror or error}") from error


def run(front: Front, listener: socket.socket, grace_s: float) -> None:
    """Serves in this process until SIGTERM or SIGINT."""
    # The loop releases the interpreter at every system call; a computing thread keeps it for this long.
    sys.setswitchinterval(_SWITCH_S)

    def started() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            front.loop.add_signal_handler(number, front.stop)

    asyncio.run(front.serve(listener, grace_s, started))


class Front:
    """Serves ``app`` on a listening socket until ``stop``; several processes may share the socket.

    ``body_limit`` is the longest body per method and path. ``judges_length``: where the application itself
    answers a longer one, which it gets with its declared length and without its bytes.
    ``record`` is called, in a thread, with the connections dropped since the last time, by reason.
    """

    def __init__(
        self,
        app: WSGIApplication,
        lane_of: LaneOf,
        limits: Limits,
        body_limit: Callable[[str, str], int],
        judges_length: Callable[[str], bool] = lambda path: True,
        record: Callable[[dict[str, int]], None] = lambda dropped: None,
    ) -> None:
        self.limits, self.table, self.renderer = limits, Table(limits.connections), Renderer()
        self.receiving = memoryview(bytearray(_RECEIVED_AT_ONCE))
        self.draining = False
        self._app, self._lane_of, self._limit_of = app, lane_of, body_limit
        self._judges_length, self._record = judges_length, record
        self._recording = Lane("record", 1)
        self._opening: set[asyncio.Task[Any]] = set()

    async def serve(self, listener: socket.socket, grace_s: float, started: Callable[[], None] = lambda: None) -> None:
        """Runs until ``stop``; requests in progress then have ``grace_s`` seconds to finish."""
        self.loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        address = listener.getsockname()
        self._server_name = (str(address[0]), str(address[1]))
        listener.setblocking(False)
        self._watch(listener)
        sweeping = [asyncio.create_task(self._sweep()), asyncio.create_task(self._keep_record())]
        started()
        await self._stopping.wait()
        self._stop_accepting(listener)
        await self._drain(grace_s)
        for task in sweeping:
            task.cancel()
        self._write_record()
        await asyncio.to_thread(self._recording.close, _RECORD_S)

    def stop(self) -> None:
        """Ends ``serve``; from the loop's own thread."""
        self._stopping.set()

    def body_limit(self, request: Request) -> int:
        return self._limit_of(request.method, request.target.partition(b"?")[0].decode("latin-1"))

    def work(self, connection: Connection, request: Request, client: str) -> HttpResponse | None:
        parts = target_parts(request.target)
        if parts is None:
            return error_answer("400 Bad Request", f"the target {request.target[:100]!r} has no path")
        path, query = parts
        if request.cut and not self._judges_length(path):
            limit = self.body_limit(request)
            return error_answer("413 Content Too Large", f"the body has more than {limit} bytes")
        environ = environ_of(request, path, query, self._server_name, client)
        lane = self._lane_of(request.method, path)
        if lane is None:
            return run_app(self._app, environ)
        lane.put(partial(self._run, connection, environ))
        return None

    def _run(self, connection: Connection, environ: WSGIEnvironment) -> None:
        answer = run_app(self._app, environ)
        with suppress(RuntimeError):  # the loop has ended: nothing waits for the response any more
            self.loop.call_soon_threadsafe(connection.give, answer)

    def _watch(self, listener: socket.socket) -> None:
        if not self.draining:
            self.loop.add_reader(listener.fileno(), self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        # A few at a time, so that processes that share the socket share the connections as well.
        for _ in range(_ACCEPTED_AT_ONCE):
            if not self._accept_one(listener):
                return

    def _accept_one(self, listener: socket.socket) -> bool:
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            log.error("cannot accept connections: %s", error)
            self.loop.remove_reader(listener.fileno())
            self.loop.call_later(_OUT_OF_DESCRIPTORS_S, self._watch, listener)
            return False
        accepted.setblocking(False)
        opening = self.loop.create_task(self.loop.connect_accepted_socket(lambda: Connection(self), accepted))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        return True

    def _stop_accepting(self, listener: socket.socket) -> None:
        self.draining = True
        self.loop.remove_reader(listener.fileno())
        listener.close()

    async def _drain(self, grace_s: float) -> None:
        until = self.loop.time() + grace_s
        for member in [*self.table.unfinished, *self.table.idle]:
            member.drain()
        while len(self.table) and self.loop.time() < until:
            await asyncio.sleep(0.02)
        if len(self.table):
            log.warning("%d responses were unfinished %.0f s after the order to stop", len(self.table), grace_s)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.table.expire(self.loop.time())

    async def _keep_record(self) -> None:
        while True:
            await asyncio.sleep(_RECORD_S)
            self._write_record()

    def _write_record(self) -> None:
        dropped = dict(self.table.dropped)
        if dropped:
            self.table.dropped.clear()
            self._recording.put(partial(self._record, dropped))
