"""Turns a batch as sent into a problem over the resources of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jobsight_scheduler.matching.check import Unmatched
from jobsight_scheduler.matching.problem import MatchJob, Objective, Problem, Resource
from jobsight_scheduler.matching.records import decoded, once
from jobsight_server.forecasts import AnswerReader
from jobsight_server.systems.matching.predicted import PredictedAmount, fill_in
from jobsight_server.systems.matching.resource_state import ResourceError
from jobsight_server.systems.matching.submissions import document_with

LONGEST_DOCUMENT = 256 * 1024
"""Characters of a job as JSON, which a queued job keeps."""


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """``documents`` are the jobs as JSON text, by name.

    ``refused`` are the jobs without data for a prediction.
    """

    jobs: tuple[MatchJob, ...]
    documents: Mapping[str, str]
    predicted: list[PredictedAmount]
    refused: list[Unmatched]


def read_batch(
    jobs: Sequence[Any],
    answers: AnswerReader,
    connection: Connection,
    key: str | None = None,
) -> CheckedBatch:
    """Check a batch; ``key`` is that of the submission.

    Raises:
        InvalidProblemError: a job is invalid; the message has the place and the value.
        ResourceError: a job is too long.
    """
    filled = fill_in(jobs, answers, connection)
    found: list[MatchJob] = []
    documents = {}
    refused = [Unmatched(_name_of(jobs[position], position), "predicted", why) for position, why in filled.refused]
    for position, document in filled.jobs:
        job = decoded(document, MatchJob, f"jobs[{position}]")  # position in the batch as sent
        found.append(job)
        documents[job.name] = document_with(key, document)
        if len(documents[job.name]) > LONGEST_DOCUMENT:
            raise ResourceError(f"jobs[{position}]: has more than {LONGEST_DOCUMENT} characters; leave inputs out")
    once("jobs", [*(job.name for job in found), *(entry.job for entry in refused)])
    return CheckedBatch(tuple(found), documents, filled.amounts, refused)


def problem_of(
    jobs: Sequence[MatchJob], resources: tuple[Resource, ...], objectives: tuple[Objective, ...], now: float
) -> Problem:
    """Return the problem of any number of jobs at the local hour of ``now``."""
    local = datetime.fromtimestamp(now).astimezone()
    hour = local.hour + local.minute / 60 + local.second / 3600
    return Problem(resources, tuple(jobs), objectives, hour, now)


def _name_of(job: Mapping[str, Any], position: int) -> str:
    name = job.get("name")
    return name if isinstance(name, str) else f"jobs[{position}]"
