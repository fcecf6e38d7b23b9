"""The description of a job before it starts, and the groups of similar jobs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, Literal, NamedTuple

Facts = tuple[tuple[str, float], ...]
"""Further facts about a job: names with finite numbers, sorted by name, such as ``("input_bytes", 3.1e9)``."""


class Question(NamedTuple):
    """Description of a job at submission; None is unknown, and excluded from grouping.

    ``group`` is the Unix group, ``account`` the charged account. Jobs are not grouped by ``facts``. Add new fields
    last, before ``facts``: the bits of group keys and the stored questions depend on the order.
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
"""Time of a forecast: when the job is submitted, or later, when it may start at any moment."""
MOMENTS: tuple[Moment, ...] = ("submission", "start")

FIELDS = Question._fields[:-1]
"""Fields by which jobs may be grouped."""


JobGroup = tuple[str, ...]
"""Fields of a grouping: ``("user", "queue")`` puts a user's jobs of one queue together."""

GroupKey = tuple[int, tuple[Any, ...]]
"""Key of one group of jobs: its fields (a bit each, in the order of FIELDS) and their values."""

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
"""Job groups, from the most specific to the whole site."""


def label(job_group: JobGroup) -> str:
    """Write a job group for answers: ``user + queue``, ``site``."""
    return " + ".join(job_group) if job_group else "site"


def group_name(key: GroupKey) -> str:
    """Write a group for answers: its fields that are known of the job."""
    return label(tuple([field for bit, field in enumerate(FIELDS) if key[0] >> bit & 1]))


class JobGroups:
    """Assigns a job to its group in each of these job groups.

    Unknown fields are left out of a job's groups. Job groups that then coincide count once, as the one with the fewest
    omitted fields: if applications are unknown, users do not vote twice, and if only the user is known, the forecast
    weighs the past success of users alone.
    """

    def __init__(self, job_groups: Sequence[JobGroup] = JOB_GROUPS) -> None:
        self.groups = tuple(tuple(job_group) for job_group in job_groups)
        self._by_known = _levels_by_known(self.groups)

    def keys(self, question: Question) -> list[tuple[int, GroupKey]]:
        """Return (index of the job group, key of the group) for each that applies, in the order of the job groups."""
        values = question[:-1]
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
            else:  # itemgetter returns one item bare, a slice as a tuple
                values_of = itemgetter(slice(bits[0], bits[0] + 1) if bits else slice(0))
            levels[mask] = (index, mask, values_of)
        return list(levels.values())


@cache
def _levels_by_known(_groups: tuple[JobGroup, ...]) -> dict[int, list[tuple[int, int, Any]]]:
    """Return the levels of these job groups by known fields, as found so far: profiles share them."""
    return {}


SHARES = (("user", "application"), ("user",), ())
"""Groups whose values are kept as shares of the job's request."""

SHARE = 1 << 16
FIRST = 1 << 17
"""Further bits in a group's key: its values are shares; it has the first jobs of applications."""

USER, APPLICATION = 1, 2


class JobKeys(NamedTuple):
    """The keys under which similar jobs are kept; made once, when the job is forecast.

    ``values`` are the keys of groups, from specific to general, each with its number among all that vote; ``shares``
    those of ``SHARES``, for a job with a ``request``. ``application`` is the user's application, or the user if the
    application is unknown; a burst consists of its jobs. ``first_jobs`` are the groups of the first finished job of
    each application, of the user and of the site. ``facts`` is the application of a job with facts, else empty.
    """

    request: float | None
    values: list[tuple[int, GroupKey]]
    shares: list[tuple[int, GroupKey]]
    user: GroupKey
    application: GroupKey
    first_jobs: list[GroupKey]
    facts: list[GroupKey]

    @property
    def groups(self) -> list[GroupKey]:
        """Return the keys of all groups."""
        return [*[key for _, key in self.values], *[key for _, key in self.shares], *self.first_jobs]


def user_key(user: str | None) -> GroupKey:
    """Return the key of a user's jobs."""
    return (0, ()) if user is None else (USER, (user,))


@lru_cache(maxsize=1000)
def job_keys(job_groups: JobGroups, question: Question, request: float | None) -> JobKeys:
    """Make the keys of a job with this ``request`` of the metric; None is no request."""
    user, application = question.user, question.application
    bits, names = of_user = user_key(user)
    of_application = of_user if application is None else (bits | APPLICATION, (*names, application))
    flag = FIRST if request is None else FIRST | SHARE
    first_jobs: list[GroupKey] = [(flag, ())] if user is None else [(flag | USER, names), (flag, ())]
    shares: list[tuple[int, GroupKey]] = []
    if request is not None:
        known: tuple[GroupKey, ...] = ((USER | APPLICATION, (user, application)), (USER, (user,)), (0, ()))
        first = len(job_groups.groups)
        shares = [(first + i, (SHARE | bits, names)) for i, (bits, names) in enumerate(known) if None not in names]
    facts = [of_application] if question.facts else []
    return JobKeys(request, job_groups.keys(question), shares, of_user, of_application, first_jobs, facts)


SHARE_OF_REQUEST = ", share of request"


def level_name(key: GroupKey) -> str:
    """Write a group for answers: its fields that are known of the job."""
    return group_name(key) + (SHARE_OF_REQUEST if key[0] & SHARE else "")


def level_fields(level: str) -> tuple[str, ...]:
    """Return the fields that a group's jobs share, from its name in an answer.

    >>> level_fields("user + application, share of request"), level_fields("site")
    (('user', 'application'), ())
    """
    fields = level.removesuffix(SHARE_OF_REQUEST)
    return () if fields == label(()) else tuple(fields.split(" + "))
