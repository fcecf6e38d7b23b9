"""The series of Unix groups and accounts: read, learned and stored as those of users are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, select

from jobsight_predictor.question import Question
from jobsight_predictor.series import Series
from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.job import ForecastJob
from jobsight_server.storage.fetch import write_many
from jobsight_server.storage.schema import group_series

_WRITE = (
    "INSERT INTO group_series (cluster, field, name, metric, n, updated, state) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (cluster, field, name, metric) DO UPDATE SET n = excluded.n, updated = excluded.updated, "
    "state = excluded.state"
)


class UserGroupKey(NamedTuple):
    """Names a Unix group or an account (``field``) of a cluster."""

    cluster: str
    field: str
    name: str


@dataclass(slots=True)
class _Learned:
    series: Series
    updated: float
    changed: bool = False


class GroupSeries:
    """The series of the groups that the setting ``job_groups`` asks for; learns, and writes what has changed."""

    def __init__(self, config: ForecastConfig) -> None:
        self._config = config
        self._known: dict[tuple[UserGroupKey, str], _Learned] = {}

    def keys(self, cluster: str, question: Question) -> list[UserGroupKey]:
        """The groups of a job that have series."""
        known = [(field, getattr(question, field)) for field in self._config.group_fields]
        return [UserGroupKey(cluster, field, name) for field, name in known if name is not None]

    def load(self, connection: Connection, keys: Iterable[UserGroupKey]) -> None:
        """Reads the series of these groups.

        Raises:
            ValueError: they were learned with another window, bins or alpha.
        """
        for key in keys:
            for metric, series, updated in read_group_series(connection, key):
                if series.parameters != self._config.parameters(metric):
                    raise ValueError("this series was learned with another window, bins or alpha: retrain on all jobs")
                self._known[key, metric] = _Learned(series, updated)

    def learn(self, job: ForecastJob, metric: str, value: float) -> None:
        """Learns one value into the series of each group of the job."""
        for key in self.keys(job.cluster, job.question):
            learned = self._known.get((key, metric))
            if learned is None:
                learned = self._known[key, metric] = _Learned(Series(self._config.parameters(metric)), 0.0)
            learned.series.learn(value)
            learned.updated, learned.changed = job.end or 0.0, True

    def store(self, connection: Connection) -> None:
        """Writes the series that have learned since they were read."""
        rows = [
            (*key, metric, of.series.n, of.updated, json.dumps(of.series.state(), separators=(",", ":")))
            for (key, metric), of in sorted(self._known.items(), key=lambda item: item[0])
            if of.changed
        ]
        write_many(connection, _WRITE, rows)


def read_group_series(connection: Connection, key: UserGroupKey) -> list[tuple[str, Series, float]]:
    """(metric, series, end of the last job learned) of a group, by metric."""
    columns = group_series.c
    query = (
        select(columns.metric, columns.state, columns.updated)
        .where(columns.cluster == key.cluster, columns.field == key.field, columns.name == key.name)
        .order_by(columns.metric)
    )
    return [
        (metric, Series.from_state(json.loads(state)), updated) for metric, state, updated in connection.execute(query)
    ]
