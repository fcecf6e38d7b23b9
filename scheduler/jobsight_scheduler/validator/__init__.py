"""Checks any schedule, ours or another's, against the rules of its policy. Shares no code with the policies."""

from __future__ import annotations

from collections.abc import Callable

from jobsight_scheduler.table import JobTable

from .basics import Finding, check_capacity, check_jobs
from .promises import check_promises
from .queue_order import check_head_waits_for_room, check_order, check_shortest_first
from .reservation import check_reservation

Check = Callable[[JobTable, int], list[Finding]]

RULES: dict[str, tuple[Check, ...]] = {
    "fcfs": (check_order, check_head_waits_for_room),
    "sjf": (check_shortest_first,),
    "sjf with a predictor": (),
    "easy": (check_head_waits_for_room, check_reservation),
    "easy++": (check_head_waits_for_room,),
    "conservative": (check_promises,),
}
"""Beyond capacity and the jobs' own times, which hold for all. EASY++ promises nothing: predictions are corrected."""


def validate(table: JobTable, capacity: int, policy: str | None = None) -> list[Finding]:
    """Every rule that the schedule breaks, the rules of ``policy`` among them; empty when there is none.

    Raises:
        KeyError: there is no such policy.
    """
    found: list[Finding] = []
    for check in (check_jobs, check_capacity, *(RULES[policy] if policy else ())):
        found += check(table, capacity)
    return found


__all__ = ["RULES", "Check", "Finding", "validate"]
