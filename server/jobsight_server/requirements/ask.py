"""Answers how much memory a submitted job should ask for, and stores the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from jobsight_predictor.question import Question
from jobsight_server.errors import RefusedError
from jobsight_server.record import Record, Share
from jobsight_server.requirements.config import RequirementConfig
from jobsight_server.requirements.expiry import delete_beyond, is_gone
from jobsight_server.requirements.groups import count_asked
from jobsight_server.requirements.job_memory import JobMemory
from jobsight_server.requirements.stored import lock_requirements, question_text, read_parts, read_requirement
from jobsight_server.storage.schema import requirements

_DELETE_EVERY = 1000  # answers; looking for old ones each time would cost more than it saves


class RetryError(RefusedError):
    """A job cannot be submitted again like this."""


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job submitted to ``cluster``; ``retry_of`` is the number of its last attempt, which failed."""

    cluster: str
    job: Question
    requested_bytes: int
    retry_of: int | None = None


class Requirement(Record):
    """What to ask for, in the measure of the request and never above it, and why.

    ``id`` is what the feedback names. ``confidence``: how likely it is that ``memory_bytes`` is enough; null where the
    request itself is asked for, or nothing like ``memory_bytes`` was tried.
    """

    id: int
    cluster: str
    memory_bytes: int
    requested_bytes: int
    confidence: Share | None
    reason: str


def ask(connection: Connection, config: RequirementConfig, submitted: SubmittedJob, now: float) -> Requirement:
    """The requirement, remembered within the caller's transaction.

    Raises:
        RetryError: the last attempt is unknown or did not fail, or it failed with everything requested now.
    """
    lock_requirements(connection)
    cluster, requested = submitted.cluster, submitted.requested_bytes
    failed_bytes = None if submitted.retry_of is None else _failed_bytes(connection, submitted)
    group = count_asked(connection, config, cluster, submitted.job, requested, now)
    memory = JobMemory(config, submitted.job, requested)
    memory.load(read_parts(connection, cluster, memory.keys()))
    given = requested if failed_bytes is not None else memory.estimate_bytes()
    is_first = given < requested and (group.enough_bytes is None or given < group.enough_bytes)
    if failed_bytes is not None:
        reason = f"Attempt {submitted.retry_of} failed with {_mib(failed_bytes)}, so this one gets its request."
    elif is_first and _is_tried(connection, group, requested, now - config.expiry_s):
        given = requested
        reason = "Another job like it is the first to try less; until that one has ended, this one gets its request."
    else:
        reason = _reason(group, given < requested, is_first)
    row = {
        "group_id": group.id,
        "cluster": cluster,
        "question": question_text(submitted.job),
        "requested_bytes": requested,
        "memory_bytes": given,
        "asked_at": now,
    }
    number = connection.execute(insert(requirements).values(row).returning(requirements.c.id)).scalar_one()
    if number % _DELETE_EVERY == 0:
        delete_beyond(connection, number - config.kept)
    confidence = memory.confidence(given) if given < requested else None
    return Requirement(number, cluster, given, requested, confidence, reason)


def _failed_bytes(connection: Connection, submitted: SubmittedJob) -> int:
    """The memory of the last attempt, which was too little."""
    number = submitted.retry_of or 0
    row = read_requirement(connection, number)
    if row is None:
        if is_gone(connection, number):
            raise RetryError(f"retry_of = {number} has been deleted; submit the job with its request", 410)
        raise RetryError(f"retry_of = {number} is unknown; give the id of the answer for the failed attempt", 404)
    if row.cluster != submitted.cluster:
        raise RetryError(f"retry_of = {number} is of another cluster; leave it out", 409)
    if row.outcome == "finished":
        raise RetryError(f"retry_of = {number} has finished; leave it out", 409)
    failed: int = row.memory_bytes
    if submitted.requested_bytes <= failed:
        raise RetryError(
            f"memory_bytes = {submitted.requested_bytes} is not more than the {failed} with which attempt {number} "
            "failed; request more",
            409,
        )
    return failed


def _is_tried(connection: Connection, group: Row[Any], requested: int, since: float) -> bool:
    """Whether a job of the group is under way with less than any is known to have finished with.

    Only one job tries less at a time: a burst of jobs would fail together.
    """
    query = select(requirements.c.id).where(
        requirements.c.group_id == group.id,
        requirements.c.outcome.is_(None),
        requirements.c.asked_at >= since,
        requirements.c.memory_bytes < (requested if group.enough_bytes is None else group.enough_bytes),
    )
    return connection.execute(query.limit(1)).first() is not None


def _reason(group: Row[Any], is_less: bool, is_first: bool) -> str:
    ended = group.finished + group.failed
    if is_first:
        return "No job like it has finished with so little yet; this one is the first to try."
    if not ended:
        return "No job like it has ended yet, so it gets its request."
    used = "" if group.used_bytes is None else f", and the largest use reported is {_mib(group.used_bytes)}"
    counts = f"{ended} {'job' if ended == 1 else 'jobs'} like it, {group.failed} failed{used}."
    return f"Of {counts}" if is_less else f"Less is unlikely to be enough: of {counts}"


def _mib(memory_bytes: int) -> str:
    return f"{memory_bytes / 2**20:,.0f} MiB"
