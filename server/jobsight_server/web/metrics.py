"""``/metrics`` in the Prometheus text format 0.0.4."""

from __future__ import annotations

from flask import Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from jobsight_server.queries.prometheus import exposition
from jobsight_server.web.context import context
from jobsight_server.web.routes import Route


def show_metrics() -> Response:
    with context().read_engine.connect() as connection:
        return Response(exposition(connection, context().clock()), content_type=CONTENT_TYPE_PLAIN_0_0_4)


ROUTES = tuple(
    Route(
        "GET",
        f"{prefix}/metrics",
        show_metrics,
        ("scheduler",),
        "Everything counted, for Prometheus",
        answer=str,
        media_type=CONTENT_TYPE_PLAIN_0_0_4.partition("; charset")[0],
    )
    for prefix in ("", "/api/v1")
)
