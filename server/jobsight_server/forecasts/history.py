"""History: what a user's jobs used, and what each forecaster would have forecast."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from sqlalchemy import Connection, func, select

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.forecasters.parameters import DEFAULT_PARAMETERS, FiveParameters, make_five
from jobsight_server.record import Record
from jobsight_server.storage.schema import jobs, profiles

Column = list[float | None]


class MetricHistory(Record):
    """Values learned in one series, oldest first, as arrays of equal length, and the forecasts for each.

    ``time``: end of the job; ``actual``: what it used; ``answered`` and ``bound``: forecast and recommended reservation
    at its submission; ``forecasts``: those of the published five before the value was known. ``n`` counts all values,
    including those before the listed ones; ``shown_only`` those that are shown and were not learned,
    ``lower_bounds`` of which because the job ran out.
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
    """The last ``limit`` values learned of one series, and what the five with these ``parameters`` forecast."""
    of_series = (jobs.c.cluster == cluster, jobs.c.user == user, profiles.c.metric == metric)
    query = (
        select(jobs.c.end, jobs.c.job_id, profiles.c.value, profiles.c.forecast, profiles.c.bound)
        .join(profiles, profiles.c.run_id == jobs.c.id)
        .where(*of_series, profiles.c.value.is_not(None), profiles.c.shown_only.is_(False))
        .order_by(profiles.c.learn_seq)
    )
    rows = connection.execute(query).all()
    actual = np.array([row.value for row in rows], dtype=np.float64)
    first = max(0, len(rows) - limit)
    listed = rows[first:]
    shown_only = select(func.count()).join_from(jobs, profiles).where(*of_series, profiles.c.shown_only.is_(True))
    lower_bounds = shown_only.where(profiles.c.lower_bound.is_(True))
    return MetricHistory(
        n=len(rows),
        shown_only=connection.scalar(shown_only) or 0,
        lower_bounds=connection.scalar(lower_bounds) or 0,
        time=[row.end for row in listed],
        job_id=[row.job_id for row in listed],
        actual=[row.value for row in listed],
        answered=[row.forecast for row in listed],
        bound=[row.bound for row in listed],
        # Replayed from the very first value: a forecast depends on everything before it.
        forecasts={
            name: [None if np.isnan(value) else value for value in forecaster.replay(actual)[first:].tolist()]
            for name, forecaster in make_five(parameters).items()
        },
    )
