"""The main port: the API and the pages."""

from __future__ import annotations

import gc
import socket
from importlib import import_module

from jobsight_server.front.lanes import Lane
from jobsight_server.front.limits import CONNECTIONS, Limits, raise_descriptor_limit
from jobsight_server.front.prefork import run_workers
from jobsight_server.front.record import recorder
from jobsight_server.front.server import Front, listen, run
from jobsight_server.settings import Settings
from jobsight_server.storage.dialect import look_ups_wait
from jobsight_server.storage.engine import open_engine
from jobsight_server.web.app import create_app

_GRACE_S = 10.0
_SAMPLES, _UPLOAD, _QUESTION = "/api/v1/samples", "/simulations", "/api/v1/predictions"
_AT_ONCE = frozenset({"/health", "/api/v1/health"})
_ASKS_WRITER = frozenset({_SAMPLES, "/ready", "/api/v1/ready"})
_FORM_BYTES = 2**20  # of an upload's other fields; the page itself checks more precisely
_ANSWERING, _ASKING_WRITER = 2, 16  # threads


def serve_queries(settings: Settings) -> None:
    """The main port, until SIGTERM: ``query_workers`` processes on one listening socket."""
    listener = listen(settings.listen)
    run_workers(settings.query_workers, lambda: _query_worker(settings, listener))


def _query_worker(settings: Settings, listener: socket.socket) -> None:
    write_engine = open_engine(settings.database)
    app = create_app(settings, open_engine(settings.database, "read"), write_engine)
    answering, relaying = Lane("answers", _ANSWERING), Lane("relays", _ASKING_WRITER)
    at_once = _AT_ONCE | (set() if look_ups_wait(write_engine) else {_QUESTION})
    upload_bytes = settings.simulation_trace_bytes + _FORM_BYTES

    def lane_of(method: str, path: str) -> Lane | None:
        if path in at_once and method == "GET":
            return None
        return relaying if path in _ASKS_WRITER else answering

    def body_limit(method: str, path: str) -> int:
        return upload_bytes if path == _UPLOAD else settings.max_body_bytes

    front = Front(
        app,
        lane_of,
        Limits(
            held_bytes=2 * max(upload_bytes, settings.max_body_bytes),
            connections=min(CONNECTIONS, raise_descriptor_limit()),
        ),
        body_limit,
        judges_length=lambda path: path in {_SAMPLES, _UPLOAD},
        record=recorder(write_engine, "query"),
    )
    if settings.requirements_estimator == "regression":
        import_module("statsmodels.regression.quantile_regression")  # takes seconds, which no feedback should wait for
    # Objects loaded by now stay: without them, a full collection in the middle of an answer takes no time.
    gc.collect()
    gc.freeze()
    run(front, listener, _GRACE_S)
