"""Answers how much memory a submitted job should ask for, stores the answer, and learns what became of the job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert, update

from jobsight_predictor.question import Question
from jobsight_server.errors import RefusedError
from jobsight_server.forecasts import AnswerReader, Prediction
from jobsight_server.forecasts.request import question_of_text, question_text, whole_job_request
from jobsight_server.record import Record, Share
from jobsight_server.requirements.config import JOBSIGHT, RequirementConfig
from jobsight_server.requirements.groups import MIB, count_asked, count_ended, estimate, learn, learned_keys
from jobsight_server.requirements.relearn import OUTCOMES, delete_beyond, is_gone
from jobsight_server.requirements.stored import lock_requirements, read_parts, read_requirement, write_parts
from jobsight_server.storage.event_counts import add_event_counts
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
    """What to ask for, of the whole job and never above its request, and why.

    ``id`` is what the report of its outcome names. ``confidence``: how likely it is that ``memory_bytes`` is enough;
    null where the request itself is asked for, and where one of the published families of estimators decides.
    """

    id: int
    cluster: str
    memory_bytes: int
    requested_bytes: int
    confidence: Share | None
    reason: str


def ask(
    connection: Connection, config: RequirementConfig, reader: AnswerReader, submitted: SubmittedJob, now: float
) -> Requirement:
    """The requirement, remembered within the caller's transaction.

    Raises:
        RetryError: the last attempt is unknown or did not fail, or it failed with everything requested now.
    """
    lock_requirements(connection)
    cluster, requested = submitted.cluster, submitted.requested_bytes
    failed_bytes = None if submitted.retry_of is None else _failed_bytes(connection, submitted)
    group = count_asked(connection, config, cluster, submitted.job, requested, now)
    confidence = None
    if config.name == JOBSIGHT or not group.finished + group.failed:
        answer = predicted(connection, reader, cluster, submitted.job, requested)
        given = enough(config, answer, requested, failed_bytes or 0)
        if failed_bytes is None and given < requested and answer.exceed_probability is not None:
            confidence = 1.0 - answer.exceed_probability
        reason = _reason(answer, given < requested)
    else:
        given = (
            requested if failed_bytes is not None else estimate(connection, config, cluster, submitted.job, requested)
        )
        ended = group.finished + group.failed
        reason = f"Of {ended} {'job' if ended == 1 else 'jobs'} like it, {group.failed} failed."
    if failed_bytes is not None:
        reason = f"Attempt {submitted.retry_of} failed with {_mib(failed_bytes)}. {reason}"
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
    return Requirement(number, cluster, given, requested, confidence, reason)


def predicted(
    connection: Connection, reader: AnswerReader, cluster: str, job: Question, requested_bytes: int
) -> Prediction:
    """What the whole job will need of memory, as every other answer has it."""
    question = replace(job, requested_memory_bytes=requested_bytes / (job.processors or 1))
    (answer,) = reader.answers(connection, [whole_job_request(cluster, question, "memory")])
    return answer


def enough(config: RequirementConfig, answer: Prediction, requested_bytes: int, failed_bytes: int = 0) -> int:
    """What to ask for after ``failed_bytes`` was too little: at most the request; one of the site's capacities if these
    are known, else whole MiB."""
    found = next((attempt for attempt in answer.attempts if attempt > failed_bytes), requested_bytes)
    if config.capacities:
        found = next((capacity for capacity in config.capacities if capacity >= found), requested_bytes)
    return min(ceil(ceil(found / MIB) * MIB), requested_bytes)


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


def _reason(answer: Prediction, is_less: bool) -> str:
    if not answer.user_jobs:
        return "No job of this user has ended yet, so it gets its request."
    used = f"the last used {_mib(min(answer.last_values))} to {_mib(max(answer.last_values))}"
    jobs = f"{answer.n:,} {'job' if answer.n == 1 else 'jobs'} like it ({answer.level})"
    return f"Of {jobs}, {used}." if is_less else f"Less is unlikely to be enough: of {jobs}, {used}."


def _mib(memory_bytes: float) -> str:
    return f"{memory_bytes / 2**20:,.0f} MiB"


REJECTED = "requirement_feedback_rejected"
"""Counted by reason: unknown, expired, contradictory."""

Taken = Literal["stored", "duplicate", "unknown", "expired", "contradictory"]


@dataclass(frozen=True, slots=True)
class Feedback:
    """How the job of requirement ``number`` ended; ``failed`` means that it ran out of memory."""

    number: int
    failed: bool
    used_bytes: int | None = None

    @property
    def outcome(self) -> str:
        return "failed" if self.failed else "finished"


def take_feedback(connection: Connection, config: RequirementConfig, feedback: Feedback, now: float) -> Taken:
    """Learns it within the caller's transaction, once; rejected feedback is counted there."""
    lock_requirements(connection)
    row = read_requirement(connection, feedback.number)
    taken: Taken
    if row is None:
        taken = "expired" if is_gone(connection, feedback.number) else "unknown"
    elif row.outcome == "expired" or (row.outcome is None and row.asked_at < now - config.expiry_s):
        taken = "expired"
    elif row.outcome is not None:
        is_same = (row.outcome, row.used_bytes) == (feedback.outcome, feedback.used_bytes)
        taken = "duplicate" if is_same else "contradictory"
    else:
        if config.name != JOBSIGHT:
            _learn(connection, config, row, feedback)
        count_ended(connection, row, failed=feedback.failed, used_bytes=feedback.used_bytes)
        ended = {"outcome": feedback.outcome, "used_bytes": feedback.used_bytes, "ended_at": now}
        connection.execute(update(requirements).where(requirements.c.id == row.id).values(ended))
        add_event_counts(connection, {(OUTCOMES, feedback.outcome): 1})
        return "stored"
    if taken != "duplicate":
        add_event_counts(connection, {(REJECTED, taken): 1})
    return taken


def _learn(connection: Connection, config: RequirementConfig, row: Row[Any], feedback: Feedback) -> None:
    job, requested, method = question_of_text(row.question), row.requested_bytes, config.method
    parts = read_parts(connection, row.cluster, method, learned_keys(config, job, requested))
    given, failed = row.memory_bytes, feedback.failed
    changed = learn(config, parts, job, requested, given, failed=failed, used_bytes=feedback.used_bytes)
    write_parts(connection, row.cluster, method, changed)
