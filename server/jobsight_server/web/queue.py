"""``/api/v1/queue``: waiting jobs, waiting times, and the use of the machine by day, month and account."""

from __future__ import annotations

from jobsight_server.ground.parameters import NAME, Parameter
from jobsight_server.queries.queue import Queue
from jobsight_server.queries.queue import queue as read_queue
from jobsight_server.web.kit.inputs import cluster_argument
from jobsight_server.web.kit.routes import Route, context, reading


def queue() -> Queue:
    return read_queue(reading(), context().clock(), cluster_argument())


ROUTES = (
    Route(
        "/api/v1/queue",
        queue,
        "Waiting jobs and how long jobs waited, by queue and day; processor-hours by day, month and account",
        (Parameter("cluster", "only this cluster's", NAME),),
        page="queue",
    ),
)
