"""A batch as it is sent, made into a problem over the resources of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection

from jobsight_scheduler.matching.fields import Ignored
from jobsight_scheduler.matching.problem import InvalidProblemError, MatchJob, Objective, Problem, Resource
from jobsight_scheduler.matching.read import BatchLimits, check_size, check_types, read_jobs
from jobsight_scheduler.matching.read_objectives import read_objectives, warnings_of
from jobsight_server.forecasts import AnswerReader
from jobsight_server.matching.predicted import PredictedAmount, fill_in
from jobsight_server.matching.resource_types import ResourceError, ResourceType

LIMITS = BatchLimits(jobs=10_000, dependencies=20_000, pairs=10_000_000)
"""A batch is matched while others wait."""

LONGEST_DOCUMENT = 256 * 1024
"""Characters of a job as JSON; a queued one is kept."""


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """``documents`` are the jobs as JSON text, by name; ``refused`` are those with nothing to predict from, and why."""

    jobs: tuple[MatchJob, ...]
    documents: Mapping[str, str]
    predicted: list[PredictedAmount]
    refused: dict[str, str]
    warnings: tuple[str, ...]


def read_batch(
    jobs: Sequence[Any], types: Mapping[str, ResourceType], answers: AnswerReader, connection: Connection
) -> CheckedBatch:
    """Raises:
    ResourceError: a job is invalid; the message has the place and the value.
    """
    filled = fill_in(jobs, types, answers, connection)
    refused = {_name_of(jobs[position], position): reason for position, reason in filled.refused.items()}
    ignored = Ignored()
    try:
        # Positions in messages are those of the batch as it was sent, unless jobs were left out of it.
        found = read_jobs(filled.jobs, "jobs", ignored, LIMITS)
        check_types((), found, frozenset(types))
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error
    documents = {}
    for position, (job, document) in enumerate(zip(found, filled.jobs, strict=True)):
        documents[job.name] = msgspec.json.encode(document).decode()
        if len(documents[job.name]) > LONGEST_DOCUMENT:
            raise ResourceError(f"jobs[{position}]: has more than {LONGEST_DOCUMENT} characters; leave inputs out")
    if both := documents.keys() & refused.keys():
        raise ResourceError(f"jobs: the name {min(both)!r} is there more than once; names must differ")
    return CheckedBatch(found, documents, filled.amounts, refused, ignored.warnings())


def read_chosen_objectives(value: object) -> tuple[Objective, ...]:
    """Raises:
    ResourceError: there is none, or one is unknown.
    """
    try:
        return read_objectives(value, "objectives")
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error


def problem_of(
    jobs: Sequence[MatchJob], resources: tuple[Resource, ...], objectives: tuple[Objective, ...], now: float
) -> Problem:
    """Raises:
    ResourceError: it is too large.
    """
    local = datetime.fromtimestamp(now).astimezone()
    hour = local.hour + local.minute / 60 + local.second / 3600
    problem = Problem(resources, tuple(jobs), objectives, hour, now, warnings_of(objectives))
    try:
        check_size(problem.resources, problem.jobs, LIMITS)
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error
    return problem


def types_of(jobs: Sequence[MatchJob]) -> set[str]:
    """The types of resources that these jobs depend on."""
    return {dependency.type for job in jobs for dependency in job.dependencies}


def _name_of(job: Mapping[str, Any], position: int) -> str:
    name = job.get("name")
    return name if isinstance(name, str) else f"jobs[{position}]"
