"""Turns a batch as sent into a problem over the resources of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jobsight_scheduler.matching.check import Unmatched
from jobsight_scheduler.matching.problem import MatchJob, Objective, Problem, Resource
from jobsight_scheduler.matching.read import check_size, read_objectives
from jobsight_scheduler.matching.records import InvalidProblemError, decoded, once, shown
from jobsight_server.forecasts import AnswerReader
from jobsight_server.systems.matching.predicted import PredictedAmount, fill_in
from jobsight_server.systems.matching.resource_types import ResourceError, ResourceType
from jobsight_server.systems.matching.submissions import document_with

DEPENDENCIES_AT_MOST, PAIRS_AT_MOST = 20_000, 10_000_000
"""Limits of a batch: others wait while one is matched."""

_TYPES_SHOWN = 20
LONGEST_DOCUMENT = 256 * 1024
"""Characters of a job as JSON, which a queued job keeps."""


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """``documents`` are the jobs as JSON text, by name.

    ``refused`` are the jobs without data for a prediction, or of an unknown type.
    """

    jobs: tuple[MatchJob, ...]
    documents: Mapping[str, str]
    predicted: list[PredictedAmount]
    refused: list[Unmatched]


def read_batch(
    jobs: Sequence[Any],
    types: Mapping[str, ResourceType],
    answers: AnswerReader,
    connection: Connection,
    key: str | None = None,
) -> CheckedBatch:
    """Check a batch; ``key`` is that of the submission.

    Raises:
        ResourceError: a job is invalid; the message has the place and the value.
    """
    filled = fill_in(jobs, types, answers, connection)
    found: list[MatchJob] = []
    documents = {}
    refused = [Unmatched(_name_of(jobs[position], position), "predicted", why) for position, why in filled.refused]
    try:
        for position, document in filled.jobs:
            job = decoded(document, MatchJob, f"jobs[{position}]")  # position in the batch as sent
            if unknown := [of for of in job.dependencies if of.type not in types]:
                known = ", ".join(sorted(types)[:_TYPES_SHOWN])
                why = f"there is no resource of type {shown(unknown[0].type)}; known types: {known}"
                refused.append(Unmatched(job.name, "type", f"{unknown[0].name}: {why}"))
                continue
            found.append(job)
            documents[job.name] = document_with(key, document)
            if len(documents[job.name]) > LONGEST_DOCUMENT:
                raise ResourceError(f"jobs[{position}]: has more than {LONGEST_DOCUMENT} characters; leave inputs out")
        once("jobs", [*(job.name for job in found), *(entry.job for entry in refused)])
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error
    return CheckedBatch(tuple(found), documents, filled.amounts, refused)


def read_chosen_objectives(value: object) -> tuple[Objective, ...]:
    """Check the objectives of a request.

    Raises:
        ResourceError: there is none, or one is unknown.
    """
    try:
        return read_objectives(value, "objectives")
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error


def problem_of(
    jobs: Sequence[MatchJob], resources: tuple[Resource, ...], objectives: tuple[Objective, ...], now: float
) -> Problem:
    """Return the problem of any number of jobs at the local hour of ``now``."""
    local = datetime.fromtimestamp(now).astimezone()
    hour = local.hour + local.minute / 60 + local.second / 3600
    return Problem(resources, tuple(jobs), objectives, hour, now)


def require_size(jobs: Sequence[MatchJob], resources: Sequence[Resource]) -> None:
    """Check the size of a batch.

    Raises:
        ResourceError: it is too large to match as a whole.
    """
    try:
        check_size(resources, jobs, DEPENDENCIES_AT_MOST, PAIRS_AT_MOST)
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error


def types_of(jobs: Sequence[MatchJob]) -> set[str]:
    """Return the types of resources that these jobs depend on."""
    return {dependency.type for job in jobs for dependency in job.dependencies}


def _name_of(job: Mapping[str, Any], position: int) -> str:
    name = job.get("name")
    return name if isinstance(name, str) else f"jobs[{position}]"
