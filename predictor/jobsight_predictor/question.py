"""What is known of a job before it starts, and the groups of jobs that are alike in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Literal

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


Moment = Literal["submission", "start"]
"""When a forecast is asked for: as the job is submitted, or later, once it may start at any time."""
MOMENTS: tuple[Moment, ...] = ("submission", "start")

FIELDS = tuple(name for name in Question.__dataclass_fields__ if name != "facts")
"""What jobs may be grouped by."""


JobGroup = tuple[str, ...]
"""The fields by which jobs are grouped: ``("user", "queue")`` puts a user's jobs of one queue together."""

GroupKey = tuple[int, tuple[Any, ...]]
"""Names one group of jobs: which fields (a bit each, in the order of FIELDS) and their values."""

JOB_GROUPS: tuple[JobGroup, ...] = (
    ("user", "application", "queue", "processors", "requested_memory_bytes", "requested_time_s"),
    ("user", "application", "processors", "requested_memory_bytes"),
    ("user", "processors", "requested_time_s"),
    ("user", "application"),
    ("user", "requested_memory_bytes"),
    ("user", "requested_time_s"),
    ("user", "queue"),
    ("user",),
    ("application", "queue", "processors", "requested_memory_bytes", "requested_time_s"),
    ("queue", "processors"),
    (),
)
"""From the most specific to the whole site."""


_known = attrgetter(*FIELDS)


def label(job_group: JobGroup) -> str:
    """How answers name a job group: ``user + queue``, ``site``."""
    return " + ".join(job_group) if job_group else "site"


def group_name(key: GroupKey) -> str:
    """How answers name a group: by those of its fields that are known of the job."""
    return label(tuple([field for bit, field in enumerate(FIELDS) if key[0] >> bit & 1]))


class JobGroups:
    """Puts a job into its group by each of these job groups.

    Unknown fields are left out of a job's job groups, and job groups that then coincide count once, as the one with the
    fewest fields left out: if applications are never known, users do not vote twice, and if only the user is known,
    the forecast weighs the past success of users alone.
    """

    def __init__(self, job_groups: Sequence[JobGroup] = JOB_GROUPS) -> None:
        self.groups = tuple(tuple(job_group) for job_group in job_groups)
        self._by_known: dict[int, list[tuple[int, int, Any]]] = {}

    def keys(self, question: Question) -> list[tuple[int, GroupKey]]:
        """(index of the job group, key of the group) for each that applies, in the order of the job groups."""
        values = _known(question)
        known = 0
        bit = 1
        for value in values:
            if value is not None:
                known |= bit
            bit <<= 1
        found = self._by_known.get(known)
        if found is None:
            found = self._by_known[known] = self._groups_for(known)
        return [(index, (mask, values_of(values))) for index, mask, values_of in found]

    def _groups_for(self, known: int) -> list[tuple[int, int, Any]]:
        levels: dict[int, tuple[int, int, Any]] = {}
        left_out: dict[int, int] = {}
        for index, job_group in enumerate(self.groups):
            bits = [bit for bit in sorted(FIELDS.index(field) for field in job_group) if known >> bit & 1]
            mask = sum(1 << bit for bit in bits)
            if mask in levels and left_out[mask] <= len(job_group) - len(bits):
                continue
            left_out[mask] = len(job_group) - len(bits)
            if len(bits) > 1:
                values_of: Any = itemgetter(*bits)
            else:  # an item alone would come bare; a slice comes as a tuple
                values_of = itemgetter(slice(bits[0], bits[0] + 1) if bits else slice(0))
            levels[mask] = (index, mask, values_of)
        return list(levels.values())


Limit = Literal["auto", "yes", "no"]
"""Whether the scheduler ends jobs that exceed their request; with ``auto``, the jobs show it."""

LIMITS: tuple[Limit, ...] = ("auto", "yes", "no")

Objective = Literal["coverage", "waste"]
"""What reservations aim at: that a chosen share of jobs fits, with little waste; or the least waste, failed attempts
included."""

OBJECTIVES: tuple[Objective, ...] = ("coverage", "waste")
