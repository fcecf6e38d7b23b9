"""Replaces ``predicted`` in a job by the bound of the forecast for its user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Connection

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question
from jobsight_scheduler.matching.records import InvalidProblemError, decoded
from jobsight_server.advice.recommendation import predictions
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.forecasts.request import job_question
from jobsight_server.ground.amounts import memory_bytes, time_s
from jobsight_server.ground.answers import Metric, Record
from jobsight_server.systems.matching.resource_state import ResourceError
from jobsight_server.web.kit.inputs import FactName

PREDICTED = "predicted"
PREDICTABLE = {
    "bandwidth_mbps": ("bandwidth", 1e-6),
    "memory_gib": ("memory", 2.0**-30),
    "gpu_memory_gib": ("gpu_memory", 2.0**-30),
}
"""Capacities whose amounts can be ``predicted``: the metric, and the factor from its unit."""

PREDICTED_AT_MOST = 500
"""Predicted amounts of a batch; each is a forecast."""

_Word = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f]+\Z")]
_Amount = Annotated[float, Meta(gt=0, le=1e18)]
_Count = Annotated[int, Meta(ge=1, le=10**7)]


class PredictedAmount(Record):
    """A predicted amount: the metric's bound for the job's user, in the unit of the capacity.

    ``dependency`` and ``capacity`` are null for the job's duration. ``processors``: of each instance.
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
    """``jobs`` without ``predicted``, and ``refused`` ones with the reason; each with its position."""

    jobs: list[tuple[int, Any]] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    amounts: list[PredictedAmount] = field(default_factory=list)


class _About(msgspec.Struct):
    """The fields of a job that only forecasts read, as in a question."""

    cluster: _Word | None = None
    processors: _Count | None = None
    application: _Word | None = None
    queue: _Word | None = None
    group: _Word | None = None
    account: _Word | None = None
    memory_bytes: _Amount | str | None = None
    walltime_s: _Amount | str | None = None
    facts: dict[FactName, float] = msgspec.field(default_factory=dict)

    def question(self, user: str, processors: int) -> Question:
        """Return the question for a job of ``user``, on ``processors`` unless it has a number of its own."""
        return job_question(
            user,
            self.application,
            self.queue,
            self.processors or processors,
            _amount("memory_bytes", self.memory_bytes, memory_bytes),
            _amount("walltime_s", self.walltime_s, time_s),
            self.group,
            self.account,
            tuple(sorted(self.facts.items())),
        )


def fill_in(jobs: Sequence[Any], answers: AnswerReader, connection: Connection) -> Filled:
    """Replace ``predicted`` by numbers, and leave all other errors in the jobs as they are.

    Raises:
        ResourceError: there are too many of these amounts.
    """
    filled = Filled()
    for position, job in enumerate(jobs):
        if not isinstance(job, dict):
            filled.jobs.append((position, job))
            continue
        rest = {name: value for name, value in job.items() if name not in _About.__struct_fields__}
        open_to = [rest.get("duration_s"), *(value for need in _needs(rest) for value in need["amounts"].values())]
        if PREDICTED not in open_to:
            filled.jobs.append((position, rest))
            continue
        if len(filled.amounts) > PREDICTED_AT_MOST:
            raise ResourceError(f"jobs: more than {PREDICTED_AT_MOST} predicted amounts; send fewer jobs at once")
        try:
            found, amounts = _filled(job, rest, lambda request: predictions(connection, answers, [request]))
        except InvalidProblemError as error:
            filled.refused.append((position, str(error)))
            continue
        filled.jobs.append((position, found))
        filled.amounts += amounts
    return filled


def _filled(
    job: dict[str, Any],
    rest: dict[str, Any],
    answers: Callable[[ForecastRequest], Sequence[Prediction]],
) -> tuple[dict[str, Any], list[PredictedAmount]]:
    """Fill in one job.

    Raises:
        InvalidProblemError: there is no forecast for it; the message says why.
    """
    name, about = str(job.get("name"))[:255], decoded(job, _About)
    if job.get("user") is None:
        raise InvalidProblemError(f"job {name[:60]!r} has a predicted amount and no user; name the user")
    user = decoded(job["user"], _Word, "user")
    made: list[PredictedAmount] = []

    def bound(metric: str, scale: float, processors: int, dependency: str | None, capacity: str | None) -> float:
        found = answers(ForecastRequest(about.cluster, about.question(user, processors), metric))
        if len(found) > 1:
            raise InvalidProblemError(f"several clusters know user {user[:60]!r}; give the job's cluster")
        (answer,) = found
        if answer.bound is None:
            or_cluster = "" if about.cluster else "name the job's cluster, or "
            raise InvalidProblemError(f"no data on the {metric} of user {user[:60]!r}; {or_cluster}give a number")
        each = 1 if METRICS[metric].is_of_job else processors
        amount = answer.bound * scale * each
        made.append(
            PredictedAmount(name, dependency, capacity, metric, amount, each, answer.coverage, answer.n, answer.level)
        )
        return float(amount)

    rest = deepcopy(rest)
    for need in _needs(rest):
        amounts = need["amounts"]
        for capacity in [capacity for capacity, value in amounts.items() if value == PREDICTED]:
            if capacity not in PREDICTABLE:
                raise InvalidProblemError(
                    f"{capacity[:60]!r} cannot be predicted; choose from: {', '.join(PREDICTABLE)}"
                )
            processors = _per_instance(amounts.get("slots"), about.processors, need.get("count", 1))
            of = str(need.get("name"))[:255]
            amounts[capacity] = bound(*PREDICTABLE[capacity], processors, of, capacity)
    if rest.get("duration_s") == PREDICTED:
        rest["duration_s"] = bound("runtime", 1.0, 1, None, None)
    return rest, made


def _needs(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the dependencies with amounts, valid or not."""
    found = job.get("dependencies")
    entries = found if isinstance(found, list) else []
    return [one for one in entries if isinstance(one, dict) and isinstance(one.get("amounts"), dict)]


def _per_instance(slots: Any, processors: int | None, count: Any) -> int:
    """Return the processors of each instance: its slots, else the job's processors over the instances, else 1."""
    if isinstance(slots, int | float) and 0 < slots <= 10**7:
        return max(1, int(slots))
    return -(-processors // count) if processors and isinstance(count, int) and count > 0 else 1


def _amount(name: str, value: float | str | None, read: Callable[[str], float]) -> float | None:
    if not isinstance(value, str):
        return value
    try:
        return decoded(read(value), _Amount, name)
    except ValueError as error:
        raise InvalidProblemError(f"{name}: {error}") from error
