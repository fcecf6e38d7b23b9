"""Processes feedback: how a job with a requirement ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, update

from jobsight_server.requirements.config import JOBSIGHT, RequirementConfig
from jobsight_server.requirements.estimate import learn, learned_keys
from jobsight_server.requirements.expiry import OUTCOMES, is_gone
from jobsight_server.requirements.groups import count_ended
from jobsight_server.requirements.stored import (
    lock_requirements,
    question_of_text,
    read_parts,
    read_requirement,
    write_parts,
)
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.schema import requirements

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
