"""Present answers; of a question about a user alone, as the text that was written when its series last learned.

This is the path of a scheduler that waits, so it goes past SQLAlchemy's connections to the driver's own, which is
kept open and outside of transactions: each look-up sees what is committed, and none holds on to an old snapshot.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine

from jobsight_predictor.metrics import METRICS
from jobsight_server.forecasts import Method, Question, answer_texts, no_history

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

_BY_METRIC = 'SELECT metric, answer FROM series WHERE cluster = {0} AND "user" = {0} AND metric = {0}'
_BY_USER = 'SELECT metric, answer FROM series WHERE cluster = {0} AND "user" = {0}'
_CLUSTERS = 'SELECT DISTINCT cluster FROM series WHERE "user" = {0} ORDER BY cluster'


class AnswerTexts:
    """Looks up answers on a connection that each process and thread keeps for itself."""

    def __init__(self, engine: Engine, method: Method) -> None:
        self._engine = engine
        self._method = method
        self._kept = threading.local()
        mark = "?" if engine.dialect.name == "sqlite" else "%s"
        self._by_metric, self._by_user = _BY_METRIC.format(mark), _BY_USER.format(mark)
        self._clusters = _CLUSTERS.format(mark)

    def reply(self, cluster: str | None, user: str, metric: str | None) -> str:
        """``{"predictions": [...]}``: one answer per metric, on ``cluster`` or wherever the user is known.

        A user without any history is answered from what others' jobs used; without ``cluster``, with a reason, and
        the cluster is then null.
        """
        places: list[str | None] = [cluster] if cluster is not None else [*self.clusters(user)] or [None]
        asked = METRICS if metric is None else (metric,)
        found: list[str] = []
        for place in places:
            known = {} if place is None else self.find(place, user, metric)
            for name in asked:
                if name in known:
                    found.append(_complete(place, user, name, known[name]))
                elif place is None:
                    found.append(_encode(no_history(place, user, name)))
                else:
                    found += self.compute([Question(place, user, name)])
        return as_reply(found)

    def compute(self, questions: Sequence[Question]) -> list[str]:
        """Answers as JSON text, in the order of the questions."""
        with self._engine.connect() as connection:
            return answer_texts(connection, questions, self._method)

    def find(self, cluster: str, user: str, metric: str | None) -> dict[str, str]:
        """Metric -> answer as JSON text, for ``metric`` or for all that the user has."""
        if metric is None:
            return dict(self._rows(self._by_user, (cluster, user)))
        return dict(self._rows(self._by_metric, (cluster, user, metric)))

    def clusters(self, user: str) -> list[str]:
        """The clusters on which this user has a history."""
        return [row[0] for row in self._rows(self._clusters, (user,))]

    def close(self) -> None:
        """Closes the connection of the calling thread; the next question opens another."""
        kept = getattr(self._kept, "connection", None)
        self._kept.connection = None
        if kept is not None:
            kept.close()

    def _rows(self, statement: str, values: tuple[str, ...]) -> list[Any]:
        connection = self._connection()
        try:
            rows: list[Any] = connection.execute(statement, values).fetchall()
        except self._engine.dialect.loaded_dbapi.OperationalError:
            # The database went away, or was restarted, since the last question: one try on a new connection.
            self.close()
            rows = self._connection().execute(statement, values).fetchall()
        return rows

    def _connection(self) -> Any:
        kept = getattr(self._kept, "connection", None)
        if kept is not None and self._kept.process == os.getpid():
            return kept
        checked_out = self._engine.raw_connection()
        connection: Any = checked_out.driver_connection
        checked_out.detach()  # it is this thread's until the process ends
        if self._engine.dialect.name == "postgresql":
            connection.autocommit = True
        self._kept.connection, self._kept.process = connection, os.getpid()
        return connection


def as_reply(answers: Sequence[str]) -> str:
    """The answers, each JSON text, as the API sends them."""
    return f'{{"predictions":[{",".join(answers)}]}}'


def _complete(cluster: str | None, user: str, metric: str, answer: str) -> str:
    """A stored answer, which does not name what it is about, with these names spliced in."""
    return f'{{"cluster":{_encode(cluster)},"user":{_encode(user)},"metric":"{metric}",{answer[1:]}'
