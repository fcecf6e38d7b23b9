"""Reports that a job ran out of its reservation: the recommendation for similar jobs stays above it."""

from __future__ import annotations

from sqlalchemy import Connection

from jobsight_server.errors import UserError
from jobsight_server.forecasts.events import RanOut
from jobsight_server.forecasts.learn import Learner
from jobsight_server.forecasts.per import WHOLE
from jobsight_server.forecasts.ran_out import store_reported
from jobsight_server.forecasts.reader import AnswerReader
from jobsight_server.forecasts.request import ForecastRequest
from jobsight_server.forecasts.round import last_learn_seq, lock_learning

SLIP = 100.0
"""A reported reservation this many times above or below the recommended one is taken for a wrong unit."""


def record_failure(
    connection: Connection, reader: AnswerReader, request: ForecastRequest, reserved: float, job_id: str | None = None
) -> str:
    """Stores and learns the report within the caller's transaction; returns the new answer, as JSON text.

    ``request`` names a cluster and a metric, and ``reserved`` is in the unit of its answer. A report that repeats one
    about the job ``job_id`` changes nothing.

    Raises:
        UserError: far from the recommendation: one wrong unit would spoil recommendations from then on.
    """
    cluster, question, metric, _ = request
    assert cluster is not None
    assert metric is not None
    lock_learning(connection)
    (answer,) = reader.answers(connection, [request])
    if (bound := answer.bound) and not bound / SLIP <= reserved <= SLIP * bound:
        raise UserError(
            f"reserved is {reserved:g}, where {bound:g} {answer.unit} is recommended: "
            "check the unit, and whether the value is per processor or per job"
        )
    if request.scale is not None and metric not in WHOLE:
        reserved /= request.scale
    event = RanOut(cluster, metric, question, reserved)
    if not store_reported(connection, event, question, job_id, last_learn_seq(connection)):
        return reader.texts(connection, [request])[0]
    learner = Learner(reader.config)
    try:
        learner.load(connection, [(cluster, question)], [metric])
    except ValueError:  # trained with other job groups: everything is about to be retrained, with this
        pass
    else:
        learner.learn([event])
        learner.store(connection)
    return reader.texts(connection, [request])[0]
