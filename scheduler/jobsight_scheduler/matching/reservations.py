"""Reservations: the start of the oldest job, and the capacity that others may take until then.

Of the jobs that were passed over too often, the first that could run but does not fit now gets a reservation at the
earliest time at which its whole gang fits. Others may then take from the reserved instances only capacity that they
give back before that time (backfilling; D. A. Lifka, The ANL/IBM SP scheduling system, 1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from jobsight_scheduler.matching.check import Match
from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.ladder import matches_of
from jobsight_scheduler.matching.packing import Packing
from jobsight_scheduler.matching.problem import Capacity, Hold, MatchJob, Problem, Resource

_ROUNDING = 1e-12
"""Share of a total."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """From ``start_s`` on, ``job`` gets these instances."""

    job: str
    start_s: float
    resources: dict[str, tuple[str, ...]]


def with_matches(
    resources: Sequence[Resource], jobs: Sequence[MatchJob], matches: Sequence[Match]
) -> tuple[Resource, ...]:
    """Add the amounts of ``matches`` to the use of ``resources``."""
    by_name = {job.name: job for job in jobs}
    taken: dict[str, dict[str, float]] = {}
    for one in matches:
        for dependency in by_name[one.job].dependencies:
            for name in one.resources[dependency.name]:
                of = taken.setdefault(name, {})
                of |= {kind: of.get(kind, 0.0) + amount for kind, amount in dependency.amounts.items()}
    return tuple(_using(one, taken[one.name]) if one.name in taken else one for one in resources)


def at_time(resources: Sequence[Resource], time_s: float) -> tuple[Resource, ...]:
    """Return ``resources`` without the holds that end by ``time_s``."""
    return tuple(
        _without(resource, [hold for hold in resource.holds if hold.until_s <= time_s]) for resource in resources
    )


def _without(resource: Resource, ended: Sequence[Hold]) -> Resource:
    if not ended:
        return resource
    less = {kind: -sum(hold.amounts.get(kind, 0.0) for hold in ended) for kind in resource.capacities}
    kept = tuple(hold for hold in resource.holds if hold not in ended)
    return _using(resource, less, holds=kept, matches_running=max(0, resource.running - len({h.job for h in ended})))


def _using(resource: Resource, more: Mapping[str, float], **changes: Any) -> Resource:
    """Add ``more`` to the use of each kind of ``resource``; a rest within the rounding of sums becomes 0."""
    used = {kind: of.used + more.get(kind, 0.0) for kind, of in resource.capacities.items()}
    capacities = {
        kind: Capacity(of.total, used[kind] if used[kind] > _ROUNDING * of.total else 0.0)
        for kind, of in resource.capacities.items()
    }
    return replace(resource, capacities=capacities, **changes)


def earliest(problem: Problem, job: MatchJob) -> Reservation | None:
    """Return the earliest time at which ``job`` fits without further matches; None if it never does.

    Free capacity only grows as holds end, so bisection finds the time.
    """
    ends = sorted({hold.until_s for resource in problem.resources for hold in resource.holds} | {problem.now_s})
    ends = [end for end in ends if end >= problem.now_s]
    low, high = 0, len(ends) - 1
    found = _placed(problem, job, ends[high])
    if found is None:
        return None
    while low < high:
        middle = (low + high) // 2
        earlier = _placed(problem, job, ends[middle])
        if earlier is None:
            low = middle + 1
        else:
            high, found = middle, earlier
    return Reservation(job.name, ends[high], found.resources)


def served(problem: Problem, overdue: Iterable[MatchJob]) -> tuple[tuple[Match, ...], Reservation | None]:
    """Match the oldest jobs as long as they fit, and reserve for the first that could run but does not fit."""
    matches: tuple[Match, ...] = ()
    resources = problem.resources
    for job in overdue:
        found = earliest(replace(problem, resources=resources), job)
        if found is None:
            continue
        if found.start_s > problem.now_s:
            return matches, found
        matches = (*matches, Match(job.name, found.resources))
        resources = with_matches(resources, [job], matches[-1:])
    return matches, None


def _placed(problem: Problem, job: MatchJob, time_s: float) -> Match | None:
    eligibility = Eligibility(replace(problem, resources=at_time(problem.resources, time_s), jobs=(job,)))
    packing = Packing(eligibility, eligibility.eligible())
    return matches_of(eligibility, packing.placed)[0] if packing.place(0, None) else None


def without_reserved(resources: Sequence[Resource], job: MatchJob, reservation: Reservation) -> tuple[Resource, ...]:
    """Return the resources for jobs that end after the reservation starts: free now and left over then."""
    later = at_time(resources, reservation.start_s)
    kept = with_matches(later, [job], [Match(job.name, reservation.resources)])
    return tuple(
        _using(now, {kind: max(0.0, then.capacities[kind].used - of.used) for kind, of in now.capacities.items()})
        for now, then in zip(resources, kept, strict=True)
    )
