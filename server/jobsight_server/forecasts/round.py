"""Learns the runs just profiled, and the submissions between them: the events of a round, by time.

A forecast is judged as of the job's submission. A round goes up to the last end among its runs; jobs submitted before
that without a forecast are forecast on the way, so that following a scheduler and importing a year's log do the same.
Jobs submitted later wait for the next round: until then, nothing is learned that could change their forecast.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.pending import PendingForecast
from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.events import Finished, events_by_time, forecasts_among
from jobsight_server.forecasts.job import read_jobs, read_waiting
from jobsight_server.forecasts.learn import Learner
from jobsight_server.forecasts.stored import RunMetric
from jobsight_server.storage.dialect import lock_until_commit
from jobsight_server.storage.fetch import write_many
from jobsight_server.storage.schema import profiles

_SET_FORECAST_SEQ = "UPDATE jobs SET forecast_seq = ? WHERE id = ?"


def lock_learning(connection: Connection) -> None:
    """Keeps others from learning until the transaction ends."""
    lock_until_commit(connection, "jobsight learning")


def last_learn_seq(connection: Connection) -> int:
    """``learn_seq`` of the run learned last; 0 before the first."""
    return connection.scalar(select(func.max(profiles.c.learn_seq))) or 0


def learn_round(
    connection: Connection, config: ForecastConfig, learned: Mapping[int, Mapping[str, float | None]], before: int
) -> dict[RunMetric, PendingForecast]:
    """Learns runs (id -> metric -> value), given in order of their end, after the one with ``learn_seq`` ``before``.

    Returns the forecast for each of them.

    Raises:
        ValueError: the stored model is of other job groups.
    """
    known = read_jobs(connection, list(learned))
    finished = [known[run_id] for run_id in learned]
    waiting = read_waiting(connection, max(job.end or 0.0 for job in finished))
    events = events_by_time(finished, waiting, learned)
    learner = Learner(config)
    jobs = [(event.job.cluster, event.job.question) for event in events]
    learner.load(connection, jobs, METRICS, pending=[job.run_id for job in finished if job.forecast_seq is not None])
    forecast_before = {run_id for run_id, _ in learner.pending}
    judged = learner.learn(events)
    learner.store(connection, list(learned))
    # Those that will never be judged are marked too, or every round would find them again.
    forecast_seq = dict.fromkeys([job.run_id for job in waiting], before)
    forecast_seq |= forecasts_among(events, forecast_before, before)
    write_many(connection, _SET_FORECAST_SEQ, [(seq, run_id) for run_id, seq in forecast_seq.items()])
    return judged


def learn_late(
    connection: Connection, config: ForecastConfig, learned: Mapping[int, Mapping[str, float | None]]
) -> None:
    """Learns further metrics of runs learned before, whose samples arrived late, in this order.

    Their pending forecasts are gone: they are judged by the current forecast.

    Raises:
        ValueError: the stored model is of other job groups.
    """
    if not learned:
        return
    known = read_jobs(connection, list(learned))
    learner = Learner(config)
    learner.load(connection, [(job.cluster, job.question) for job in known.values()], METRICS)
    learner.learn([Finished(known[run_id], values) for run_id, values in learned.items()])
    learner.store(connection)
