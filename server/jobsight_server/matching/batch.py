"""A batch as it is sent, made into a problem over the resources of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jobsight_scheduler.matching.documents import JobDocument, Objectives, decoded, shown
from jobsight_scheduler.matching.expressions import once
from jobsight_scheduler.matching.problem import InvalidProblemError, MatchJob, Objective, Problem, Resource
from jobsight_scheduler.matching.read import BatchLimits, check_size, job_of
from jobsight_scheduler.matching.read_objectives import read_objectives, warnings_of
from jobsight_server.forecasts import AnswerReader
from jobsight_server.matching.answers import NotMatched
from jobsight_server.matching.predicted import PredictedAmount, fill_in
from jobsight_server.matching.resource_types import ResourceError, ResourceType
from jobsight_server.matching.submissions import document_with

LIMITS = BatchLimits(dependencies=20_000, pairs=10_000_000)
"""A batch is matched while others wait."""

_TYPES_SHOWN = 20
LONGEST_DOCUMENT = 256 * 1024
"""Characters of a job as JSON; a queued one is kept."""


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """``documents`` are the jobs as JSON text, by name.

    ``refused`` are the jobs with nothing to predict from, or of a type that is not there.
    """

    jobs: tuple[MatchJob, ...]
    documents: Mapping[str, str]
    predicted: list[PredictedAmount]
    refused: list[NotMatched]


def read_batch(
    jobs: Sequence[Any],
    types: Mapping[str, ResourceType],
    answers: AnswerReader,
    connection: Connection,
    key: str | None = None,
) -> CheckedBatch:
    """``key`` is that of the submission.

    Raises:
        ResourceError: a job is invalid; the message has the place and the value.
    """
    try:
        filled = fill_in(jobs, types, answers, connection)
        # Positions in messages are those of the batch as it was sent.
        read = {
            position: job_of(decoded(document, JobDocument, f"jobs[{position}]"), f"jobs[{position}]")
            for position, document in filled.jobs.items()
        }
        refused = [
            NotMatched(_name_of(jobs[position], position), "predicted", why) for position, why in filled.refused.items()
        ]
        once([*(job.name for job in read.values()), *(entry.job for entry in refused)], "jobs")
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error
    found, documents = [], {}
    for position, job in read.items():
        if unknown := _unknown_type(job, types):
            refused.append(NotMatched(job.name, "type", unknown))
            continue
        found.append(job)
        documents[job.name] = document_with(key, filled.jobs[position])
        if len(documents[job.name]) > LONGEST_DOCUMENT:
            raise ResourceError(f"jobs[{position}]: has more than {LONGEST_DOCUMENT} characters; leave inputs out")
    return CheckedBatch(tuple(found), documents, filled.amounts, refused)


def _unknown_type(job: MatchJob, types: Mapping[str, ResourceType]) -> str:
    """What to say if the job depends on a type that is not defined; nothing otherwise."""
    for dependency in job.dependencies:
        if dependency.type not in types:
            known = ", ".join(sorted(types)[:_TYPES_SHOWN])
            return f"{dependency.name}: there is no resource of type {shown(dependency.type)}; known types: {known}"
    return ""


def read_chosen_objectives(value: object) -> tuple[Objective, ...]:
    """Raises:
    ResourceError: there is none, or one is unknown.
    """
    try:
        return read_objectives(decoded(value, Objectives, "objectives"), "objectives")
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error


def problem_of(
    jobs: Sequence[MatchJob], resources: tuple[Resource, ...], objectives: tuple[Objective, ...], now: float
) -> Problem:
    """A batch that is matched as a whole.

    Raises:
        ResourceError: it is too large.
    """
    problem = present_problem(jobs, resources, objectives, now)
    try:
        check_size(problem.resources, problem.jobs, LIMITS)
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error
    return problem


def present_problem(
    jobs: Sequence[MatchJob], resources: tuple[Resource, ...], objectives: tuple[Objective, ...], now: float
) -> Problem:
    """Jobs, of any number, at the local hour of ``now``."""
    local = datetime.fromtimestamp(now).astimezone()
    hour = local.hour + local.minute / 60 + local.second / 3600
    return Problem(resources, tuple(jobs), objectives, hour, now, warnings_of(objectives))


def types_of(jobs: Sequence[MatchJob]) -> set[str]:
    """The types of resources that these jobs depend on."""
    return {dependency.type for job in jobs for dependency in job.dependencies}


def _name_of(job: Mapping[str, Any], position: int) -> str:
    name = job.get("name")
    return name if isinstance(name, str) else f"jobs[{position}]"
