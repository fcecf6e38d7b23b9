"""The writer's port."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

from flask import Flask

from jobsight_server.front.addresses import listen
from jobsight_server.front.lanes import Lane
from jobsight_server.front.limits import CONNECTIONS, Limits, raise_descriptor_limit
from jobsight_server.front.record import recorder
from jobsight_server.front.server import BACKLOG, Front, run
from jobsight_server.front.wsgi import WsgiBridge
from jobsight_server.ingest.app import create_writer
from jobsight_server.serve.small_batches import SmallBatches
from jobsight_server.settings import Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.fence import Fence

_HELD_BYTES = 8 * 2**20
_GRACE_S = 15


def serve_writer(
    settings: Settings, fences: Sequence[Fence], beat: Callable[[], None], clusters: frozenset[str] | None = None
) -> None:
    """Serve until SIGTERM; everything acknowledged is stored. ``clusters``: those collected here; None is all."""
    listener = listen(settings.ingest_listen, BACKLOG)
    engine = open_engine(settings.database)
    app = create_writer(settings, engine, fences=fences, collected=clusters)
    front = writer_front(app, settings, Lane("ingest", settings.ingest_threads), recorder(engine, "writer"), beat)
    gc.freeze()
    try:
        run(front, [listener])
    finally:
        app.extensions["committer"].close()


def writer_front(
    app: Flask,
    settings: Settings,
    lane: Lane,
    record: Callable[[dict[str, int]], None] = lambda dropped: None,
    beat: Callable[[], None] = lambda: None,
) -> Front:
    """Return the front end of ``create_writer``'s application; small batches bypass it and its threads, ``lane``."""
    bridge = WsgiBridge(
        app,
        lambda method, path, length: None if path == "/health" else lane,
        lambda method, path: settings.max_body_bytes,
    )
    limits = Limits(
        held_bytes=max(_HELD_BYTES, 2 * settings.max_body_bytes),
        connections=min(CONNECTIONS, raise_descriptor_limit()),
    )
    batches = SmallBatches(app.extensions["reception"], settings.max_body_bytes, bridge, lane)
    return Front(batches, limits, _GRACE_S, record, beat)
