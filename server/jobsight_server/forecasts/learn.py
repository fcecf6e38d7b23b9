"""Learns finished runs into the ``series`` table, one run at a time or all of them anew."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, select, text

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.series import Answer, Series
from jobsight_server.storage.schema import jobs, profiles, series

_STORE = text(
    'INSERT INTO series (cluster, "user", metric, n, state, answer, updated) '
    "VALUES (:cluster, :user, :metric, :n, :state, :answer, :updated) "
    'ON CONFLICT (cluster, "user", metric) DO UPDATE SET n = excluded.n, state = excluded.state, '
    "answer = excluded.answer, updated = excluded.updated"
)
_AT_ONCE = 500


class Key(NamedTuple):
    """Names one series."""

    cluster: str
    user: str
    metric: str


def learnable(value: float) -> bool:
    """Whether a forecaster takes the value: finite and not negative."""
    return math.isfinite(value) and 0.0 <= value <= LARGEST


class Learner:
    """Series being learned within one transaction: read when first met, written by ``store``.

    With ``anew`` nothing is read: every series starts empty.
    """

    def __init__(self, connection: Connection, anew: bool = False) -> None:
        self._connection = connection
        self._anew = anew
        self._series: dict[Key, Series] = {}
        self._updated: dict[Key, float] = {}

    def learn(self, key: Key, value: float, end: float) -> None:
        """Takes in the value of the run that ended at ``end``.

        Raises:
            ValueError: a value that is not ``learnable``; nothing was changed.
        """
        known = self._series.get(key)
        if known is None:
            known = self._series[key] = Series() if self._anew else self._read(key)
        known.learn(value)
        # The last one learned, not the latest: a run whose samples came late is learned after its successors.
        self._updated[key] = end

    def store(self) -> int:
        """Writes what was learned; returns the number of series."""
        rows = [self._row(key) for key in sorted(self._updated)]
        for begin in range(0, len(rows), _AT_ONCE):
            self._connection.execute(_STORE, rows[begin : begin + _AT_ONCE])
        return len(rows)

    def _read(self, key: Key) -> Series:
        query = select(series.c.state).where(
            series.c.cluster == key.cluster, series.c.user == key.user, series.c.metric == key.metric
        )
        state = self._connection.scalar(query)
        return Series() if state is None else Series.from_state(json.loads(state))

    def _row(self, key: Key) -> dict[str, Any]:
        known, updated = self._series[key], self._updated[key]
        return {
            **key._asdict(),
            "n": known.n,
            "state": json.dumps(known.state(), separators=(",", ":")),
            "answer": json.dumps(answer_fields(key.metric, known.answer(), updated), separators=(",", ":")),
            "updated": updated,
        }


def answer_fields(metric: str, answer: Answer, updated: float | None) -> dict[str, Any]:
    """An answer without the question (cluster, user, metric); ``updated``: end of the last job learned."""
    return {
        "unit": METRICS[metric],
        "value": answer.value,
        "forecaster": answer.forecaster,
        "forecasts": answer.forecasts,
        "n": answer.n,
        "pqm": answer.pqm,
        "recent_pqm": answer.recent_pqm,
        "accuracy": answer.accuracies,
        "updated": updated,
        "reason": answer.reason,
    }


def rebuild(engine: Engine) -> int:
    """Learns every series anew from the stored profiles, in the order in which they were learned first.

    The series are then exactly those that learning one by one had left. Returns how many there are.
    """
    with engine.begin() as connection:
        learner = Learner(connection, anew=True)
        for key, value, end in _profiles(connection):
            learner.learn(key, value, end)
        connection.execute(delete(series))
        return learner.store()


def _profiles(connection: Connection) -> Iterable[tuple[Key, float, float]]:
    query = (
        select(jobs.c.cluster, jobs.c.user, profiles.c.metric, profiles.c.value, jobs.c.end)
        .join(jobs, jobs.c.id == profiles.c.run_id)
        .where(profiles.c.value.is_not(None))
        .order_by(profiles.c.position, profiles.c.run_id, profiles.c.metric)
    )
    for cluster, user, metric, value, end in connection.execute(query):
        yield Key(cluster, user, metric), value, end
