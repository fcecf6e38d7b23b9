"""Whether the stored model agrees with the current configuration."""

from __future__ import annotations

from sqlalchemy import Connection, text

from jobsight_predictor.question import Question
from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.stored import StateKey, read_parameters, read_state

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
