"""What is known of a job before it starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """What is known about a job when it is submitted; None is unknown, and nothing is grouped by it."""

    user: str | None = None
    application: str | None = None
    queue: str | None = None
    processors: int | None = None
    requested_memory_bytes: float | None = None
    requested_time_s: float | None = None


FIELDS = tuple(Question.__dataclass_fields__)
"""What jobs may be grouped by."""
