"""Scores forecasts at submission for the finished jobs of a database.

Jobsight's forecast and bound were stored then. The published five are replayed on the same finished jobs: those of the
user that had been learned by then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, text

from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_predictor.metrics import METRICS
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.savings.savings import Asking, LeftOut
from jobsight_server.savings.sums.read import stored_days
from jobsight_server.savings.waste import WASTE, Waste, waste
from jobsight_server.settings.declared import Settings

Floats = NDArray[np.float64]

NAMES = ("Jobsight", *FIVE)
_NEAR = 0.2

_QUERY = text(
    'SELECT j.cluster, j."user", j."end" - j.start AS seconds, '
    "j.forecast_seq, p.learn_seq, p.value, p.forecast, p.bound "
    "FROM profiles p JOIN jobs j ON j.id = p.run_id "
    "WHERE p.metric = :metric AND p.value IS NOT NULL AND NOT p.shown_only ORDER BY p.learn_seq"
)
_NOT_SCORED = text(
    "SELECT metric, SUM(CASE WHEN shown_only AND NOT lower_bound THEN 1 ELSE 0 END) AS shown_only, "
    "SUM(CASE WHEN lower_bound THEN 1 ELSE 0 END) AS ran_out, "
    "SUM(CASE WHEN value IS NULL THEN 1 ELSE 0 END) AS without FROM profiles GROUP BY metric"
)


@dataclass(frozen=True, slots=True)
class Score:
    """Mean accuracy (0..1) and share of forecasts within 20 %, on the same jobs for every name."""

    accuracy: float
    within20: float


@dataclass(frozen=True, slots=True)
class Fit:
    """Share within bounds: of jobs, and of value x seconds."""

    jobs: int
    by_jobs: float
    weighted: float


@dataclass(slots=True)
class Account:
    """Per metric the scores by name, over ``compared`` jobs, and the fit of bounds.

    ``first``: jobs with an answer by Jobsight alone, since their users had no finished job yet. ``unanswered``: jobs
    without any forecast, since there was no data at their submission. Not scored: ``shown_only``, with an apportioned
    value that is not learned; ``ran_out``, killed before their full use; and those ``without`` a value. ``memory`` is
    that of *Waste* over all days, with the jobs that it leaves out.
    """

    compared: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    shown_only: dict[str, int] = field(default_factory=dict)
    ran_out: dict[str, int] = field(default_factory=dict)
    without: dict[str, int] = field(default_factory=dict)
    scores: dict[str, dict[str, Score]] = field(default_factory=dict)
    fits: dict[str, Fit] = field(default_factory=dict)
    memory: Waste | None = None
    left_out: LeftOut | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A finished job with a learned value; ``forecast_seq`` counts the jobs learned when it was submitted."""

    cluster: str
    user: str
    seconds: float
    forecast_seq: int
    learn_seq: int
    value: float
    forecast: float | None
    bound: float | None


def take_account(engine: Engine) -> Account:
    """Account for all profiled and learned values, and count those not learned."""
    account = Account()
    with engine.connect() as connection:
        for row in connection.execute(_NOT_SCORED):
            account.shown_only[row.metric], account.ran_out[row.metric] = row.shown_only, row.ran_out
            account.without[row.metric] = row.without
        for metric in METRICS:
            rows = [Row(*row) for row in connection.execute(_QUERY, {"metric": metric})]
            _score(account, metric, rows)
            _fit(account, metric, rows)
        if (days := stored_days(connection)) is not None:
            asking = Asking(connection, AnswerReader(forecast_config(Settings())))
            found = waste(connection, asking, WASTE.asked(by="cluster"), days)
            if found.memory.jobs:
                account.memory, account.left_out = found.memory, found.left_out["memory"]
    return account


def _score(account: Account, metric: str, rows: list[Row]) -> None:
    of_five = forecasts_of_five(rows)
    known = [i for i, row in enumerate(rows) if row.forecast is not None]
    same = [i for i in known if not np.isnan(of_five["locality"][i])]
    account.compared[metric], account.first[metric] = len(same), len(known) - len(same)
    account.unanswered[metric] = len(rows) - len(known)
    if not same:
        return
    values = np.array([rows[i].value for i in same])
    ours = np.array([rows[i].forecast for i in same], dtype=np.float64)
    by_name = {"Jobsight": ours, **{name: of_five[name][same] for name in FIVE}}
    account.scores[metric] = {
        name: Score(
            float(accuracies(forecasts, values).mean()), float((np.abs(forecasts - values) <= _NEAR * values).mean())
        )
        for name, forecasts in by_name.items()
    }


def forecasts_of_five(rows: list[Row]) -> dict[str, Floats]:
    """Replay the forecasts of each at submission, NaN before the user's first learned job; shape (n,)."""
    found = {name: np.full(len(rows), np.nan) for name in FIVE}
    series: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        series[row.cluster, row.user].append(i)
    for indices in series.values():
        positions = [rows[i].learn_seq for i in indices]
        # An extra value at the end: the last forecast follows all others.
        values = np.array([*(rows[i].value for i in indices), 0.0])
        learned = [bisect_right(positions, rows[i].forecast_seq) for i in indices]
        for name in FIVE:
            after = FORECASTERS[name]().replay(values)
            found[name][indices] = after[learned]
    return found


def _fit(account: Account, metric: str, rows: list[Row]) -> None:
    bound = [row for row in rows if row.bound is not None]
    if not bound:
        return
    fits = np.array([row.bound is not None and row.value <= row.bound for row in bound])
    weights = np.array([row.value * row.seconds for row in bound])
    weighted = float((fits * weights).sum() / weights.sum()) if weights.sum() > 0 else float(fits.mean())
    account.fits[metric] = Fit(len(bound), float(fits.mean()), weighted)
