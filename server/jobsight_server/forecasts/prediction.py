"""Predictions of a job's need, with certainty and basis: one record, from the model to the edge where it is encoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import JobForecast, MeanError, Profile, RunnerUp
from jobsight_predictor.profile.groups import CANDIDATES
from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import Moment, Question
from jobsight_predictor.series import Series, SeriesForecast
from jobsight_server.forecasts.request import WHOLE
from jobsight_server.ground.answers import Metric, Record, Share

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
