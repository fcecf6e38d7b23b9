"""What is known of a job before it starts."""

from __future__ import annotations

from dataclasses import dataclass

Facts = tuple[tuple[str, float], ...]
"""Names with finite numbers, sorted by name: what else is known of a job, such as ``("input_bytes", 3.1e9)``."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is known about a job when it is submitted; None is unknown, and nothing is grouped by it.

    ``group`` is the Unix group, ``account`` what the job is charged to. Nothing is grouped by ``facts``.
    New fields come last, before ``facts``: the bits of group keys and the stored questions count on the order.
    """

    user: str | None = None
    application: str | None = None
    queue: str | None = None
    processors: int | None = None
    requested_memory_bytes: float | None = None
    requested_time_s: float | None = None
    group: str | None = None
    account: str | None = None
    facts: Facts = ()


FIELDS = tuple(name for name in Question.__dataclass_fields__ if name != "facts")
"""What jobs may be grouped by."""
