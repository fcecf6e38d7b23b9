"""Retrains everything from the stored profiles, in the original order, where the stored model is outdated."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import Connection, Engine, delete, text

from jobsight_predictor.question import Question
from jobsight_server.forecasts.events import LearnedUntil, last_event, last_learn_seq, learned_events
from jobsight_server.forecasts.learner import Learner, no_collection
from jobsight_server.forecasts.reader import StateKey, read_state
from jobsight_server.forecasts.request import ForecastConfig, ForecastJob
from jobsight_server.forecasts.rounds import lock_learning
from jobsight_server.storage.event_counts import mark_apportioned
from jobsight_server.storage.schema import model_state, pending_at_start, pending_forecasts, series

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
                learner.learn(learned_events(connection, config, LearnedUntil(begin, 0), end, under_way))
                if progress is not None:
                    progress(end, top)
        learner.encode_state()
        with engine.begin() as connection:
            lock_learning(connection)
            learner.learn(learned_events(connection, config, LearnedUntil(top, 0), None, under_way))
            for table in (series, model_state, pending_forecasts, pending_at_start):
                connection.execute(delete(table))
            mark_apportioned(connection, not config.learn_apportioned)
            connection.execute(_SHOWN_ONLY, {"shown_only": not config.learn_apportioned})
            return learner.store(connection, last_event(connection))


def rebuild_if_outdated(engine: Engine, config: ForecastConfig) -> bool:
    """Retrains if the stored model is of other settings or an older version; returns whether it did."""
    with engine.connect().execution_options(reading=True) as connection:
        if not is_outdated(connection, config):
            return False
    log.info("the stored model was trained with other settings or by another version: retraining on all finished jobs")
    count = rebuild(engine, config, lambda done, total: log.info("retrained on %d of %d jobs", done, total))
    log.info("retrained %d series", count)
    return True
