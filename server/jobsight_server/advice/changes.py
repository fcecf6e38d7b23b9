"""Forecasts waiting jobs again whenever the model has learned, and stores large changes."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import NamedTuple

from sqlalchemy import Connection, Engine, func, insert, select

from jobsight_server.accounting.runs import QUEUED
from jobsight_server.advice.recommendation import predictions
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.forecasts.events import LearnedUntil, read_learned_until
from jobsight_server.forecasts.prediction import AnswerReader
from jobsight_server.forecasts.request import COLUMNS, ForecastJob, ForecastRequest, job_of
from jobsight_server.forecasts.stored_model import RunAndMetric, read_pending
from jobsight_server.ground.amounts import MIB
from jobsight_server.storage.engine import RUNS
from jobsight_server.storage.schema import forecast_changes, jobs

_STEPS = {"memory": float(MIB), "runtime": 60.0}

MOVED = 1.25
"""The ratio by which a forecast or a reservation must change to be stored."""

# Jobs of one user often share one question.
_AT_ONCE = 5000
_CHANGE = forecast_changes.c
_LAST = select(func.max(_CHANGE.id)).where(_CHANGE.run_id.in_(RUNS))
_NEWEST = select(_CHANGE.run_id, _CHANGE.metric, _CHANGE.new_forecast, _CHANGE.new_bound).where(
    _CHANGE.id.in_(_LAST.group_by(_CHANGE.run_id, _CHANGE.metric))
)


class Reserved(NamedTuple):
    """A forecast and its reservation, in the unit of the metric; None if unknown."""

    forecast: float | None
    bound: float | None


def has_moved(old: Reserved, new: Reserved, step: float = 0.0) -> bool:
    """Return whether either became known or unknown, or changed by the factor ``MOVED`` and by more than a ``step``.

    >>> before = Reserved(100.0, 200.0)
    >>> has_moved(before, Reserved(110.0, 240.0)), has_moved(before, Reserved(100.0, 251.0))
    (False, True)
    """
    for before, after in zip(old, new, strict=True):
        if before is None or after is None:
            if before is not after:
                return True
        elif abs(after - before) > step and max(before, after) > MOVED * min(before, after):
            return True
    return False


class ChangeWatch:
    """Forecasts waiting jobs again if the model has learned since the last time."""

    def __init__(self, engine: Engine, reader: AnswerReader) -> None:
        self._engine, self._reader = engine, reader
        self._until: LearnedUntil | None = None

    def look(self, now: float, stop: Event | None = None) -> int:
        """Store the changes; return their number."""
        with self._engine.connect().execution_options(reading=True) as connection:
            until = read_learned_until(connection)
            if until is None or until == self._until:
                return 0
            query = select(*COLUMNS).where(jobs.c.state == QUEUED, jobs.c.forecast_seq.is_not(None))
            waiting = [job_of(row) for row in connection.execute(query.order_by(jobs.c.user, jobs.c.id))]
            found = []
            for begin in range(0, len(waiting), _AT_ONCE):
                if stop is not None and stop.is_set():
                    return 0
                found += list(self._moved(connection, waiting[begin : begin + _AT_ONCE], now))
        if found:
            with self._engine.begin() as connection:
                there = set(connection.scalars(select(jobs.c.id).where(jobs.c.state == QUEUED)))
                found = [row for row in found if row["run_id"] in there]
                if found:
                    connection.execute(insert(forecast_changes), found)
        self._until = until
        return len(found)

    def _moved(self, connection: Connection, some: list[ForecastJob], now: float) -> Iterator[dict[str, object]]:
        runs = [job.run_id for job in some]
        known: dict[RunAndMetric, Reserved] = {
            key: Reserved(forecast.value, forecast.first)
            for key, forecast in read_pending(connection, runs, ASKED_FOR).items()
        }
        for run_id, metric, forecast, bound in connection.execute(_NEWEST, {"runs": runs}):
            known[run_id, metric] = Reserved(forecast, bound)
        asked = [(job, metric) for job in some for metric in ASKED_FOR if (job.run_id, metric) in known]
        requests = [
            ForecastRequest(job.cluster, job.question, metric, moment="start", gpus=job.gpus or 0)
            for job, metric in asked
        ]
        answers = predictions(connection, self._reader, requests)
        for (job, metric), answer in zip(asked, answers, strict=True):
            old, new = known[job.run_id, metric], Reserved(answer.value, answer.bound)
            if has_moved(old, new, _STEPS[metric]):
                yield {"run_id": job.run_id, "time": now, "metric": metric} | {
                    f"{when}_{name}": value
                    for when, amounts in (("old", old), ("new", new))
                    for name, value in amounts._asdict().items()
                }
