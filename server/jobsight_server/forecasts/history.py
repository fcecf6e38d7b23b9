"""History: what a user's jobs used, and what each forecaster would have forecast."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta
from sqlalchemy import Connection, select

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.forecasters.parameters import DEFAULT_PARAMETERS, FiveParameters, make_five
from jobsight_predictor.question import Question
from jobsight_predictor.series import Series
from jobsight_server.forecasts.request import ForecastConfig, ForecastJob
from jobsight_server.record import Record
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.schema import group_series, jobs, profiles, series

Column = list[float | None]

REPLAYED = 1000
"""Jobs of a user that are read for a history: what was before them moves only forecasts from all values, a little."""


class MetricHistory(Record):
    """Values learned in one series, oldest first, as arrays of equal length, and the forecasts for each.

    ``time``: end of the job; ``actual``: what it used; ``answered`` and ``bound``: forecast and recommended reservation
    at its submission; ``forecasts``: those of the published five before the value was known. ``n`` counts all values,
    including those before the listed ones; ``shown_only`` those among the user's last 1,000 jobs that are shown and
    were not learned, ``lower_bounds`` of which because the job ran out. The five have seen these jobs only.
    """

    n: int
    shown_only: int
    lower_bounds: int
    time: list[float]
    job_id: list[str]
    actual: list[float]
    answered: Column
    bound: Column
    forecasts: Annotated[dict[str, Column], Meta(extra_json_schema={"required": [*FIVE]})]


def history(
    connection: Connection,
    cluster: str,
    user: str,
    metric: str,
    limit: int,
    parameters: FiveParameters = DEFAULT_PARAMETERS,
) -> MetricHistory:
    """The last ``limit`` values learned of one series, and what the five with these ``parameters`` forecast.

    Only the user's last ``REPLAYED`` jobs are read, or ``limit`` if that is more: some users have half a million.
    """
    of_user = (jobs.c.cluster == cluster, jobs.c.user == user)
    last = select(jobs.c.id).where(*of_user, jobs.c.end.is_not(None)).order_by(jobs.c.end.desc())
    last_runs = last.limit(max(limit, REPLAYED)).subquery()
    columns = (profiles.c.value, profiles.c.forecast, profiles.c.bound, profiles.c.shown_only, profiles.c.lower_bound)
    query = (
        select(jobs.c.end, jobs.c.job_id, *columns)
        .join_from(last_runs, jobs, jobs.c.id == last_runs.c.id)
        .join(profiles, profiles.c.run_id == jobs.c.id)
        .where(profiles.c.metric == metric)
        .order_by(profiles.c.learn_seq)
    )
    found = connection.execute(query).all()
    rows = [row for row in found if row.value is not None and not row.shown_only]
    counted = select(series.c.n).where(series.c.cluster == cluster, series.c.user == user, series.c.metric == metric)
    actual = np.array([row.value for row in rows], dtype=np.float64)
    first = max(0, len(rows) - limit)
    listed = rows[first:]
    return MetricHistory(
        n=max(len(rows), connection.scalar(counted) or 0),
        shown_only=sum(row.shown_only for row in found),
        lower_bounds=sum(row.shown_only and row.lower_bound for row in found),
        time=[row.end for row in listed],
        job_id=[row.job_id for row in listed],
        actual=[row.value for row in listed],
        answered=[row.forecast for row in listed],
        bound=[row.bound for row in listed],
        # Replayed from the first of these values: a forecast depends on what was before it.
        forecasts={
            name: [None if np.isnan(value) else value for value in forecaster.replay(actual)[first:].tolist()]
            for name, forecaster in make_five(parameters).items()
        },
    )


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
            for metric, known, updated in read_group_series(connection, key):
                if known.parameters != self._config.parameters(metric):
                    raise ValueError("this series was learned with another window, bins or alpha: retrain on all jobs")
                self._known[key, metric] = _Learned(known, updated)

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
