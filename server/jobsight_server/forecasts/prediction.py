"""Predictions of a job's need, with certainty and basis: one record, from the model to the edge where it is encoded.

``AnswerReader`` is the only way from API, pages and commands to the model. A request about the user alone looks up, by
primary key, the answer stored when the user's last job was learned, unless the configuration has changed. Others are
computed from the few parts of the profile that they need; parts are kept between requests, those last used, and each
is loaded again if what is stored has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, select

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import JobForecast, MeanError, Profile, RunnerUp
from jobsight_predictor.profile.groups import CANDIDATES
from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import Moment, Question
from jobsight_predictor.series import Series, SeriesForecast
from jobsight_server.forecasts.evidence import Evidences, KeptEvidence, read_evidence
from jobsight_server.forecasts.request import WHOLE, ForecastConfig, ForecastRequest
from jobsight_server.forecasts.stored_model import KeptProfiles, SeriesKey, read_answers, read_profiles
from jobsight_server.ground.answers import Metric, Record, Share
from jobsight_server.storage.schema import series

_EACH_OF_FIVE = {"propertyNames": {"enum": [*FIVE]}, "required": [*FIVE]}


class SimilarUse(Record):
    """The similar jobs behind a recommendation: the number with a known use, and the least and most measured.

    In the unit of the answer; None if they only failed, or there are none.
    """

    jobs: int
    least: float | None
    most: float | None


class Prediction(Record):
    """The predicted need of a user's next job in one metric, its certainty and basis (docs/use/http-api.md).

    ``similar`` is None where nothing is recommended: of other metrics than memory and run time, and of a user alone.
    """

    cluster: str | None
    user: str
    metric: Metric
    per: Literal["processor", "job"]
    similar: SimilarUse | None
    unit: str
    value: float | None
    forecaster: Annotated[str, Meta(extra_json_schema={"enum": [*CANDIDATES]})] | None
    level: str | None
    n: int
    probability: Share | None
    bound: float | None
    bound_basis: Basis | None
    need: float | None
    need_steps: tuple[tuple[float, Share], ...]
    limited_by_request: bool
    attempts: tuple[float, ...]
    exceed_probability: Share | None
    coverage: Share
    observed_coverage: Share | None
    observed_cost_coverage: Share | None
    runner_up: RunnerUp | None
    last_values: tuple[float, ...]
    reason: str | None
    mean_error: MeanError | None
    user_jobs: int
    forecasts: Annotated[dict[str, float | None], Meta(extra_json_schema=_EACH_OF_FIVE)]
    accuracy: Annotated[dict[str, Share | None], Meta(extra_json_schema=_EACH_OF_FIVE)]
    pqm: Share | None
    recent_pqm: Share | None
    updated: float | None

    def whole_job(self, processors: int) -> Prediction:
        """Return the same for the whole job: every value in the metric's unit is multiplied by ``processors``."""
        if self.per == "job":
            return self

        def times(value: float | None) -> float | None:
            return None if value is None else value * processors

        other = self.runner_up
        return msgspec.structs.replace(
            self,
            per="job",
            unit=METRICS[self.metric].job_unit,
            value=times(self.value),
            bound=times(self.bound),
            need=times(self.need),
            need_steps=tuple((amount * processors, share) for amount, share in self.need_steps),
            attempts=tuple(attempt * processors for attempt in self.attempts),
            runner_up=other and replace(other, value=other.value * processors),
            last_values=tuple(value * processors for value in self.last_values),
            forecasts={name: times(value) for name, value in self.forecasts.items()},
        )


class Predictions(Record):
    """Predictions in the order of the questions; a question without a metric has one for each."""

    predictions: list[Prediction]


read_stored = msgspec.json.Decoder(Prediction).decode
"""Read the answer to a question about a user alone, which is stored with the user's series."""

NOWHERE = "no history: no cluster knows this user; name a cluster to get an answer from other users' jobs there"
RETRAINING = "the model was trained with other settings or by another version and is being retrained; try again later"

_OF_JOB = tuple(field.name for field in fields(JobForecast))
_OF_FIVE = ("user_jobs", "forecasts", "accuracy", "pqm", "recent_pqm", "updated")


def predict(
    profile: Profile,
    subject: tuple[str | None, str, str],
    question: Question,
    five: Mapping[str, Any],
    moment: Moment = "submission",
) -> Prediction:
    """Answer from the profile about ``subject``, which is cluster, user and metric.

    ``five``: the published five's forecasts from the user's own jobs.
    """
    cluster, user, metric = subject
    forecast = profile.answer(question, moment)
    of_job = {name: getattr(forecast, name) for name in _OF_JOB}
    per: Literal["processor", "job"] = "job" if metric in WHOLE else "processor"
    error = profile.mean_error(question.user)
    return Prediction(cluster, user, metric, per, None, **of_job, mean_error=error, **five)


def no_answer(
    subject: tuple[str | None, str, str], coverage: float, reason: str, five: Mapping[str, Any] | None = None
) -> Prediction:
    """Answer without a forecast, for this reason."""
    nothing = Profile(METRICS[subject[2]].unit, coverage=coverage)
    return msgspec.structs.replace(predict(nothing, subject, Question(), five or five_of(None)), reason=reason)


def five_of(stored: str | None) -> Mapping[str, Any]:
    """Return the published five's forecasts from the user's stored answer, which another version may have written."""
    if stored is None:
        return _NONE_OF_FIVE
    found = msgspec.json.decode(stored)
    return {name: found[name] for name in _OF_FIVE}


def five_of_series(series: SeriesForecast, updated: float | None) -> Mapping[str, Any]:
    """Return those of a user's series; ``updated``: end of the last job learned."""
    return dict(
        zip(
            _OF_FIVE,
            (series.n, series.forecasts, series.accuracies, series.pqm, series.recent_pqm, updated),
            strict=True,
        )
    )


_NONE_OF_FIVE = five_of_series(Series().answer(), None)


_Asked = tuple[SeriesKey, Question, Moment]
"""One metric of a request."""

# Computed together, from state read together; each has a set of keys, of which as many are kept.
_COMPUTED_AT_ONCE = 1000

_PARTS_KEPT = 3000
"""The parts last used, for the next questions: about 30 MB in each thread that computes."""

_EVIDENCE_KEPT = 1000


@dataclass(slots=True)
class KeptModel:
    """What one thread has read of the model, for its next questions."""

    profiles: KeptProfiles = field(default_factory=dict)
    evidence: KeptEvidence = field(default_factory=dict)

    def keep_last(self, parts: int) -> None:
        """Drop parts not used lately, of all profiles alike, a tenth at a time, if there are more."""
        total = sum(len(kept.parts) for kept in self.profiles.values())
        if total > parts:
            for kept in self.profiles.values():
                kept.keep_last(len(kept.parts) * parts * 9 // (10 * total))


class AnswerReader:
    """Answers questions under the site's configuration; ignores an outdated model. Each thread keeps ``parts_kept``."""

    def __init__(self, config: ForecastConfig, parts_kept: int = _PARTS_KEPT) -> None:
        self.config = config
        self._parts_kept = parts_kept
        self._kept: list[KeptModel] = []

    def answers(self, connection: Connection, requests: Sequence[ForecastRequest]) -> list[Prediction]:
        """Answer in the order of the requests, one answer for each metric.

        Without any history of the user, the answer comes from other users' jobs; without a named cluster, it has only a
        reason, and the cluster is null.

        Raises:
            UserError: a requested metric is not forecast.
        """
        return [answer for _, answer in self.answered(connection, requests)]

    def answered(
        self, connection: Connection, requests: Sequence[ForecastRequest]
    ) -> list[tuple[ForecastRequest, Prediction]]:
        """Return the answers, each with its request.

        All metrics include those of GPUs for a job that requests some; if that is unknown, for users whose jobs used
        some.
        """
        placed = [there for request in requests for there in self._placed(connection, request)]
        keys = [[SeriesKey(each.cluster or "", each.user, metric) for metric in each.metrics] for each in placed]
        stored = read_answers(connection, list(dict.fromkeys(chain.from_iterable(keys))))
        asked: dict[_Asked, None] = {}
        ready: dict[SeriesKey, Prediction] = {}
        wanted: list[tuple[ForecastRequest, SeriesKey, _Asked | None]] = []
        for request, of_request in zip(placed, keys, strict=True):
            is_of_user = request.is_of_user and request.moment == "submission"
            for key in of_request:
                has_gpus = key in stored if request.gpus is None else request.gpus > 0
                if not (request.metric or has_gpus) and METRICS[key.metric].of_gpus:
                    continue
                if key not in ready and is_of_user and self.config.made(stored.get(key, "")):
                    ready[key] = read_stored(stored[key])
                one = None if is_of_user and key in ready else (key, request.question, request.moment)
                if one is not None and request.cluster is not None:
                    asked[one] = None
                wanted.append((request, key, one))
        # Users' state is read once: their questions follow one another.
        rest, computed = sorted(asked, key=itemgetter(0)), dict[_Asked, Prediction]()
        for begin in range(0, len(rest), _COMPUTED_AT_ONCE):
            computed |= self._computed(connection, rest[begin : begin + _COMPUTED_AT_ONCE], stored)
        found = []
        for request, key, one in wanted:
            if request.cluster is None:
                answer = no_answer((None, *key[1:]), self.config.coverage, NOWHERE)
            else:
                answer = ready[key] if one is None else computed[one]
            found.append((request, answer if request.scale is None else answer.whole_job(request.scale)))
        return found

    def learned(self, connection: Connection, users: Iterable[tuple[str, str]]) -> dict[SeriesKey, Prediction]:
        """Return the answers for (cluster, user) in the metrics of which these users have a value."""
        keys = [SeriesKey(cluster, user, metric) for cluster, user in users for metric in METRICS]
        stored = read_answers(connection, keys)
        found = {key: read_stored(text) for key, text in stored.items() if self.config.made(text)}
        rest = [key for key in keys if key in stored and key not in found]
        requests = [ForecastRequest(key.cluster, Question(user=key.user), key.metric) for key in rest]
        return found | dict(zip(rest, self.answers(connection, requests), strict=True))

    def _placed(self, connection: Connection, request: ForecastRequest) -> list[ForecastRequest]:
        """Split the request by cluster; unchanged if no cluster knows the user."""
        if request.cluster is not None:
            return [request]
        query = select(series.c.cluster).where(series.c.user == request.user).distinct().order_by(series.c.cluster)
        places = connection.scalars(query).all()
        return [request._replace(cluster=place) for place in places] or [request]

    def evidence(self, connection: Connection, jobs: Sequence[tuple[str, Question]]) -> Evidences:
        """Return the stored evidence for these jobs, by cluster and question, for reading only."""
        with self._borrowed() as kept:
            found = read_evidence(connection, self.config, jobs, kept.evidence)
            for key in list(kept.evidence)[:-_EVIDENCE_KEPT]:
                del kept.evidence[key]
            return found

    @contextmanager
    def _borrowed(self) -> Iterator[KeptModel]:
        """Yield what an earlier question read; another thread meanwhile gets another."""
        try:
            kept = self._kept.pop()
        except IndexError:
            kept = KeptModel()
        yield kept
        self._kept.append(kept)

    def _computed(
        self, connection: Connection, asked: Sequence[_Asked], stored: Mapping[SeriesKey, str]
    ) -> dict[_Asked, Prediction]:
        questions = [(key.cluster, key.metric, question) for key, question, _ in asked]
        with self._borrowed() as kept:
            usable = read_profiles(connection, self.config, questions, kept.profiles)
            found = {}
            for key, question, moment in asked:
                profile, five = usable[key.cluster, key.metric], five_of(stored.get(key))
                if profile is None:
                    found[key, question, moment] = no_answer(key, self.config.coverage, RETRAINING, five)
                else:
                    found[key, question, moment] = predict(profile, key, question, five, moment)
            kept.keep_last(self._parts_kept)
            return found
