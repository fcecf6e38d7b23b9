"""Predictions of a job's need, with certainty and basis, as text that is stored and sent."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.answer import JobForecast, MeanError, RunnerUp
from jobsight_predictor.profile.groups import CANDIDATES
from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import Moment, Question
from jobsight_predictor.series import Series, SeriesForecast
from jobsight_server.forecasts.record import Metric, Record, Share
from jobsight_server.forecasts.request import WHOLE

_EACH_OF_FIVE = {"propertyNames": {"enum": [*FIVE]}, "required": [*FIVE]}


class StoredPrediction(Record):
    """A job's predicted need in one metric, without its subject, which is the key in the store."""

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


class SimilarUse(Record):
    """The similar jobs behind a recommendation: the number with a known use, and the least and most measured.

    In the unit of the answer; None if they only failed, or there are none.
    """

    jobs: int
    least: float | None
    most: float | None


class Prediction(StoredPrediction):
    """The predicted need of a user's next job in one metric, its certainty and basis (docs/use/http-api.md).

    ``similar`` is None where nothing is recommended: of other metrics than memory and run time, and of a user alone.
    """

    cluster: str | None
    user: str
    metric: Metric
    per: Literal["processor", "job"]
    similar: SimilarUse | None


class Predictions(Record):
    """Predictions in the order of the questions; a question without a metric has one for each."""

    predictions: list[Prediction]


read_stored = msgspec.json.Decoder(StoredPrediction).decode
read_prediction = msgspec.json.Decoder(Prediction).decode

NOWHERE = "no history: no cluster knows this user; name a cluster to get an answer from other users' jobs there"
RETRAINING = "the model was trained with other settings or by another version and is being retrained; try again later"

_OF_JOB = tuple(field.name for field in fields(JobForecast))
_OF_FIVE = ("user_jobs", "forecasts", "accuracy", "pqm", "recent_pqm", "updated")

_encoder = msgspec.json.Encoder()


def series_answer(profile: Profile, user: str, series: Series, updated: float | None) -> str:
    """Answer a question about the user alone, as stored with the user's series.

    ``updated``: end of the last job learned.
    """
    return _text(_of_job(profile, Question(user=user)), _of_five(series.answer(), updated))


def computed_answer(profile: Profile, question: Question, own: str | None, moment: Moment = "submission") -> str:
    """Answer from the profile; ``own``, the user's stored answer if any, has the published five."""
    return _text(_of_job(profile, question, moment), _of_own(own))


def no_answer(metric: str, coverage: float, reason: str, own: str | None = None) -> str:
    """Answer without a forecast, for this reason."""
    nothing = _of_job(Profile(METRICS[metric].unit, coverage=coverage), Question())
    return _text(nothing | {"reason": reason}, _of_own(own))


def written(cluster: str | None, user: str, metric: str, answer: str, scale: int | None = None) -> str:
    """Write an answer as sent: ``answer``, preceded by the names of its subject.

    ``scale``: number of processors that the values are for; None leaves them per processor.
    """
    per = "job" if scale is not None or metric in WHOLE else "processor"
    if scale is not None and metric not in WHOLE:
        answer = _json(whole_job(read_stored(answer), metric, scale))
    subject = f'"cluster":{_json(cluster)},"user":{_json(user)},"metric":"{metric}","per":"{per}"'
    return f'{{{subject},"similar":null,{answer[1:]}'


def _text(of_job: dict[str, Any], of_five: dict[str, Any]) -> str:
    return _json(StoredPrediction(**of_job, **of_five))


def _of_job(profile: Profile, question: Question, moment: Moment = "submission") -> dict[str, Any]:
    """Return ``value``, the reservation, and the source of both."""
    forecast = profile.answer(question, moment)
    of_job = {name: getattr(forecast, name) for name in _OF_JOB}
    of_job["mean_error"] = profile.mean_error(question.user)
    return of_job


def _of_five(five: SeriesForecast, updated: float | None) -> dict[str, Any]:
    """Return the published five's forecasts from the user's own jobs."""
    return {
        "user_jobs": five.n,
        "forecasts": five.forecasts,
        "accuracy": five.accuracies,
        "pqm": five.pqm,
        "recent_pqm": five.recent_pqm,
        "updated": updated,
    }


def _of_own(own: str | None) -> dict[str, Any]:
    """Return the same from the user's stored answer, which another version may have written."""
    if own is None:
        return _NONE_OF_FIVE
    stored = msgspec.json.decode(own)
    return {name: stored[name] for name in _OF_FIVE}


_NONE_OF_FIVE = _of_five(Series().answer(), None)


def _json(value: Any) -> str:
    return _encoder.encode(value).decode()


def whole_job(answer: StoredPrediction, metric: str, processors: int) -> StoredPrediction:
    """Multiply every value in the metric's unit by ``processors``."""

    def times(value: float | None) -> float | None:
        return None if value is None else value * processors

    other = answer.runner_up
    return msgspec.structs.replace(
        answer,
        unit=METRICS[metric].job_unit,
        value=times(answer.value),
        bound=times(answer.bound),
        need=times(answer.need),
        need_steps=tuple((amount * processors, share) for amount, share in answer.need_steps),
        attempts=tuple(attempt * processors for attempt in answer.attempts),
        runner_up=other and replace(other, value=other.value * processors),
        last_values=tuple(value * processors for value in answer.last_values),
        forecasts={name: times(value) for name, value in answer.forecasts.items()},
    )
