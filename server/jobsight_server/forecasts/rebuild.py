"""Retrains everything from the stored profiles, in the original order, where the stored model is outdated."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import Connection, Engine, and_, delete, or_, select, text

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question
from jobsight_server.forecasts.learn import Learner, last_learn_seq, lock_learning, no_collection
from jobsight_server.forecasts.outcomes import (
    Event,
    Finished,
    Observation,
    Submitted,
    observed,
    reported,
    reported_first,
)
from jobsight_server.forecasts.reader import StateKey, read_parameters, read_state
from jobsight_server.forecasts.request import COLUMNS, ForecastConfig, ForecastJob, job_of, read_jobs
from jobsight_server.storage.event_counts import mark_apportioned
from jobsight_server.storage.schema import (
    group_series,
    jobs,
    model_state,
    pending_forecasts,
    profiles,
    series,
)

_LEARNED = text("SELECT EXISTS (SELECT 1 FROM profiles WHERE value IS NOT NULL AND NOT shown_only)")
# The condition of the index on ``shown_only``, so that it is a look-up.
_APPORTIONED_OTHERWISE = text(
    "SELECT EXISTS (SELECT 1 FROM profiles WHERE attribution = 'apportioned' AND value IS NOT NULL "
    "AND shown_only = :learned AND NOT lower_bound)"
)


def is_outdated(connection: Connection, config: ForecastConfig) -> bool:
    """Whether the stored model is of another configuration or version, and has to be retrained on all jobs."""
    if connection.scalar(_APPORTIONED_OTHERWISE, {"learned": config.learn_apportioned}):
        return True
    learned = [tuple(row) for row in connection.execute(text("SELECT DISTINCT cluster, metric FROM series"))]
    if not learned:  # perhaps migrated from an older version
        return bool(connection.scalar(_LEARNED))
    (site, *_) = config.profile("runtime").state_keys(Question())
    stored = read_state(connection, [StateKey(cluster, metric, site) for cluster, metric in learned])
    for cluster, metric in learned:
        if (cluster, metric) not in stored:
            return True
        if read_parameters(connection, cluster, metric) != config.parameters(metric):
            return True
        try:
            config.profile(metric).load(stored[cluster, metric])
        except ValueError:
            return True
    return False


log = logging.getLogger(__name__)

_STEP = 5000
_SHOWN_ONLY = text(
    "UPDATE profiles SET shown_only = :shown_only "
    "WHERE attribution = 'apportioned' AND value IS NOT NULL AND shown_only <> :shown_only AND NOT lower_bound"
)
_WAITS = and_(jobs.c.profiled.is_(False), jobs.c.state.in_(("queued", "running", "ended")))

RunsRebuilt = Callable[[int, int], None]


def rebuild(engine: Engine, config: ForecastConfig | None = None, progress: RunsRebuilt | None = None) -> int:
    """Retrains every profile and series; the rows are exactly those from learning run by run.

    Reads and learns without blocking others; only what was learned in the meantime is added, and the new rows are
    written, in one transaction that others wait for. ``progress(done, all)`` counts runs. Returns how many
    series there are.
    """
    config = config or ForecastConfig()
    learner, under_way = Learner(config), dict[int, ForecastJob]()
    with no_collection():
        with engine.connect().execution_options(reading=True) as connection:
            top = last_learn_seq(connection)
            for begin in range(0, top, _STEP):
                end = min(begin + _STEP, top)
                learner.learn(_events(connection, config, begin, end, under_way))
                if progress is not None:
                    progress(end, top)
        learner.encode_state()
        with engine.begin() as connection:
            lock_learning(connection)
            learner.learn(_events(connection, config, top, None, under_way))
            waiting = set(connection.scalars(select(jobs.c.id).where(jobs.c.forecast_seq.is_not(None), _WAITS)))
            learner.pending = {key: forecast for key, forecast in learner.pending.items() if key[0] in waiting}
            for table in (series, group_series, model_state, pending_forecasts):
                connection.execute(delete(table))
            mark_apportioned(connection, not config.learn_apportioned)
            connection.execute(_SHOWN_ONLY, {"shown_only": not config.learn_apportioned})
            return learner.store(connection)


def rebuild_if_outdated(engine: Engine, config: ForecastConfig) -> bool:
    """Retrains if the stored model is of other settings or an older version; returns whether it did."""
    with engine.connect().execution_options(reading=True) as connection:
        if not is_outdated(connection, config):
            return False
    log.info("the stored model was trained with other settings or by another version: retraining on all finished jobs")
    count = rebuild(engine, config)
    log.info("retrained %d series", count)
    return True


def _events(
    connection: Connection, config: ForecastConfig, begin: int, end: int | None, under_way: dict[int, ForecastJob]
) -> list[Event]:
    """The events after the run with ``learn_seq`` ``begin``, up to and including the one with ``end``; None: all.

    At one position in the order, a run is learned first, then reports, then submissions.
    ``under_way`` carries the submitted, unfinished jobs from one piece to the next.
    """
    found: list[tuple[int, int, Event]] = []
    found += [(learn_seq, 2, event) for learn_seq, event in _submitted(connection, begin, end, under_way)]
    found += [(learn_seq, 1, event) for learn_seq, event in reported(connection, begin, end)]
    found += [(learn_seq, 0, event) for learn_seq, event in _finished(connection, config, begin, end, under_way)]
    found.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in found]


def _finished(
    connection: Connection, config: ForecastConfig, begin: int, end: int | None, under_way: dict[int, ForecastJob]
) -> list[tuple[int, Finished]]:
    """A run's use of the metrics learned at each ``learn_seq``; a late value has one of its own."""
    names = ("learn_seq", "run_id", "metric", "value", "attribution", "lower_bound")
    query = select(*(profiles.c[name] for name in names)).where(profiles.c.learn_seq > begin)
    query = query.order_by(profiles.c.learn_seq, profiles.c.run_id)
    if end is not None:
        query = query.where(profiles.c.learn_seq <= end)
    found: dict[tuple[int, int], dict[str, Observation | None]] = {}
    for learn_seq, run_id, metric, value, attribution, lower_bound in connection.execute(query):
        of_run = found.setdefault((learn_seq, run_id), {})
        of_run[metric] = Observation(value, lower_bound) if value is not None and config.learns(attribution) else None
    known = read_jobs(connection, [run_id for _, run_id in found if run_id not in under_way])
    known |= {run_id: under_way.pop(run_id) for _, run_id in found if run_id in under_way}
    reported = reported_first(connection)
    events = []
    for (learn_seq, run_id), measured in found.items():
        # The run time is known from the log, so what is without it arrived late.
        all_of = observed(known[run_id], measured, is_late="runtime" not in measured)
        all_of = {metric: all_of.get(metric) for metric in METRICS if all_of.get(metric) is not None}
        for metric in [metric for metric in all_of if (run_id, metric) in reported]:
            all_of[metric] = None
        events.append((learn_seq, Finished(known[run_id], all_of)))
    return events


def _submitted(
    connection: Connection, begin: int, end: int | None, under_way: dict[int, ForecastJob]
) -> list[tuple[int, Submitted]]:
    """A metric without a value for the job can be skipped."""
    is_measured = and_(profiles.c.run_id == jobs.c.id, profiles.c.value.is_not(None))
    query = (
        select(profiles.c.metric, *COLUMNS)
        .outerjoin_from(jobs, profiles, is_measured)
        .where(jobs.c.forecast_seq >= begin, or_(profiles.c.metric.is_not(None), _WAITS))
        .order_by(jobs.c.forecast_seq, jobs.c.id)
    )
    if end is not None:
        query = query.where(jobs.c.forecast_seq < end)
    found: dict[int, tuple[ForecastJob, list[str]]] = {}
    for metric, *row in connection.execute(query):
        if row[0] not in found:
            found[row[0]] = (job_of(row), [])
        found[row[0]][1].extend(found[row[0]][0].metrics if metric is None else (metric,))
    under_way |= {run_id: job for run_id, (job, _) in found.items()}
    return [(job.forecast_seq or 0, Submitted(job, metrics)) for job, metrics in found.values()]
