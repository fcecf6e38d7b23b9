"""Changes in the forecasts of waiting jobs."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_server.forecasts.record import Metric, Record
from jobsight_server.storage.schema import forecast_changes, jobs

LISTED = 1000


class Moved(Record):
    """A forecast and its reservation as of a ``time``, and their earlier values; in ``unit``."""

    time: float
    metric: Metric
    unit: str
    old_forecast: float | None
    new_forecast: float | None
    old_bound: float | None
    new_bound: float | None


class ForecastChange(Moved):
    """The same, with its job."""

    id: int
    cluster: str
    job_id: str
    user: str


class ForecastChanges(Record):
    """The first 1,000 changes after the requested one, oldest first.

    ``last`` is the ``since`` of the next request: the number of the last of these, or of the last stored.
    """

    now: float
    last: int
    changes: list[ForecastChange]


def changes_since(connection: Connection, since: int, now: float) -> ForecastChanges:
    """Return the changes with a number above ``since``."""
    columns = (*forecast_changes.c, jobs.c.cluster, jobs.c.job_id, jobs.c.user)
    query = select(*columns).join_from(forecast_changes, jobs, jobs.c.id == forecast_changes.c.run_id)
    query = query.where(forecast_changes.c.id > since).order_by(forecast_changes.c.id).limit(LISTED)
    found = [ForecastChange.of_row(row, unit=METRICS[row.metric].unit) for row in connection.execute(query)]
    last = connection.scalar(select(func.max(forecast_changes.c.id))) or 0
    return ForecastChanges(now, found[-1].id if len(found) == LISTED else max(last, since), found)


def changes_of(connection: Connection, run_id: int) -> list[Moved]:
    """Return the changes of one run, oldest first."""
    query = select(forecast_changes).where(forecast_changes.c.run_id == run_id).order_by(forecast_changes.c.id)
    return [Moved.of_row(row, unit=METRICS[row.metric].unit) for row in connection.execute(query)]
