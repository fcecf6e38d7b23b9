"""Takes in that a job ran out of what was reserved for it: what is recommended for its like stays above that."""

from __future__ import annotations

import json

import msgspec
from sqlalchemy import Connection, insert

from jobsight_predictor.templates import FIELDS
from jobsight_server.errors import UserError
from jobsight_server.forecasts.ask import Question, answer_texts
from jobsight_server.forecasts.learn import Learner, RanOut
from jobsight_server.forecasts.method import Method
from jobsight_server.forecasts.per import WHOLE, processors_of
from jobsight_server.forecasts.round import hold_learning, last_position
from jobsight_server.storage.schema import failures
from jobsight_server.storage.tallies import add_tallies

TOO_MUCH = 100.0
"""Times the recommended reservation, from which on a report is taken for a slip."""


def take_failure(connection: Connection, method: Method, question: Question, reserved: float) -> str:
    """Stores and learns it within the caller's transaction; returns the answer from now on, as JSON text.

    ``question`` names a metric, and ``reserved`` is in the unit of its answer.

    Raises:
        UserError: so much was hardly reserved: one slip would spoil what is recommended from then on.
    """
    assert question.metric is not None
    hold_learning(connection)
    bound = json.loads(answer_texts(connection, [question], method)[0])["bound"]
    if bound and reserved > TOO_MUCH * bound:
        raise UserError(
            f"reserved is {reserved:g}, where {bound:g} is recommended for such a job per {question.per}: "
            "give memory and bandwidth per processor, or say that it is per job"
        )
    job = question.job
    if question.per == "job" and question.metric not in WHOLE:
        reserved /= processors_of(question.processors, [question.metric])
    row = {
        "cluster": question.cluster,
        "metric": question.metric,
        "question": msgspec.json.encode([getattr(job, field) for field in FIELDS]).decode(),
        "reserved": reserved,
        "position": last_position(connection),
    }
    connection.execute(insert(failures).values(row))
    add_tallies(connection, {("reservations_ran_out", question.metric): 1})
    learner = Learner(method)
    try:
        learner.load(connection, [(question.cluster, job)], [question.metric])
    except ValueError:  # trained with other job groups: all is about to be retrained, with this
        pass
    else:
        learner.replay([RanOut(question.cluster, question.metric, job, reserved)])
        learner.store(connection)
    return answer_texts(connection, [question], method)[0]
