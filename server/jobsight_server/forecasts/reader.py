"""Reads the answers of a site: the one way from the API, the pages and the commands to what was learned.

A question about a user alone is the path of a scheduler that waits, so it goes past SQLAlchemy's connections to the
driver's own, which is kept open and outside of transactions: each look-up sees what is committed, and none holds on
to an old snapshot.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, select

from jobsight_predictor.metrics import METRICS
from jobsight_server.forecasts.ask import Question, answer_texts, answers, no_history, stored_texts, written
from jobsight_server.forecasts.learn import Key
from jobsight_server.forecasts.method import Method
from jobsight_server.storage.schema import series

_BY_METRIC = 'SELECT metric, answer FROM series WHERE cluster = {0} AND "user" = {0} AND metric = {0}'
_BY_USER = 'SELECT metric, answer FROM series WHERE cluster = {0} AND "user" = {0}'
_CLUSTERS = 'SELECT DISTINCT cluster FROM series WHERE "user" = {0} ORDER BY cluster'


class AnswerReader:
    """Answers under the site's configuration, each process and thread on a connection that it keeps for itself."""

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
        if cluster is None:
            return self.reply_to(Question("", user, metric))
        return _reply(self._of_user(cluster, user, metric))

    def reply_to(self, question: Question) -> str:
        """The same for a question of which more may be known; its ``cluster`` empty: wherever the user is known."""
        if question.cluster:
            return self.reply_to_all([question])
        places = self.clusters(question.user)
        if not places:
            return _reply(no_history(question, self._method))
        return self.reply_to_all([question._replace(cluster=place) for place in places])

    def reply_to_all(self, questions: Sequence[Question]) -> str:
        """The answers in the order of the questions.

        Raises:
            UserError: a question asks for what is not forecast.
        """
        with self._engine.connect() as connection:
            return _reply(answer_texts(connection, questions, self._method))

    def answers(self, connection: Connection, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """The answers to questions that belong to what is read on ``connection``."""
        return answers(connection, questions, self._method)

    def learned(self, connection: Connection, users: Iterable[tuple[str, str]]) -> dict[Key, dict[str, Any]]:
        """The answers for (cluster, user) in those metrics of which these users have a value."""
        keys = [Key(cluster, user, metric) for cluster, user in users for metric in METRICS]
        stored = stored_texts(connection, keys)
        known = [key for key in keys if key in stored]
        return dict(zip(known, self.answers(connection, [Question(*key) for key in known]), strict=True))

    def series_figures(self, connection: Connection, cluster: str | None, metric: str) -> dict[tuple[str, str], Any]:
        """Per (cluster, user) the stored answer in one metric, to sort by what is the user's own: jobs and PQM."""
        query = select(series.c.cluster, series.c.user, series.c.answer).where(series.c.metric == metric)
        if cluster is not None:
            query = query.where(series.c.cluster == cluster)
        return {(row.cluster, row.user): json.loads(row.answer) for row in connection.execute(query)}

    def clusters(self, user: str) -> list[str]:
        """The clusters on which this user has a history."""
        return [row[0] for row in self._rows(self._clusters, (user,))]

    def _of_user(self, cluster: str, user: str, metric: str | None) -> list[str]:
        if metric is None:
            rows = self._rows(self._by_user, (cluster, user))
        else:
            rows = self._rows(self._by_metric, (cluster, user, metric))
        known = {name: answer for name, answer in rows if self._method.made(answer)}
        asked = METRICS if metric is None else (metric,)
        if not known.keys() >= set(asked):
            with self._engine.connect() as connection:
                return answer_texts(connection, [Question(cluster, user, metric)], self._method)
        return [written(cluster, user, name, known[name]) for name in asked]

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


def _reply(answers: Sequence[str]) -> str:
    return f'{{"predictions":[{",".join(answers)}]}}'
