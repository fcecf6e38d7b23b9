"""History: the use of a user's jobs, and the forecasts of each forecaster at that time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, bindparam, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.series import make_five
from jobsight_server.forecasts.stored_model import recommended_requests
from jobsight_server.ground.answers import Record
from jobsight_server.storage.engine import of_runs
from jobsight_server.storage.schema import jobs, profiles, series

Column = list[float | None]

REPLAYED = 1000
"""Jobs of a user for replaying the five: earlier ones only slightly change forecasts from all values."""


class MetricHistory(Record):
    """Learned values of one series in order, and forecasts for each, as arrays of equal length.

    ``time``: end of the job; ``actual``: its use; ``answered`` and ``bound``: forecast and recommended reservation at
    submission; ``forecasts``, if requested: those of the published five before the value was known, from the user's
    last 1,000 jobs. ``n`` counts all values ever learned; ``shown_only`` the listed jobs that are shown but were not
    learned, ``lower_bounds`` those of them that ran out.
    """

    n: int
    shown_only: int
    lower_bounds: int
    time: list[float]
    job_id: list[str]
    actual: list[float]
    answered: Column
    bound: Column
    forecasts: dict[str, Column]


def history(
    connection: Connection,
    cluster: str,
    user: str,
    limit: int,
    since: float | None = None,
    until: float | None = None,
    *,
    with_five: bool = False,
) -> dict[str, MetricHistory]:
    """Return, by metric, the learned values of the user's last ``limit`` jobs that ended from ``since`` on, before
    ``until``.

    ``with_five`` adds the forecasts of the published five, from the last ``REPLAYED`` jobs, or ``limit`` if that is
    more: some users have half a million.
    """
    of_user = [jobs.c.cluster == cluster, jobs.c.user == user, jobs.c.end.is_not(None)]
    if since is not None:
        of_user.append(jobs.c.end >= since)
    if until is not None:
        of_user.append(jobs.c.end < until)
    newest = select(jobs.c.id, jobs.c.end, jobs.c.job_id).where(*of_user).order_by(jobs.c.end.desc(), jobs.c.id.desc())
    runs = connection.execute(newest.limit(max(limit, REPLAYED) if with_five else limit)).all()
    listed = {run.id for run in runs[:limit]}
    counted = select(series.c.metric, series.c.n).where(series.c.cluster == cluster, series.c.user == user)
    numbers = {row.metric: row.n for row in connection.execute(counted)}
    found: dict[str, list[_Value]] = {metric: [] for metric in METRICS}
    of_run = {run.id: run for run in runs}
    values = of_runs(connection, _VALUES, list(of_run))
    learned = {row.run_id: row.learn_seq for row in values if row.metric == "runtime"}
    for run_id, metric, learn_seq, *rest in values:
        run, place = of_run[run_id], learn_seq or learned[run_id]
        found[metric].append(_Value(run.end, run.job_id, run_id in listed, place, *rest))
    return {metric: _of_metric(rows, numbers.get(metric, 0), with_five) for metric, rows in found.items()}


class _Value(NamedTuple):
    end: float
    job_id: str
    listed: bool
    learn_seq: int
    value: float | None
    forecast: float | None
    bound: float | None
    attempts: str | None
    shown_only: bool
    lower_bound: bool


_OF_PROFILE = ("run_id", "metric", *_Value._fields[_Value._fields.index("learn_seq") :])
_VALUES = select(*(profiles.c[name] for name in _OF_PROFILE)).where(
    profiles.c.run_id.in_(bindparam("runs", expanding=True))
)


def _of_metric(found: list[_Value], n: int, with_five: bool) -> MetricHistory:
    learned = [row for row in found if row.value is not None and not row.shown_only]
    learned.sort(key=lambda row: row.learn_seq)
    forecasts: dict[str, Column] = {}
    if with_five:
        actual = np.array([row.value for row in learned], dtype=np.float64)
        for name, forecaster in make_five().items():
            # Replayed from the first of these values: a forecast depends on the values before it.
            values = zip(learned, forecaster.replay(actual).tolist(), strict=True)
            forecasts[name] = [None if np.isnan(value) else value for row, value in values if row.listed]
    rows = [row for row in learned if row.listed]
    others = [row for row in found if row.listed and row.shown_only]
    return MetricHistory(
        n=max(len(learned), n),
        shown_only=len(others),
        lower_bounds=sum(row.lower_bound for row in others),
        time=[row.end for row in rows],
        job_id=[row.job_id for row in rows],
        actual=[row.value for row in rows if row.value is not None],
        answered=[row.forecast for row in rows],
        bound=[next(iter(recommended_requests(row.bound, row.attempts)), None) for row in rows],
        forecasts=forecasts,
    )
