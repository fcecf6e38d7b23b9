"""Learns the runs just profiled, and the submissions between them: the events of a round, by time.

A forecast is judged as of the job's submission. A round goes up to the last end among its runs; jobs submitted before
that without a forecast are forecast on the way, so that following a scheduler and importing a year's log do the same.
Jobs submitted later wait for the next round: until then, nothing is learned that could change their forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from sqlalchemy import Connection, func, select

from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.events import Event, Finished, Observations, Submitted, observed
from jobsight_server.forecasts.job import ForecastJob, read_jobs, read_waiting
from jobsight_server.forecasts.learn import Learner
from jobsight_server.forecasts.outcomes import claim
from jobsight_server.forecasts.stored import RunAndMetric
from jobsight_server.storage.dialect import lock_until_commit
from jobsight_server.storage.fetch import write_many
from jobsight_server.storage.schema import profiles

_SET_FORECAST_SEQ = "UPDATE jobs SET forecast_seq = ? WHERE id = ?"
_FORECAST_FOR = ("queued", "running", "ended")


def lock_learning(connection: Connection) -> None:
    """Keeps others from learning until the transaction ends."""
    lock_until_commit(connection, "jobsight learning")


def last_learn_seq(connection: Connection) -> int:
    """``learn_seq`` of the run learned last; 0 before the first."""
    return connection.scalar(select(func.max(profiles.c.learn_seq))) or 0


def learn_round(
    connection: Connection,
    config: ForecastConfig,
    measured: Mapping[int, Observations],
    before: int,
) -> dict[RunAndMetric, PendingForecast]:
    """Learns runs (by id), given in order of their end, after the one with ``learn_seq`` ``before``.

    Returns the forecast for each of them.

    Raises:
        ValueError: the stored model is of other job groups.
    """
    known = read_jobs(connection, list(measured))
    finished = [known[run_id] for run_id in measured]
    waiting = read_waiting(connection, max(job.end or 0.0 for job in finished))
    found = {run_id: observed(known[run_id], of_run) for run_id, of_run in measured.items()}
    claim(connection, known, found)
    events = _events_by_time(finished, waiting, found)
    learner = Learner(config)
    jobs = [(event.job.cluster, event.job.question) for event in events]
    metrics = dict.fromkeys(metric for event in events for metric in event.metrics)
    learner.load(connection, jobs, metrics, pending=[job.run_id for job in finished if job.forecast_seq is not None])
    forecast_before = {run_id for run_id, _ in learner.pending}
    judged = learner.learn(events)
    learner.store(connection, list(measured))
    # Those that will never be judged are marked too, or every round would find them again.
    forecast_seq = dict.fromkeys([job.run_id for job in waiting], before)
    forecast_seq |= _forecasts_among(events, forecast_before, before)
    write_many(connection, _SET_FORECAST_SEQ, [(seq, run_id) for run_id, seq in forecast_seq.items()])
    return judged


def learn_late(
    connection: Connection,
    config: ForecastConfig,
    measured: Mapping[int, Observations],
) -> None:
    """Learns further metrics of runs learned before, whose samples arrived late, in this order.

    Their pending forecasts are gone: they are judged by the current forecast.

    Raises:
        ValueError: the stored model is of other job groups.
    """
    if not measured:
        return
    known = read_jobs(connection, list(measured))
    found = {run_id: observed(known[run_id], of_run, is_late=True) for run_id, of_run in measured.items()}
    claim(connection, known, found)
    learner = Learner(config)
    metrics = dict.fromkeys(metric for of_run in found.values() for metric in of_run)
    learner.load(connection, [(job.cluster, job.question) for job in known.values()], metrics)
    learner.learn([Finished(known[run_id], of_run) for run_id, of_run in found.items()])
    learner.store(connection)


def _events_by_time(
    finished: Sequence[ForecastJob],
    waiting: Sequence[ForecastJob],
    found: Mapping[int, Observations],
) -> list[Submitted | Finished]:
    """The ends of the ``finished``, with what they used, and the submissions of those ``waiting`` for a forecast.

    At one instant, jobs end before others are submitted. Jobs whose forecast at
    submission can never be judged are left out: they were removed, or ended before.
    """
    ends = {job.run_id: job.end or 0.0 for job in finished}
    events: list[tuple[float, int, Submitted | Finished]] = []
    for job in finished:
        observations = dict.fromkeys(job.metrics) | found[job.run_id]
        events.append((ends[job.run_id], 0, Finished(job, observations)))
    for job in waiting:
        submitted = job.submitted or 0.0
        if submitted < ends[job.run_id] if job.run_id in ends else job.state in _FORECAST_FOR:
            events.append((submitted, 1, Submitted(job, job.metrics)))
    events.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in events]


def _forecasts_among(events: Sequence[Event], forecast_before: Set[int], before: int) -> dict[int, int]:
    """For each run forecast among the events: ``learn_seq`` of the last run learned before that.

    A run that ends without a forecast is forecast, and judged, when it is learned.
    """
    found: dict[int, int] = {}
    for event in events:
        if isinstance(event, Submitted):
            found[event.job.run_id] = before
        elif isinstance(event, Finished):
            if event.job.run_id not in forecast_before:
                found.setdefault(event.job.run_id, before)
            before += 1
    return found
