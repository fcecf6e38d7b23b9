"""Checks of any schedule, from Jobsight or elsewhere, against the rules of its policy. Shares no code with policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jobsight_papers.schedules.validator.basics import BrokenRule, check_capacity, check_jobs
from jobsight_scheduler.table import JobTable

Check = Callable[[JobTable, int], list[BrokenRule]]


def validate(table: JobTable, capacity: int, rules: Iterable[Check] = ()) -> list[BrokenRule]:
    """Return every breach of ``rules``, and of the rules for all schedules: capacity, and the jobs' own times."""
    return [finding for check in (check_jobs, check_capacity, *rules) for finding in check(table, capacity)]


__all__ = ["BrokenRule", "Check", "validate"]
