"""Scores forecasts at submission for the finished jobs of a database.

Jobsight's forecast and bound were stored then. The published five are replayed on the same finished jobs: those of the
user that had been learned by then.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, text

from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_predictor.metrics import METRICS

Floats = NDArray[np.float64]

NAMES = ("Jobsight", *FIVE)
GIB_HOUR = 2**30 * 3600.0
_NEAR = 0.2

_QUERY = text(
    'SELECT j.cluster, j."user", j.processors, j.requested_memory_bytes, j."end" - j.start AS seconds, '
    "j.forecast_seq, p.learn_seq, p.value, p.forecast, p.bound, p.attempts "
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


@dataclass(frozen=True, slots=True)
class Saving:
    """Memory of the same jobs in byte seconds: used, requested, and recommended.

    Of ``jobs``, ``ran_out`` used more than requested and ``would_run_out`` more than recommended; the latter would have
    run again with the next recommendation. ``held`` has all attempts.
    """

    jobs: int
    used: float
    requested: float
    recommended: float
    held: float
    ran_out: int
    would_run_out: int
    left_out: int

    @property
    def freed(self) -> float:
        """Freed memory, repeats included; negative if recommendations hold more."""
        return self.requested - self.held


@dataclass(slots=True)
class Account:
    """Per metric the scores by name, over ``compared`` jobs, and the fit of bounds.

    ``first``: jobs with an answer by Jobsight alone, since their users had no finished job yet. ``unanswered``: jobs
    without any forecast, since there was no data at their submission. Not scored: ``shown_only``, with an apportioned
    value that is not learned; ``ran_out``, killed before their full use; and those ``without`` a value.
    """

    compared: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    shown_only: dict[str, int] = field(default_factory=dict)
    ran_out: dict[str, int] = field(default_factory=dict)
    without: dict[str, int] = field(default_factory=dict)
    scores: dict[str, dict[str, Score]] = field(default_factory=dict)
    fits: dict[str, Fit] = field(default_factory=dict)
    memory: Saving | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A finished job with a learned value; ``forecast_seq`` counts the jobs learned when it was submitted."""

    cluster: str
    user: str
    processors: int | None
    requested_memory_bytes: int | None
    seconds: float
    forecast_seq: int
    learn_seq: int
    value: float
    forecast: float | None
    bound: float | None
    attempts: str | None = None


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
            if metric == "memory":
                account.memory = saving(rows)
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


def saving(rows: list[Row]) -> Saving | None:
    """Compute the saving of jobs with a memory request and a bound at submission; None without any."""
    kept = [row for row in rows if row.bound is not None and row.requested_memory_bytes and row.processors]
    if not kept:
        return None
    processors = np.array([row.processors for row in kept], dtype=np.float64)
    used = np.array([row.value for row in kept]) * processors
    requested = np.array([row.requested_memory_bytes for row in kept], dtype=np.float64)
    recommended = np.array([row.bound for row in kept], dtype=np.float64) * processors
    held = np.array([_held(row) for row in kept]) * processors
    seconds = np.array([row.seconds for row in kept])
    return Saving(
        jobs=len(kept),
        used=float((used * seconds).sum()),
        requested=float((requested * seconds).sum()),
        recommended=float((recommended * seconds).sum()),
        held=float((held * seconds).sum()),
        ran_out=int((used > requested).sum()),
        would_run_out=int((used > recommended).sum()),
        left_out=len(rows) - len(kept),
    )


def _held(row: Row) -> float:
    """Return the memory of all attempts, per processor; after the ladder each is doubled, but the request comes
    first."""
    request = (row.requested_memory_bytes or 0) / (row.processors or 1)
    ladder = [row.bound or 0.0] if row.attempts is None else json.loads(row.attempts)
    while ladder[-1] < row.value and ladder[-1] > 0:
        twice = 2.0 * ladder[-1]
        ladder.append(request if ladder[-1] < request < twice else twice)
    enough = next((i for i, attempt in enumerate(ladder) if attempt >= row.value), len(ladder) - 1)
    return float(sum(ladder[: enough + 1]))
