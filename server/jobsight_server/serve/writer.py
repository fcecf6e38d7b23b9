"""The writer's port."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

from jobsight_server.front.lanes import Lane
from jobsight_server.front.limits import CONNECTIONS, Limits, raise_descriptor_limit
from jobsight_server.front.record import recorder
from jobsight_server.front.server import Front, listen, run
from jobsight_server.front.wsgi import WsgiBridge
from jobsight_server.ingest.app import create_writer
from jobsight_server.settings import Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.fence import Fence

_HELD_BYTES = 8 * 2**20
_GRACE_S = 15


def serve_writer(
    settings: Settings, fences: Sequence[Fence], beat: Callable[[], None], clusters: frozenset[str] | None = None
) -> None:
    """Runs until SIGTERM; everything acknowledged is stored. ``clusters``: those collected here; None is all."""
    listener = listen(settings.ingest_listen)
    engine = open_engine(settings.database)
    app = create_writer(settings, engine, fences=fences, collected=clusters)
    lane = Lane("ingest", settings.ingest_threads)
    bridge = WsgiBridge(
        app,
        lambda method, path, length: None if path == "/health" else lane,
        lambda method, path: settings.max_body_bytes,
    )
    front = Front(
        bridge,
        Limits(
            held_bytes=max(_HELD_BYTES, 2 * settings.max_body_bytes),
            connections=min(CONNECTIONS, raise_descriptor_limit()),
        ),
        _GRACE_S,
        recorder(engine, "writer"),
        beat,
    )
    gc.freeze()
    try:
        run(front, listener)
    finally:
        app.extensions["committer"].close()
