"""Runs of which the accounting log says that they ran out of memory or time: learned like reported failures.

A run that somebody reported as well is counted once. A report that names its job is of that job's run; one that does
not is taken for the run's if it fits: the same reservation, and nothing else said about the job than what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, func, insert, select, update

from jobsight_predictor.profile.requests import REQUESTED
from jobsight_predictor.question import FIELDS, Question
from jobsight_server.forecasts.events import RanOut
from jobsight_server.forecasts.job import ForecastJob
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.schema import failures

ROUNDED = 0.01  # share; a reported reservation may differ this much from that of the run that it is about
WITHOUT_AMOUNT = "logged_failures_without_amount"


class LoggedFailure(NamedTuple):
    """A run that ran out of ``metric``; ``used``: what was measured of it until then, None if nothing was."""

    job_id: str
    metric: str
    used: float | None


def ran_out(job: ForecastJob, failure: LoggedFailure) -> RanOut | None:
    """What the failure shows: such a job needs more than it had. None if neither that nor its use is known.

    It is filed under what the user asked for; how much ran out is what the job was given.
    """
    question, metric = job.question, failure.metric
    if metric == "memory":
        reserved = max(failure.used or 0.0, job.given_memory_bytes or 0.0)
    else:  # a run time is known exactly
        reserved = failure.used or job.given_time_s or 0.0
    if reserved <= 0.0:
        return None
    request = {REQUESTED[metric]: getattr(question, REQUESTED[metric])}
    alike = Question(question.user, question.application, processors=question.processors, **request)
    return RanOut(job.cluster, metric, alike, reserved)


def encoded(question: Question) -> str:
    """The question as stored with a failure."""
    return msgspec.json.encode([getattr(question, field) for field in FIELDS]).decode()


def decoded(text: str) -> Question:
    """The question that was stored as ``text``."""
    return Question(*msgspec.json.decode(text, type=tuple[Any, ...]))


def store_logged(
    connection: Connection,
    jobs: Mapping[int, ForecastJob],
    logged: Mapping[int, LoggedFailure],
    found: Mapping[int, RanOut],
    learn_seqs: Mapping[int, int],
) -> None:
    """Stores what runs showed, each as learned at its ``learn_seq``, and counts those that were not reported."""
    without = [logged[run_id].metric for run_id in logged.keys() - found.keys()]
    counts = {(WITHOUT_AMOUNT, metric): without.count(metric) for metric in set(without)}
    for run_id, event in found.items():
        job_id = logged[run_id].job_id
        of_job = _Reports(connection, event.cluster, event.metric, job_id)
        if not of_job.names(event.reserved, jobs[run_id].question):
            key = ("reservations_ran_out", event.metric)
            counts[key] = counts.get(key, 0) + (of_job.logged >= of_job.reported)
        row = {"job_id": job_id, "run_id": run_id, "learn_seq": learn_seqs[run_id]}
        connection.execute(insert(failures).values(_row(event) | row))
    add_event_counts(connection, counts)


def stored_runs(connection: Connection, runs: Sequence[int]) -> set[int]:
    """Those of ``runs`` whose failure is stored."""
    return set(connection.scalars(select(failures.c.run_id).where(failures.c.run_id.in_(runs))))


def store_reported(connection: Connection, event: RanOut, question: Question, job_id: str | None, after: int) -> bool:
    """Stores a report, learned after the run with ``learn_seq`` ``after``; False if it repeats one about the same job.

    It is counted unless the log has said so already.
    """
    known = True
    if job_id is None:
        job_id = _logged_alike(connection, event, question)
    else:
        of_job = _Reports(connection, event.cluster, event.metric, job_id)
        if of_job.repeats(event):
            return False
        known = of_job.reported < of_job.logged
    if job_id is None or not known:
        add_event_counts(connection, {("reservations_ran_out", event.metric): 1})
    connection.execute(insert(failures).values(_row(event) | {"job_id": job_id, "run_id": None, "learn_seq": after}))
    return True


class _Reports:
    """What is stored about failures of one job in one metric, by the log and by reports."""

    def __init__(self, connection: Connection, cluster: str, metric: str, job_id: str) -> None:
        self._connection = connection
        self._of_metric = (failures.c.cluster == cluster, failures.c.metric == metric)
        self._job_id = job_id
        query = select(func.count(), func.count(failures.c.run_id)).where(*self._of_metric, failures.c.job_id == job_id)
        rows, self.logged = connection.execute(query).one()
        self.reported = rows - self.logged

    def repeats(self, event: RanOut) -> bool:
        """Whether the same report is there already."""
        same = (failures.c.question == encoded(event.question), failures.c.reserved == event.reserved)
        query = select(failures.c.id).where(*self._of_metric, failures.c.job_id == self._job_id, *same)
        return self._connection.scalar(query.where(failures.c.run_id.is_(None)).limit(1)) is not None

    def names(self, reserved: float, question: Question) -> bool:
        """Whether a report without a job fits the run; from now on, it names it."""
        query = select(failures).where(*self._of_metric, failures.c.job_id.is_(None))
        for row in self._connection.execute(query.where(_about(reserved)).order_by(failures.c.id)):
            if fits(decoded(row.question), question):
                named = update(failures).where(failures.c.id == row.id).values(job_id=self._job_id)
                self._connection.execute(named)
                return True
        return False


def _logged_alike(connection: Connection, event: RanOut, question: Question) -> str | None:
    """The job of a logged failure that the report fits and that is not reported yet."""
    reported = failures.alias()
    already = select(reported.c.id).where(
        reported.c.cluster == event.cluster,
        reported.c.metric == event.metric,
        reported.c.job_id == failures.c.job_id,
        reported.c.run_id.is_(None),
    )
    query = select(failures).where(
        failures.c.cluster == event.cluster,
        failures.c.metric == event.metric,
        failures.c.run_id.is_not(None),
        _about(event.reserved),
        ~already.exists(),
    )
    rows: Iterable[Any] = connection.execute(query.order_by(failures.c.id.desc()))
    return next((row.job_id for row in rows if fits(decoded(row.question), question)), None)


def fits(one: Question, other: Question) -> bool:
    """Whether nothing that both say about a job differs, and both name the user.

    >>> fits(Question("ann", "cfd"), Question("ann", "cfd", processors=4))
    True
    >>> fits(Question("ann", "cfd"), Question("ann", "mesh")), fits(Question(), Question("ann"))
    (False, False)
    """
    pairs = [(getattr(one, field), getattr(other, field)) for field in FIELDS]
    return one.user is not None and all(a == b or a is None or b is None for a, b in pairs)


def _about(reserved: float) -> Any:
    return failures.c.reserved.between(reserved * (1.0 - ROUNDED), reserved * (1.0 + ROUNDED))


def _row(event: RanOut) -> dict[str, Any]:
    question = encoded(event.question)
    return {"cluster": event.cluster, "metric": event.metric, "question": question, "reserved": event.reserved}
