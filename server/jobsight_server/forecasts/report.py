"""Learns from a report of one job: an amount that was enough, or one that was not."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import Connection

from jobsight_server.forecasts.events import Observation, last_event, last_learn_seq, read_learned_until
from jobsight_server.forecasts.outcomes import Outcome, Taken, store
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.forecasts.reader import AnswerReader
from jobsight_server.forecasts.request import WHOLE, ForecastRequest
from jobsight_server.forecasts.rounds import catch_up, lock_learning
from jobsight_server.storage.errors import UserError

SLIP = 100.0
"""An amount this many times above the recommendation counts as a wrong unit, and so does one this many times below it
that was not enough."""


def report(
    connection: Connection,
    reader: AnswerReader,
    request: ForecastRequest,
    observation: Observation,
    job_id: str | None,
    now: float,
) -> tuple[Taken, Prediction]:
    """Store and learn the observation in the caller's transaction; return whether it was new, and the new answer.

    ``request`` names a cluster and a metric, and the observation is in the unit of its answer. A report of what the log
    or another report has said of ``job_id`` changes nothing.

    Raises:
        UserError: far from the recommendation: one wrong unit would spoil recommendations from then on.
    """
    cluster, question, metric = request.cluster, request.question, request.metric
    assert cluster is not None
    assert metric is not None
    lock_learning(connection)
    (answer,) = reader.answers(connection, [request])
    value, is_lower_bound = observation
    if (bound := answer.bound) and (value > SLIP * bound or (is_lower_bound and SLIP * value < bound)):
        raise UserError(
            f"value is {value:g}, where {bound:g} {answer.unit} is recommended: "
            "check the unit, and whether the value is per processor or per job"
        )
    if request.scale is not None and metric not in WHOLE:
        value /= request.scale
    outcome = Outcome(cluster, metric, question, Observation(value, is_lower_bound), job_id)
    is_current = read_learned_until(connection) == last_event(connection)
    taken = store(connection, outcome, last_learn_seq(connection), now)
    if taken == "stored" and is_current:  # otherwise it is learned with the backlog, in its turn
        with suppress(ValueError):  # an outdated model: it is about to be retrained, with this report
            catch_up(connection, reader.config)
        (answer,) = reader.answers(connection, [request])
    return taken, answer
