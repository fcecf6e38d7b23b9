"""The finished jobs from which the run time of the next one is judged, as they stand in the database."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection

from jobsight_predictor.question import Question
from jobsight_server.forecasts.job import job_question
from jobsight_server.storage.fetch import fetch

OF_USER = 500
"""Jobs of a user that are read, the last to end."""

OF_CLUSTER = 2000
"""Jobs of a cluster that are read, the last to end."""

_COLUMNS = '"user", name, queue, processors, requested_walltime_s, start, "end"'
_KNOWN = "state = 'ended' AND requested_walltime_s > 0 AND \"end\" >= start"
_BY_USER = f'SELECT {_COLUMNS} FROM jobs WHERE cluster = ? AND "user" = ? AND {_KNOWN} ORDER BY "end" DESC LIMIT ?'
_BY_CLUSTER = f'SELECT {_COLUMNS} FROM jobs WHERE cluster = ? AND {_KNOWN} ORDER BY "end" DESC LIMIT ?'


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


def _read(connection: Connection, query: str, parameters: tuple[Any, ...]) -> list[FinishedRun]:
    return [
        FinishedRun(job_question(user, name, queue, processors, None, requested_s), (end - start) / requested_s)
        for user, name, queue, processors, requested_s, start, end in reversed(fetch(connection, query, parameters))
    ]
