"""Learns the runs just profiled, and the submissions between them: the events of a round, by time.

A forecast is judged as of the job's submission. A round goes up to the last end among its runs; jobs submitted before
that without a forecast are forecast on the way, so that following a scheduler and importing a year's log do the same.
Jobs submitted later wait for the next round: until then, nothing is learned that could change their forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from sqlalchemy import Connection, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.pending import PendingForecast
from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.events import Event, Finished, RanOut, Submitted
from jobsight_server.forecasts.job import ForecastJob, read_jobs, read_waiting
from jobsight_server.forecasts.learn import Learner
from jobsight_server.forecasts.ran_out import LoggedFailure, ran_out, store_logged, stored_runs
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
    learned: Mapping[int, Mapping[str, float | None]],
    before: int,
    logged: Mapping[int, LoggedFailure],
) -> dict[RunAndMetric, PendingForecast]:
    """Learns runs (id -> metric -> value), given in order of their end, after the one with ``learn_seq`` ``before``.

    ``logged``: those of them that ran out of something. Returns the forecast for each of them.

    Raises:
        ValueError: the stored model is of other job groups.
    """
    known = read_jobs(connection, list(learned))
    finished = [known[run_id] for run_id in learned]
    waiting = read_waiting(connection, max(job.end or 0.0 for job in finished))
    failed = _ran_out(known, logged)
    events = _events_by_time(finished, waiting, learned, failed)
    learner = Learner(config)
    jobs = [(event.job.cluster, event.job.question) for event in events if not isinstance(event, RanOut)]
    learner.load(connection, jobs, METRICS, pending=[job.run_id for job in finished if job.forecast_seq is not None])
    forecast_before = {run_id for run_id, _ in learner.pending}
    judged = learner.learn(events)
    learner.store(connection, list(learned))
    learn_seqs = {run_id: learn_seq for learn_seq, run_id in enumerate(learned, before + 1)}
    store_logged(connection, known, logged, failed, learn_seqs)
    # Those that will never be judged are marked too, or every round would find them again.
    forecast_seq = dict.fromkeys([job.run_id for job in waiting], before)
    forecast_seq |= _forecasts_among(events, forecast_before, before)
    write_many(connection, _SET_FORECAST_SEQ, [(seq, run_id) for run_id, seq in forecast_seq.items()])
    return judged


def learn_late(
    connection: Connection,
    config: ForecastConfig,
    learned: Mapping[int, Mapping[str, float | None]],
    before: int,
    logged: Mapping[int, LoggedFailure],
) -> None:
    """Learns further metrics of runs learned before, whose samples arrived late, in this order.

    The last run learned has the ``learn_seq`` ``before``. ``logged``: those that ran out of one of these metrics. Their
    pending forecasts are gone: they are judged by the current forecast.

    Raises:
        ValueError: the stored model is of other job groups.
    """
    if not learned:
        return
    known = read_jobs(connection, list(learned))
    learner = Learner(config)
    learner.load(connection, [(job.cluster, job.question) for job in known.values()], METRICS)
    new = logged.keys() - stored_runs(connection, list(logged))
    logged = {run_id: failure for run_id, failure in logged.items() if run_id in new}
    failed = _ran_out(known, logged)
    events: list[Event] = []
    for run_id, values in learned.items():
        events.append(Finished(known[run_id], values))
        events += [failed[run_id]] if run_id in failed else []
    learner.learn(events)
    learner.store(connection)
    learn_seqs = {run_id: learn_seq for learn_seq, run_id in enumerate(learned, before + 1)}
    store_logged(connection, known, logged, failed, learn_seqs)


def _ran_out(jobs: Mapping[int, ForecastJob], logged: Mapping[int, LoggedFailure]) -> dict[int, RanOut]:
    found = {run_id: ran_out(jobs[run_id], failure) for run_id, failure in logged.items()}
    return {run_id: event for run_id, event in found.items() if event is not None}


def _events_by_time(
    finished: Sequence[ForecastJob],
    waiting: Sequence[ForecastJob],
    learned: Mapping[int, Mapping[str, float | None]],
    failed: Mapping[int, RanOut],
) -> list[Event]:
    """The ends of the ``finished``, with what they used, and the submissions of those ``waiting`` for a forecast.

    What a run ran out of follows its end. At one instant, jobs end before others are submitted. Jobs whose forecast at
    submission can never be judged are left out: they were removed, or ended before.
    """
    ends = {job.run_id: job.end or 0.0 for job in finished}
    events: list[tuple[float, int, Event]] = []
    for job in finished:
        values = {metric: learned[job.run_id].get(metric) for metric in METRICS}
        events.append((ends[job.run_id], 0, Finished(job, values)))
        if job.run_id in failed:
            events.append((ends[job.run_id], 0, failed[job.run_id]))
    for job in waiting:
        submitted = job.submitted or 0.0
        if submitted < ends[job.run_id] if job.run_id in ends else job.state in _FORECAST_FOR:
            events.append((submitted, 1, Submitted(job, tuple(METRICS))))
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
