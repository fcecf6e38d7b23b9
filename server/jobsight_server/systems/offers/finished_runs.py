"""The finished jobs from which the run time of the next one is judged, as they stand in the database."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection

from jobsight_predictor.question import Question
from jobsight_scheduler.overbooking.workload_job import OfferedJob
from jobsight_server.forecasts.request import job_question
from jobsight_server.storage.engine import fetch

OF_USER = 500
"""Jobs of a user that are read, the last to end."""

OF_CLUSTER = 2000
"""Jobs of a cluster that are read, the last to end."""

# Processors as asked for, as in questions; the time that was given: a run that is over is over, whoever shortened it.
_COLUMNS = '"user", name, queue, coalesce(nullif(asked_processors, 0), processors), requested_walltime_s, start, "end"'
_KNOWN = "state = 'ended' AND requested_walltime_s > 0 AND \"end\" >= start"
_BY_USER = f'SELECT {_COLUMNS} FROM jobs WHERE cluster = ? AND "user" = ? AND {_KNOWN} ORDER BY "end" DESC LIMIT ?'
_BY_CLUSTER = f'SELECT {_COLUMNS} FROM jobs WHERE cluster = ? AND {_KNOWN} ORDER BY "end" DESC LIMIT ?'


_WITH_NODES = (
    f"SELECT {_COLUMNS}, submitted, (SELECT count(*) FROM job_nodes WHERE run_id = jobs.id) FROM jobs "
    f'WHERE cluster = ? AND {_KNOWN} AND submitted <= start ORDER BY "end" DESC LIMIT ?'
)


class FinishedRun(NamedTuple):
    """What was known of a job at its submission, and ``ratio``, its run time / requested time."""

    question: Question
    ratio: float


def runs_of_user(connection: Connection, cluster: str, user: str) -> list[FinishedRun]:
    """The user's last jobs, in order of their end; those without a requested time are left out."""
    return _read(connection, _BY_USER, (cluster, user, OF_USER))


def runs_of_cluster(connection: Connection, cluster: str) -> list[FinishedRun]:
    """The cluster's last jobs, of all users, in order of their end."""
    return _read(connection, _BY_CLUSTER, (cluster, OF_CLUSTER))


def as_offered(connection: Connection, cluster: str, deadline_factor: float) -> list[OfferedJob]:
    """The cluster's last jobs, of all users, in order of their submission, as if each had asked for a place then.

    Each could wait ``deadline_factor`` times its requested time. A job whose nodes are unknown counts as on one.
    """
    rows = sorted(fetch(connection, _WITH_NODES, (cluster, OF_CLUSTER)), key=lambda row: float(row[7]))
    found = []
    for number, (user, name, queue, processors, requested_s, start, end, submitted, nodes) in enumerate(rows):
        requested_h, submitted_h = requested_s / 3600.0, submitted / 3600.0
        found.append(
            OfferedJob(
                job=number,
                question=job_question(user, name, queue, processors, None, requested_s),
                nodes=nodes or 1,
                requested_h=requested_h,
                submitted_h=submitted_h,
                release_h=submitted_h,
                deadline_h=submitted_h + deadline_factor * requested_h,
                run_h=min(end - start, requested_s) / 3600.0,
            )
        )
    return found


def _read(connection: Connection, query: str, parameters: tuple[Any, ...]) -> list[FinishedRun]:
    return [
        FinishedRun(job_question(user, name, queue, processors, None, requested_s), (end - start) / requested_s)
        for user, name, queue, processors, requested_s, start, end in reversed(fetch(connection, query, parameters))
    ]
