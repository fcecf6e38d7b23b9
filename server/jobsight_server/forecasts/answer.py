"""An answer as stored and sent: what a job will need, how certain that is, and its basis."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.answer import JobForecast, MeanError
from jobsight_predictor.series import Series, SeriesForecast
from jobsight_predictor.templates import Question
from jobsight_server.forecasts.per import WHOLE, whole_job

NOWHERE = "no history: no cluster knows this user; name a cluster to get an answer from other users' jobs there"
RETRAINING = "the model was trained with other settings or by another version and is being retrained; try again later"

# The only encoder of answers: a name is the same bytes everywhere.
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def series_answer(profile: Profile, user: str, series: Series, updated: float | None) -> str:
    """The answer to a question about the user alone, as stored with the user's series.

    ``updated``: end of the last job learned.
    """
    fields = _of_job(profile, Question(user=user)) | _of_five(series.answer(), updated)
    return json.dumps(fields, separators=(",", ":"))


def computed_answer(profile: Profile, question: Question, metric: str, coverage: float, own: str | None) -> str:
    """The profile's answer; ``own``, the user's stored answer if there is one, has the published five."""
    return _encode(_own(metric, coverage, own) | _of_job(profile, question))


def retraining(metric: str, coverage: float, own: str | None) -> str:
    """The answer while the stored model is outdated."""
    return _encode(_own(metric, coverage, own) | _nothing(metric, coverage, RETRAINING))


def no_history(metric: str, coverage: float) -> str:
    """The answer for an unknown user if no cluster was named."""
    return _encode(_own(metric, coverage, None))


def written(cluster: str | None, user: str, metric: str, answer: str, scale: int | None = None) -> str:
    """An answer as sent: ``answer``, which does not name its subject, preceded by these names.

    ``scale``: how many processors the values are for; None leaves them per processor.
    """
    per = "job" if scale is not None or metric in WHOLE else "processor"
    if scale is not None and metric not in WHOLE:
        answer = _encode(whole_job(json.loads(answer), metric, scale))
    return f'{{"cluster":{_encode(cluster)},"user":{_encode(user)},"metric":"{metric}","per":"{per}",{answer[1:]}'


def _own(metric: str, coverage: float, own: str | None) -> dict[str, Any]:
    if own is not None:
        fields: dict[str, Any] = json.loads(own)
        return fields
    return _nothing(metric, coverage, NOWHERE) | _of_five(Series().answer(), None)


def _of_job(profile: Profile, question: Question) -> dict[str, Any]:
    """``value``, how much to reserve, and the source of both."""
    return _fields(profile.answer(question), profile.mean_error(question.user))


def _nothing(metric: str, coverage: float, reason: str) -> dict[str, Any]:
    """The same fields if there is no answer."""
    nothing = JobForecast(
        value=None,
        unit=METRICS[metric],
        forecaster=None,
        level=None,
        n=0,
        probability=None,
        bound=None,
        bound_basis=None,
        exceed_probability=None,
        coverage=coverage,
        observed_coverage=None,
        observed_cost_coverage=None,
        runner_up=None,
        last_values=(),
        reason=reason,
    )
    return _fields(nothing, None)


def _of_five(five: SeriesForecast, updated: float | None) -> dict[str, Any]:
    """The published five's forecasts from the user's own jobs."""
    return {
        "user_jobs": five.n,
        "forecasts": five.forecasts,
        "accuracy": five.accuracies,
        "pqm": five.pqm,
        "recent_pqm": five.recent_pqm,
        "updated": updated,
    }


def _fields(forecast: JobForecast, mean_error: MeanError | None) -> dict[str, Any]:
    return {**asdict(forecast), "mean_error": mean_error and asdict(mean_error)}
