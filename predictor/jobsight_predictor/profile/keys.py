"""The groups that a job belongs to: of the job groups, of shares of its request, and of the first jobs of each kind."""

from __future__ import annotations

from typing import NamedTuple

from jobsight_predictor.job_groups import GroupKey, JobGroups
from jobsight_predictor.question import Question

SHARES = (("user", "application"), ("user",), ())
"""Groups whose values are kept as shares of what the job requested."""

SHARE = 1 << 16
FIRST = 1 << 17
"""Bits besides those of the fields in a group's key: its values are shares; it contains first jobs of a kind."""

_USER, _APPLICATION = 1, 2


class JobKeys(NamedTuple):
    """Under which keys the like of a job is kept; made once, when the job is forecast.

    ``groups`` has the index of the job group with each key, from specific to general; ``shares`` likewise, with the
    index counted on in ``SHARES``, for a job with a ``request``. ``kind`` is the user's application, or the user where
    no application is known: the jobs that a burst is made of. ``firsts`` hold the first job to end of each kind: of
    the user, and of the site.
    """

    request: float | None
    groups: list[tuple[int, GroupKey]]
    shares: list[tuple[int, GroupKey]]
    kind: GroupKey
    firsts: list[GroupKey]


def job_keys(job_groups: JobGroups, question: Question, request: float | None) -> JobKeys:
    """The keys of a job that requests this of the metric; None: nothing."""
    kind = _kind(question)
    of_user = question.user is not None
    shares: list[tuple[int, GroupKey]] = []
    if request is not None:
        of_kind, of_users, of_site = range(len(job_groups.groups), len(job_groups.groups) + len(SHARES))
        if of_user and question.application is not None:
            shares.append((of_kind, (SHARE | kind[0], kind[1])))
        if of_user:
            shares.append((of_users, (SHARE | _USER, (question.user,))))
        shares.append((of_site, (SHARE, ())))
    bits = FIRST if request is None else FIRST | SHARE
    firsts: list[GroupKey] = [(bits | _USER, (question.user,)), (bits, ())] if of_user else [(bits, ())]
    return JobKeys(request, job_groups.keys(question), shares, kind, firsts)


def _kind(question: Question) -> GroupKey:
    if question.application is None:
        return (0, ()) if question.user is None else (_USER, (question.user,))
    if question.user is None:
        return _APPLICATION, (question.application,)
    return _USER | _APPLICATION, (question.user, question.application)
