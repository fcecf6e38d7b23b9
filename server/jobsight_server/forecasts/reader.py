"""Reads the answers of a site: the only way from the API, the pages and the commands to the model.

A request about the user alone is a look-up by primary key of the answer stored when the user's last job was learned,
unless that was under another configuration. Any other is computed from the few parts of the profile that it needs;
nothing is kept between requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, select

from jobsight_predictor.metrics import METRICS, metrics_of
from jobsight_predictor.profile import Profile
from jobsight_predictor.question import Question
from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.prediction import (
    NOWHERE,
    RETRAINING,
    Prediction,
    computed_answer,
    no_answer,
    read_prediction,
    written,
)
from jobsight_server.forecasts.request import ForecastRequest
from jobsight_server.forecasts.stored import SeriesKey, StateKey, read_answers, read_state
from jobsight_server.storage.fetch import LookUps
from jobsight_server.storage.schema import series

# Computed together, from state read together.
_COMPUTED_AT_ONCE = 200

_BY_METRIC = 'SELECT metric, answer FROM series WHERE cluster = ? AND "user" = ? AND metric = ?'
_BY_USER = 'SELECT metric, answer FROM series WHERE cluster = ? AND "user" = ?'

_Asked = tuple[SeriesKey, Question]
"""One metric of a request."""


class AnswerReader:
    """Answers under the site's configuration; an outdated model is not used."""

    def __init__(self, engine: Engine, config: ForecastConfig) -> None:
        self.config = config
        self._engine = engine
        self._look_ups = LookUps(engine)
        self._by_metric, self._by_user = self._look_ups.statement(_BY_METRIC), self._look_ups.statement(_BY_USER)

    def reply(self, requests: Sequence[ForecastRequest]) -> str:
        """``{"predictions": [...]}``: the answers as JSON, in the order of the requests, one for each metric.

        For a user without any history, the answer comes from other users' jobs; if no cluster was named, there is only
        a reason, and the cluster is null.

        Raises:
            UserError: a request is for something that is not forecast.
        """
        with self._engine.connect() as connection:
            return _reply(self.texts(connection, requests))

    def stored_reply(self, cluster: str, user: str, metric: str | None) -> str | None:
        """The same for a waiting scheduler that names the user alone: the stored answers, bypassing SQLAlchemy.

        ``metric`` is one that is forecast, or None for all. Returns None unless every answer is stored and up to date.
        """
        if metric is None:
            rows = self._look_ups.rows(self._by_user, (cluster, user))
        else:
            rows = self._look_ups.rows(self._by_metric, (cluster, user, metric))
        known = {name: answer for name, answer in rows if self.config.made(answer)}
        needed = {*metrics_of(gpus=False), *(name for name, _ in rows)} if metric is None else {metric}
        if not known.keys() >= needed:
            return None
        return _reply([written(cluster, user, name, known[name]) for name in METRICS if name in known])

    def answers(self, connection: Connection, requests: Sequence[ForecastRequest]) -> list[Prediction]:
        """The same answers, consistent with other reads on ``connection``."""
        return [read_prediction(text) for text in self.texts(connection, requests)]

    def texts(self, connection: Connection, requests: Sequence[ForecastRequest]) -> list[str]:
        """The same, each as JSON: the names of its subject are put before a stored text, which is not parsed.

        Who asks for all metrics gets those of GPUs for users whose jobs used some.
        """
        placed = [there for request in requests for there in self._placed(connection, request)]
        keys = {
            (request, metric): SeriesKey(request.cluster, request.user, metric)
            for request in placed
            if request.cluster is not None
            for metric in request.metrics
        }
        stored = read_answers(connection, list(dict.fromkeys(keys.values())))
        wanted = [
            (request, metric)
            for request in placed
            for metric in request.metrics
            if request.metric or not METRICS[metric].of_gpus or keys.get((request, metric)) in stored
        ]
        asked = [(keys[entry], entry[0].question) for entry in wanted if entry in keys]
        found = {
            (key, question): stored[key]
            for key, question in asked
            if question == Question(user=key.user) and self.config.made(stored.get(key, ""))
        }
        rest = list(dict.fromkeys(entry for entry in asked if entry not in found))
        for begin in range(0, len(rest), _COMPUTED_AT_ONCE):
            found |= self._computed(connection, rest[begin : begin + _COMPUTED_AT_ONCE], stored)
        return [self._text(request, metric, found) for request, metric in wanted]

    def learned(self, connection: Connection, users: Iterable[tuple[str, str]]) -> dict[SeriesKey, Prediction]:
        """The answers for (cluster, user) in those metrics of which these users have a value."""
        keys = [SeriesKey(cluster, user, metric) for cluster, user in users for metric in METRICS]
        stored = read_answers(connection, keys)
        known = [key for key in keys if key in stored]
        requests = [ForecastRequest(key.cluster, Question(user=key.user), key.metric) for key in known]
        return dict(zip(known, self.answers(connection, requests), strict=True))

    def series_figures(self, connection: Connection, cluster: str | None, metric: str) -> dict[tuple[str, str], Any]:
        """Per (cluster, user) the stored answer in one metric, to sort by the user's own figures: jobs and PQM."""
        query = select(series.c.cluster, series.c.user, series.c.answer).where(series.c.metric == metric)
        if cluster is not None:
            query = query.where(series.c.cluster == cluster)
        return {(row.cluster, row.user): json.loads(row.answer) for row in connection.execute(query)}

    def close(self) -> None:
        """Closes the connection that the calling thread keeps; the next request opens another."""
        self._look_ups.close()

    def _placed(self, connection: Connection, request: ForecastRequest) -> list[ForecastRequest]:
        """The request for each cluster that it concerns; unchanged if no cluster knows the user."""
        if request.cluster is not None:
            return [request]
        query = select(series.c.cluster).where(series.c.user == request.user).distinct().order_by(series.c.cluster)
        places = connection.scalars(query).all()
        return [request._replace(cluster=place) for place in places] or [request]

    def _text(self, request: ForecastRequest, metric: str, found: Mapping[_Asked, str]) -> str:
        cluster, user = request.cluster, request.user
        if cluster is None:
            answer = no_answer(metric, self.config.coverage, NOWHERE)
        else:
            answer = found[SeriesKey(cluster, user, metric), request.question]
        return written(cluster, user, metric, answer, request.scale)

    def _computed(
        self, connection: Connection, asked: Sequence[_Asked], stored: Mapping[SeriesKey, str]
    ) -> dict[_Asked, str]:
        profiles = {(key.cluster, key.metric): self.config.profile(key.metric) for key, _ in asked}
        wanted = [
            StateKey(key.cluster, key.metric, name)
            for key, question in asked
            for name in profiles[key.cluster, key.metric].state_keys(question)
        ]
        usable: dict[tuple[str, str], Profile | None] = dict(profiles)
        for place, state in read_state(connection, wanted).items():
            try:
                profiles[place].load(state)
            except ValueError:
                usable[place] = None
        found = {}
        for key, question in asked:
            profile, own = usable[key.cluster, key.metric], stored.get(key)
            if profile is None:
                found[key, question] = no_answer(key.metric, self.config.coverage, RETRAINING, own)
            else:
                found[key, question] = computed_answer(profile, question, own)
        return found


def _reply(texts: Iterable[str]) -> str:
    return f'{{"predictions":[{",".join(texts)}]}}'
