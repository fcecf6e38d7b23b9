"""Reports of jobs' needs, matched with the log so that nothing is learned twice.

A report that names its job is about that job's run. Otherwise it is about a run that ran out of something if it fits:
the same reservation, and no difference in the description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Row, exists, insert, select, update

from jobsight_predictor.question import FIELDS, Question
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.forecasts.events import Observation, Observations, observed
from jobsight_server.forecasts.request import COLUMNS, ForecastJob, job_of, question_of_text, question_text
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.schema import jobs, outcomes, profiles

ROUNDED = 0.01  # share by which a reported reservation may differ from the run's

Taken = Literal["stored", "duplicate"]


class NeedReport(NamedTuple):
    """A job's need of a metric; ``job_id`` as in the accounting log, None if unknown."""

    cluster: str
    metric: str
    question: Question
    observation: Observation
    job_id: str | None = None


def store(connection: Connection, outcome: NeedReport, learn_seq: int, now: float) -> Taken:
    """Store an outcome, to be learned after the run with ``learn_seq``; return "duplicate" if it is known."""
    run_id = _run_about(connection, outcome)
    if run_id is None and outcome.job_id is not None and _was_reported(connection, outcome):
        return "duplicate"
    row = {
        "cluster": outcome.cluster,
        "user": outcome.question.user,
        "metric": outcome.metric,
        "question": question_text(outcome.question),
        "value": outcome.observation.value,
        "lower_bound": outcome.observation.is_lower_bound,
        "reported": now,
        "learn_seq": learn_seq if run_id is None else None,
        "job_id": outcome.job_id,
        "run_id": run_id,
    }
    connection.execute(insert(outcomes).values(row))
    if run_id is not None:
        return "duplicate"
    if outcome.observation.is_lower_bound and not _is_logged(connection, outcome):
        add_event_counts(connection, {("reservations_ran_out", outcome.metric): 1})
    return "stored"


def claim(connection: Connection, known: Mapping[int, ForecastJob], found: dict[int, Observations]) -> None:
    """Remove from ``found`` what was reported before, and store the run of each report.

    Runs that ran out of something without a report are counted.
    """
    is_any = connection.scalar(select(exists().where(outcomes.c.run_id.is_(None))))
    counts: dict[tuple[str, str], int] = {}
    for run_id, observations in found.items():
        job = known[run_id]
        failed = None if job.failure is None else FAILED_METRIC[job.failure]
        for metric, observation in observations.items():
            if observation is None:
                if metric == failed:
                    counts["logged_failures_without_amount", metric] = 1
                continue
            report = _report_about(connection, job, metric, observation) if is_any else None
            if report is not None:
                connection.execute(update(outcomes).where(outcomes.c.id == report.id).values(run_id=run_id))
                observations[metric] = None
            elif metric == failed:
                counts["reservations_ran_out", metric] = counts.get(("reservations_ran_out", metric), 0) + 1
    add_event_counts(connection, counts)


def fits(one: Question, other: Question) -> bool:
    """Return whether both descriptions name the user and agree in every field that both have.

    >>> fits(Question("ann", "cfd"), Question("ann", "cfd", processors=4))
    True
    >>> fits(Question("ann", "cfd"), Question("ann", "mesh")), fits(Question(), Question("ann"))
    (False, False)
    """
    pairs = [(getattr(one, field), getattr(other, field)) for field in FIELDS]
    return one.user is not None and all(a == b or a is None or b is None for a, b in pairs)


def _report_about(connection: Connection, job: ForecastJob, metric: str, observation: Observation) -> Row[Any] | None:
    """Find an earlier report of the same observation."""
    open_ones = select(outcomes).where(
        outcomes.c.cluster == job.cluster,
        outcomes.c.metric == metric,
        outcomes.c.lower_bound == observation.is_lower_bound,
        outcomes.c.run_id.is_(None),
    )
    named = open_ones.where(outcomes.c.job_id == job.job_id)
    if (row := connection.execute(named.order_by(outcomes.c.id).limit(1)).first()) is not None:
        return row
    if not observation.is_lower_bound:
        return None
    low, high = (observation.value * factor for factor in (1.0 - ROUNDED, 1.0 + ROUNDED))
    unnamed = open_ones.where(outcomes.c.job_id.is_(None), outcomes.c.value.between(low, high))
    rows: Iterable[Row[Any]] = connection.execute(unnamed.order_by(outcomes.c.id))
    return next((row for row in rows if fits(question_of_text(row.question), job.question)), None)


def _run_about(connection: Connection, outcome: NeedReport) -> int | None:
    """Find the run with the same observation in the log, if no other report is about it."""
    metric, observation = outcome.metric, outcome.observation
    about_runs = select(outcomes.c.run_id).where(
        outcomes.c.metric == metric,
        outcomes.c.lower_bound == observation.is_lower_bound,
        outcomes.c.run_id.is_not(None),
    )
    query = select(*COLUMNS, profiles.c.value).where(
        profiles.c.run_id == jobs.c.id,
        profiles.c.metric == metric,
        jobs.c.cluster == outcome.cluster,
        jobs.c.id.not_in(about_runs),
    )
    if observation.is_lower_bound:
        ran_out = [failure for failure, of in FAILED_METRIC.items() if of == metric]
        query = query.where(jobs.c.failure.in_(ran_out))
    else:
        query = query.where(~profiles.c.shown_only, profiles.c.value.is_not(None))
    if outcome.job_id is not None:
        query = query.where(jobs.c.job_id == outcome.job_id)
    elif observation.is_lower_bound:
        query = query.where(jobs.c.user == outcome.question.user)
    else:
        return None
    for *row, value in connection.execute(query.order_by(jobs.c.id.desc())):
        job = job_of(row)
        needed = observed(job, {metric: None if value is None else Observation(value)})[metric]
        if needed is None:
            continue
        is_same = not observation.is_lower_bound or abs(needed.value - observation.value) <= ROUNDED * needed.value
        if is_same and (outcome.job_id is not None or fits(outcome.question, job.question)):
            return job.run_id
    return None


def _is_logged(connection: Connection, outcome: NeedReport) -> bool:
    """Return whether the log has shown that the job ran out of this metric, with any amount."""
    ran_out = [failure for failure, metric in FAILED_METRIC.items() if metric == outcome.metric]
    query = select(jobs.c.id).where(jobs.c.cluster == outcome.cluster, jobs.c.job_id == outcome.job_id)
    return connection.scalar(query.where(jobs.c.profiled, jobs.c.failure.in_(ran_out)).limit(1)) is not None


def _was_reported(connection: Connection, outcome: NeedReport) -> bool:
    """Return whether an earlier report of this job says the same."""
    query = select(outcomes.c.id).where(
        outcomes.c.cluster == outcome.cluster,
        outcomes.c.job_id == outcome.job_id,
        outcomes.c.metric == outcome.metric,
        outcomes.c.lower_bound == outcome.observation.is_lower_bound,
    )
    if outcome.observation.is_lower_bound:
        query = query.where(outcomes.c.value == outcome.observation.value)
    return connection.scalar(query.limit(1)) is not None
