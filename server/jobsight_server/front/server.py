"""uvicorn in one process: its settings, the deadlines' clock, and the count of dropped connections."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.front.connection import Connection
from jobsight_server.front.table import ConnectionLimits, Table
from jobsight_server.front.wsgi import AsgiApp
from jobsight_server.ground.event_counts import add_event_counts

BACKLOG = 2048
_SWEEP_S = 0.5
_SWEEPS_PER_RECORD = 20
_SWITCH_S = 0.0002
_ACCEPTED_AT_ONCE = 16


def run(front: Front, listeners: list[socket.socket]) -> None:
    """Serve in this process until SIGTERM or SIGINT."""
    # The loop releases the interpreter at every system call; a computing thread holds it for this long.
    sys.setswitchinterval(_SWITCH_S)
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn sets them only once its loop runs, and raises the signal again at its end.
        signal.signal(number, front.handle_exit)
    front.run(listeners)


class Front(uvicorn.Server):
    """Serves ``app`` on listening sockets; several processes may share them.

    Requests under way when it stops have ``grace_s`` to finish. ``record`` runs in a thread with the newly dropped
    connections by reason; ``beat`` runs in the event loop, twice a second. ``connection`` makes a client's connection.
    """

    def __init__(
        self,
        app: AsgiApp,
        limits: ConnectionLimits,
        grace_s: int,
        record: Callable[[dict[str, int]], None] = lambda dropped: None,
        beat: Callable[[], None] = lambda: None,
        connection: Callable[..., Connection] = Connection,
    ) -> None:
        self.table = Table(limits.connections)
        self._record, self._beat = record, beat
        self._loop: asyncio.AbstractEventLoop | None = None
        config = uvicorn.Config(
            app,
            http=partial(connection, limits, self.table),  # type: ignore[arg-type]
            loop="asyncio",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("server", "jobsight")],
            # asyncio accepts this many at a time: few, to spread connections over the socket's processes.
            backlog=_ACCEPTED_AT_ONCE,
            timeout_graceful_shutdown=grace_s,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)
        self._sweeping: asyncio.Task[Any] = asyncio.create_task(self._sweep())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.table.draining = True
        await super().shutdown(sockets)
        self._sweeping.cancel()
        self._write_record()

    async def main_loop(self) -> None:
        """Wait until ``stop``. uvicorn's own loop wakes ten times a second, half of the CPU time of an idle server."""
        self._end, self._loop = asyncio.Event(), asyncio.get_running_loop()  # a signal may come in between
        if not self.should_exit:
            await self._end.wait()
        self._loop = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.stop()

    def stop(self) -> None:
        """Stop the server; any thread may call this."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end.set)

    async def _sweep(self) -> None:
        turns = 0
        while True:
            self._beat()
            await self.on_tick(0)  # renews the header Date
            await asyncio.sleep(_SWEEP_S)
            self.table.expire(asyncio.get_running_loop().time())
            turns += 1
            if turns % _SWEEPS_PER_RECORD == 0:
                self._write_record()

    def _write_record(self) -> None:
        dropped = dict(self.table.dropped)
        if dropped:
            self.table.dropped.clear()
            # asyncio waits for this at the end of the loop.
            asyncio.get_running_loop().run_in_executor(None, self._record, dropped)


log = logging.getLogger(__name__)


def recorder(engine: Engine, role: str) -> Callable[[dict[str, int]], None]:
    """Return a recorder for ``Front``: it adds to the event count ``connections_dropped`` by role and reason."""

    def record(dropped: dict[str, int]) -> None:
        log.info("dropped connections: %s", ", ".join(f"{n} {reason}" for reason, n in sorted(dropped.items())))
        counts = {("connections_dropped", f"{role}: {reason}"): n for reason, n in dropped.items()}
        try:
            with engine.begin() as connection:
                add_event_counts(connection, counts)
        except SQLAlchemyError as error:
            log.warning("cannot count dropped connections: %s", error)

    return record
