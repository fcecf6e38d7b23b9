"""Amounts that a job leaves to Jobsight: ``predicted`` becomes the bound of that user's job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeGuard

import msgspec
from sqlalchemy import Connection

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Facts, Question
from jobsight_server.amounts import memory_bytes, time_s
from jobsight_server.facts import FACT_NAME
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.job import job_question
from jobsight_server.matching.resource_types import ResourceError, ResourceType
from jobsight_server.record import Metric, Record

PREDICTED = "predicted"
AMOUNT_AT_MOST = 1e18
FactName = Annotated[str, msgspec.Meta(pattern=f"^{FACT_NAME}$")]
PREDICTED_AT_MOST = 500
"""Amounts of a batch; each is a forecast."""

_NAMES = ("application", "queue", "group", "account")
_AMOUNTS = {"memory_bytes": memory_bytes, "walltime_s": time_s}
_ABOUT_THE_JOB = ("cluster", "processors", "facts", *_NAMES, *_AMOUNTS)
"""Fields of a job that only forecasts read, as in a question."""


class PredictedAmount(Record):
    """An amount that was predicted: the metric's bound for the job's user, in the unit of the capacity.

    ``dependency`` and ``capacity`` are null where it is the job's duration. ``processors``: of each instance.
    """

    job: str
    dependency: str | None
    capacity: str | None
    metric: Metric
    amount: float
    processors: int
    coverage: float
    jobs: int
    level: str | None


@dataclass(slots=True)
class Filled:
    """By position: ``jobs`` without ``predicted``, and ``refused``, those left out and why."""

    jobs: dict[int, Any] = field(default_factory=dict)
    amounts: list[PredictedAmount] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


class NotPredictableError(ValueError):
    """There is no forecast for it; the message says why."""


def fill_in(
    jobs: Sequence[Any], types: Mapping[str, ResourceType], answers: AnswerReader, connection: Connection
) -> Filled:
    """The jobs with numbers in place of ``predicted``. Whatever else is wrong with them stays as it is.

    Raises:
        ResourceError: there are too many of them.
    """
    filled = Filled()
    for position, job in enumerate(jobs):
        if not isinstance(job, dict):
            filled.jobs[position] = job
            continue
        about = {name: job[name] for name in _ABOUT_THE_JOB if name in job}
        if about:
            job = {name: value for name, value in job.items() if name not in about}
        if len(filled.amounts) > PREDICTED_AT_MOST:
            raise ResourceError(f"jobs: more than {PREDICTED_AT_MOST} predicted amounts; send fewer jobs at once")
        if not _is_predicted(job):
            filled.jobs[position] = job
            continue
        try:
            filled.jobs[position] = _filled(job, about, types, answers, connection, filled.amounts)
        except NotPredictableError as error:
            filled.refused[position] = str(error)
    return filled


def _is_predicted(job: Mapping[str, Any]) -> bool:
    return job.get("duration_s") == PREDICTED or any(
        value == PREDICTED for dependency in _dependencies(job) for value in _amounts(dependency).values()
    )


def _dependencies(job: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    found = job.get("dependencies")
    return (entry for entry in (found if isinstance(found, list) else ()) if isinstance(entry, dict))


def _amounts(dependency: Mapping[str, Any]) -> Mapping[str, Any]:
    found = dependency.get("amounts")
    return found if isinstance(found, dict) else {}


def _filled(
    job: dict[str, Any],
    about: Mapping[str, Any],
    types: Mapping[str, ResourceType],
    answers: AnswerReader,
    connection: Connection,
    found: list[PredictedAmount],
) -> dict[str, Any]:
    name, user = str(job.get("name"))[:255], str(job.get("user"))
    if _text(job, "user") is None:
        raise NotPredictableError(f"job {name[:60]!r} has a predicted amount and no user; name the user")
    made: list[PredictedAmount] = []

    def bound(metric: str, scale: float, processors: int, dependency: str | None, capacity: str | None) -> float:
        requests = [ForecastRequest(_text(about, "cluster"), _question(user, about, processors), metric)]
        predictions = answers.answers(connection, requests)
        if len(predictions) > 1:
            raise NotPredictableError(f"several clusters know user {user[:60]!r}; give the job's cluster")
        answer = predictions[0]
        if answer.bound is None:
            or_cluster = "" if "cluster" in about else "name the job's cluster, or "
            raise NotPredictableError(
                f"nothing is known of the {metric} of user {user[:60]!r}; {or_cluster}give a number"
            )
        per_instance = 1 if METRICS[metric].is_of_job else processors
        amount = answer.bound * scale * per_instance
        made.append(
            PredictedAmount(
                name, dependency, capacity, metric, amount, per_instance, answer.coverage, answer.n, answer.level
            )
        )
        return amount

    filled = dict(job)
    if isinstance(job.get("dependencies"), list):
        filled["dependencies"] = [
            _filled_dependency(entry, about, types, bound) if isinstance(entry, dict) else entry
            for entry in job["dependencies"]
        ]
    if job.get("duration_s") == PREDICTED:
        filled["duration_s"] = bound("runtime", 1.0, 1, None, None)
    found += made
    return filled


def _filled_dependency(
    entry: dict[str, Any], about: Mapping[str, Any], types: Mapping[str, ResourceType], bound: Callable[..., float]
) -> dict[str, Any]:
    amounts = _amounts(entry)
    if PREDICTED not in amounts.values():
        return entry
    kind = types.get(str(entry.get("type")))
    metrics = {} if kind is None else {field.name: field for field in kind.capacities if field.metric is not None}
    known = dict(amounts)
    for capacity, value in amounts.items():
        if value == PREDICTED:
            declared = metrics.get(capacity)
            if declared is None:
                can = ", ".join(metrics) or "none"
                raise NotPredictableError(
                    f"{capacity[:60]!r} of a {str(entry.get('type'))[:60]!r} cannot be predicted; of it can: {can}"
                )
            processors = _per_instance(amounts, entry, about)
            known[capacity] = bound(declared.metric, declared.scale, processors, str(entry.get("name"))[:255], capacity)
    return entry | {"amounts": known}


def _per_instance(amounts: Mapping[str, Any], entry: Mapping[str, Any], about: Mapping[str, Any]) -> int:
    """Processors of each instance: its slots, else the job's processors over the instances, else 1."""
    slots, count = amounts.get("slots"), entry.get("count", 1)
    if _is_count(slots):
        return max(1, int(slots))
    processors = about.get("processors")
    if _is_count(processors) and _is_count(count):
        return max(1, -(-int(processors) // max(1, int(count))))
    return 1


def _question(user: str, about: Mapping[str, Any], per_instance: int) -> Question:
    """The job as in a question."""
    application, queue, group, account = (_text(about, name) for name in _NAMES)
    memory, walltime = (_amount(about, name) for name in _AMOUNTS)
    processors = _processors(about, per_instance)
    return job_question(user, application, queue, processors, memory, walltime, group, account, _facts(about))


def _amount(about: Mapping[str, Any], name: str) -> float | None:
    value = about.get(name)
    if value is None:
        return None
    try:
        found = _AMOUNTS[name](value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError) as error:
        raise NotPredictableError(f"{name} = {str(value)[:60]!r} is no amount") from error
    if not 0.0 < found <= AMOUNT_AT_MOST:
        raise NotPredictableError(f"{name} = {str(value)[:60]!r} is not above 0 and at most {AMOUNT_AT_MOST:g}")
    return found


def _facts(about: Mapping[str, Any]) -> Facts:
    try:
        facts = msgspec.convert(about.get("facts") or {}, dict[FactName, float])
    except msgspec.ValidationError as error:
        raise NotPredictableError(f"facts: {error}; give numbers by name") from error
    return tuple(sorted(facts.items()))


def _processors(about: Mapping[str, Any], per_instance: int) -> int:
    given = about.get("processors")
    return int(given) if _is_count(given) else per_instance


def _is_count(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 10**7


def _text(about: Mapping[str, Any], name: str) -> str | None:
    value = about.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value or not value.isprintable():
        raise NotPredictableError(f"{name} = {str(value)[:60]!r} is no name")
    return value
