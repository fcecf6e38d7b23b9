"""Memory for a submitted job, for submit filters: the recommendation, or an estimate from outcomes.

Without measured memory, only success and failure are known. Then a group of similar jobs gets half of its request once
one has finished, three quarters if that failed, and all of it after that, unless wider groups disagree
(``Hierarchical``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from jobsight_predictor.hierarchical import Hierarchical
from jobsight_predictor.question import Question
from jobsight_server.advice.recommendation import Recommendation, plain_request, recommend
from jobsight_server.advice.words import KEPT as KEPT_BECAUSE
from jobsight_server.decision.rule import FEW, MORE
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.request import question_of_text, question_text
from jobsight_server.ground.amounts import MIB
from jobsight_server.ground.answers import Record, Share
from jobsight_server.ground.errors import RefusedError
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import LARGEST_ID, fetch_by_keys, keyed, lock_until_commit, upsert, write_many
from jobsight_server.storage.schema import requirement_state, requirements

KEPT = 100_000
"""Requirements, open or reported; the oldest are deleted first."""

SHARES = (0.5, 0.75, 1.0)
"""Shares of the request to try where memory is not measured."""

_NOT_MEASURED = "No similar job has been measured, so the request stays."

_DELETE_EVERY = 1000  # answers; a search for old ones at each answer would cost more than it saves

OUTCOMES = "requirement_outcomes"
"""Counted by outcome: finished, failed, expired."""

REJECTED = "requirement_feedback_rejected"
"""Counted by reason: unknown, expired, contradictory."""

Taken = Literal["stored", "duplicate", "unknown", "expired", "contradictory"]


class RetryError(RefusedError):
    """A refused resubmission of a job."""


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job submitted to ``cluster``; ``retry_of`` is the number of its last attempt, which failed."""

    cluster: str
    job: Question
    requested_bytes: int
    retry_of: int | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """Record the end of the job of requirement ``number``; ``failed`` means that it ran out of memory."""

    number: int
    failed: bool
    used_bytes: int | None = None

    @property
    def outcome(self) -> str:
        return "failed" if self.failed else "finished"


class Requirement(Record):
    """Memory for the whole job, never above its request, and the reason.

    The report of its outcome names ``id``. ``confidence``: probability that ``memory_bytes`` is enough; null if it
    equals the request, or if memory is not measured. ``similar_jobs``: number of similar jobs with a known use.
    """

    id: int
    cluster: str
    memory_bytes: int
    requested_bytes: int
    confidence: Share | None
    similar_jobs: int
    reason: str


def ask(connection: Connection, reader: AnswerReader, submitted: SubmittedJob) -> Requirement:
    """Return the requirement, and store it within the caller's transaction.

    Raises:
        RetryError: the last attempt is unknown or did not fail, or it failed with everything requested now.
    """
    cluster, requested = submitted.cluster, submitted.requested_bytes
    failed_bytes = None if submitted.retry_of is None else _failed_bytes(connection, submitted)
    question = replace(submitted.job, requested_memory_bytes=requested / (submitted.job.processors or 1))
    found = recommend(connection, reader, cluster, question, plain_request(question))
    decision, confidence = found.decisions["memory"], None
    if found.most("memory") is not None or found.answers["memory"].value is not None:
        amount, exceeds = decision.amount, found.answers["memory"].exceed_probability
        if failed_bytes is not None:
            attempts = found.answers["memory"].attempts
            amount = next((one for one in attempts if one >= MORE * failed_bytes), None)
        given = requested if amount is None else min(_whole_mib(amount), requested)
        if failed_bytes is None and given < requested and decision.similar.exact >= FEW and exceeds is not None:
            confidence = 1.0 - exceeds
        reason = _reason(found, given, requested)
    else:
        given = requested if failed_bytes is not None else _tried(connection, submitted)
        reason = _NOT_MEASURED
        if given < requested:
            reason = f"No similar job has been measured; by their outcomes, {given / requested:.0%} may be enough."
    if failed_bytes is not None:
        reason = f"Attempt {submitted.retry_of} failed with {_mib(failed_bytes)}. {reason}"
    row = {"cluster": cluster, "question": question_text(submitted.job), "requested_bytes": requested}
    query = insert(requirements).values(memory_bytes=given, **row).returning(requirements.c.id)
    number = connection.execute(query).scalar_one()
    if number % _DELETE_EVERY == 0:
        _delete_beyond(connection, number - KEPT)
    return Requirement(number, cluster, given, requested, confidence, decision.similar.runs, reason)


def take_feedback(connection: Connection, feedback: Feedback) -> tuple[Taken, Row[Any] | None]:
    """Learn from it once, within the caller's transaction; return the requirement, too. Count rejected feedback."""
    lock_until_commit(connection, "jobsight requirements")
    row = _read(connection, feedback.number)
    taken: Taken
    if row is None:
        taken = "expired" if _is_gone(connection, feedback.number) else "unknown"
    elif row.outcome is not None:
        is_same = (row.outcome, row.used_bytes) == (feedback.outcome, feedback.used_bytes)
        taken = "duplicate" if is_same else "contradictory"
    else:
        taken = "stored"
        if feedback.used_bytes is None:
            _learn(connection, row, feedback.failed)
        ended = {"outcome": feedback.outcome, "used_bytes": feedback.used_bytes}
        connection.execute(update(requirements).where(requirements.c.id == row.id).values(ended))
        add_event_counts(connection, {(OUTCOMES, feedback.outcome): 1})
    if taken not in ("stored", "duplicate"):
        add_event_counts(connection, {(REJECTED, taken): 1})
    return taken, row


def _whole_mib(amount: float) -> int:
    return ceil(ceil(amount / MIB) * MIB)


def _failed_bytes(connection: Connection, submitted: SubmittedJob) -> int:
    """Return the memory of the last attempt, which was too little."""
    number = submitted.retry_of or 0
    row = _read(connection, number)
    if row is None:
        if _is_gone(connection, number):
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


def _reason(found: Recommendation, given: float, requested: float) -> str:
    decision = found.decisions["memory"]
    similar, known = decision.similar, decision.similar.known
    if not similar.rows:
        return _NOT_MEASURED
    jobs = f"From {similar.runs} similar {'job' if similar.runs == 1 else 'jobs'}"
    if known is not None and known.least is not None:
        jobs += f", which used {_mib(known.least)} to {_mib(known.most)}."
    else:
        jobs += ", which ran out of memory." if similar.failed else ", whose use is not known exactly."
    if decision.amount is not None and decision.amount > requested:
        return f"{jobs} The request stays, but it is too small: request {_mib(decision.amount)}."
    if given < requested:
        return jobs
    return f"{jobs} The request stays" + ("." if decision.kept is None else f": {KEPT_BECAUSE[decision.kept]}.")


def _mib(memory_bytes: float) -> str:
    return f"{memory_bytes / MIB:,.0f} MiB"


def _read(connection: Connection, number: int) -> Row[Any] | None:
    """Read the row of one requirement; None if there is none, or if it was deleted."""
    if not 0 < number <= LARGEST_ID:
        return None
    return connection.execute(select(requirements).where(requirements.c.id == number)).first()


def _delete_beyond(connection: Connection, last: int) -> None:
    """Delete all up to number ``last``; open ones count as expired."""
    old = requirements.c.id <= last
    is_open = requirements.c.outcome.is_(None)
    expired = connection.scalar(select(func.count()).select_from(requirements).where(old, is_open)) or 0
    connection.execute(delete(requirements).where(old))
    add_event_counts(connection, {(OUTCOMES, "expired"): expired})


def _is_gone(connection: Connection, number: int) -> bool:
    """Whether a missing requirement was deleted; the newest never is."""
    return 0 < number <= (connection.scalar(select(func.max(requirements.c.id))) or 0)


# Keys contain users' job names; PostgreSQL does not accept index entries above 2,704 bytes.
_LONGEST = 500


def _short(key: str) -> str:
    """Shorten ``key`` for PostgreSQL's index if necessary, keeping it distinct from all others."""
    return key if len(key) <= _LONGEST else f"{key[:200]}#{hashlib.sha256(key.encode()).hexdigest()}"


_READ = keyed(requirement_state, ("cluster", "key"), "state")
_WRITE = upsert(requirement_state)


def _estimator(job: Question, requested: int) -> tuple[Hierarchical, Question]:
    """Return an empty estimator for jobs with this request, in whole MiB, and the job with the request of all of it."""
    capacities = sorted({float(min(_whole_mib(share * requested), requested)) for share in SHARES})
    return Hierarchical(capacities), replace(job, requested_memory_bytes=float(requested))


def _load(connection: Connection, cluster: str, estimator: Hierarchical, keys: Iterable[str]) -> set[str]:
    """Load the stored state of these parts into the estimator; return the parts that have one."""
    named = {_short(key): key for key in keys}
    rows = fetch_by_keys(connection, _READ, [(cluster, short) for short in named])
    parts: Mapping[str, Any] = {named[short]: msgspec.json.decode(state) for _, short, state in rows}
    estimator.load(parts)
    return set(parts)


def _tried(connection: Connection, submitted: SubmittedJob) -> int:
    """Estimate memory from outcomes; return the request if none of the job's own group has been reported."""
    requested = submitted.requested_bytes
    estimator, job = _estimator(submitted.job, requested)
    keys = estimator.keys(job)
    if keys[-1] not in _load(connection, submitted.cluster, estimator, keys):
        return requested
    return int(estimator.estimate(job, float(requested)))


def _learn(connection: Connection, row: Row[Any], failed: bool) -> None:
    estimator, job = _estimator(question_of_text(row.question), row.requested_bytes)
    _load(connection, row.cluster, estimator, estimator.keys(job))
    estimator.learn(job, float(row.memory_bytes), failed)
    parts = estimator.state().items()
    stored = [(row.cluster, _short(key), msgspec.json.encode(part).decode()) for key, part in parts]
    write_many(connection, _WRITE, stored)
