"""The main port: the API and the pages."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from math import inf

from jobsight_server.front.addresses import close, listen
from jobsight_server.front.server import BACKLOG, Front, recorder, run
from jobsight_server.front.table import process_limits
from jobsight_server.front.wsgi import READING, WsgiBridge
from jobsight_server.serve.app import create_app
from jobsight_server.serve.children import Children, note_the_end
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.engine import open_engine

_GRACE_S = 10
_PAUSE_S = 0.5
_QUESTION, _HEALTH, _READY = "/api/v1/predictions", "/health", "/ready"
_HELD_BYTES = 64 * 2**20  # bytes of bodies and answers, over all connections of a process
# Bytes of a body from which its list of questions, or of ids, must not delay those about one job.
_BATCH_BYTES = {_QUESTION: 16 * 1024, "/api/v1/forecasts": 1024}
_ANSWERING, _ASKING_WRITER, _CHANGING = 2, 4, 2  # threads
_CHANGE_S = 5.0  # longest wait of a change for another process that writes
_ASKED_BY_POST = frozenset({_QUESTION, "/api/v1/advice", "/api/v1/forecasts"})


def run_role(settings: Settings, beat: Callable[[], None], _clusters: Sequence[str]) -> None:
    """Serve the main port until SIGTERM: ``query_workers`` processes on the same listening sockets."""
    with ExitStack() as ended:
        listeners = []
        for address in settings.listen:
            listeners.append(listen(address, BACKLOG, settings.socket_owner))
            ended.callback(close, listeners[-1])
        stop = note_the_end()
        with Children([listener.fileno() for listener in listeners]) as workers:
            for _ in range(settings.query_workers):
                workers.start("query worker", partial(_query_worker, settings, listeners))
            while not stop.wait(_PAUSE_S):
                beat()
                workers.look()


def _query_worker(settings: Settings, listeners: list[socket.socket], beat: Callable[[], None]) -> int:
    write_engine = open_engine(settings.database, patience_s=_CHANGE_S)
    app = create_app(settings, open_engine(settings.database, "read"), write_engine)
    # Threads of their own: full ones do not slow others.
    answering, asking = ThreadPoolExecutor(_ANSWERING, "answers"), ThreadPoolExecutor(_ASKING_WRITER, "writer")
    batches, changing = ThreadPoolExecutor(1, "batches"), ThreadPoolExecutor(_CHANGING, "changes")

    def lane_of(method: str, path: str, length: int) -> ThreadPoolExecutor | None:
        if path == _HEALTH and method == "GET":
            return None
        if method not in READING and path not in _ASKED_BY_POST:
            return changing
        if length > _BATCH_BYTES.get(path, inf):
            return batches
        return asking if path == _READY else answering

    bridge = WsgiBridge(app, lane_of, settings.max_body_bytes)
    front = Front(
        bridge,
        process_limits(_HELD_BYTES, settings.max_body_bytes),
        _GRACE_S,
        recorder(write_engine, "query"),
        beat,
    )
    # Objects loaded by now stay: without them, a full collection during an answer takes no time.
    gc.collect()
    gc.freeze()
    run(front, listeners)
    return 0
