"""Plans the change of one job: a recommendation within the site's limits and above failed values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from jobsight_server.accounting.amounts import memory_bytes
from jobsight_server.adjust.present import Amount, PresentJob, Resource
from jobsight_server.settings.adjust import AdjustLimits

MORE_THAN_FAILED = 1.25
"""A failed value is never given again: the least new one is this times as much."""


@dataclass(frozen=True, slots=True)
class Known:
    """A job's known need of one resource, for the whole job.

    ``request`` is the user's; ``recommended`` is None without a better one. ``failed`` is the most that a similar job
    had when it ran out of it, ``used`` the most that one used; 0 for none.
    """

    request: float
    recommended: float | None
    failed: float = 0.0
    used: float = 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """A change from the present value to a new one; ``reason`` says why."""

    job: PresentJob
    resource: Resource
    old: Amount
    new: int
    reason: str


def share_of(*names: str) -> float:
    """Return a number from 0 to 1, fixed for these names and otherwise pseudo-random.

    >>> share_of("alpha", "ann") == share_of("alpha", "ann"), share_of("alpha", "ann") == share_of("alph", "aann")
    (True, False)
    """
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) / 2**64


def planned(job: PresentJob, resource: Resource, known: Known, limits: AdjustLimits) -> Change | None:
    """Return the change of a waiting job; None if it should stay as it is."""
    present = job.amounts[resource]
    least = memory_bytes(limits.memory_at_least) if resource == "memory" else limits.time_at_least_s
    most = limits.raise_to * known.request
    wanted = known.request if known.recommended is None else known.recommended
    reason = "as the user requested" if known.recommended is None else "recommended"
    floors = {
        "the least that the settings allow": least,
        "the share of the request that the settings keep": limits.keep_share * known.request,
        "a similar job used as much": known.used,
        "less has failed": MORE_THAN_FAILED * known.failed,
    }
    for why, floor in floors.items():
        if wanted < floor:
            wanted, reason = floor, why
    if wanted > most:
        wanted, reason = most, "as the user requested" if limits.raise_to == 1.0 else "the most that the settings allow"
    new = present.for_whole(wanted)
    if new > present.value and new * present.times > most:
        new = int(most / present.times) // present.step * present.step
    is_small = abs(new - present.value) < limits.least_change * present.value
    must = known.failed >= present.whole and new > present.value
    if new == present.value or new <= 0 or (is_small and not must):
        return None
    return Change(job, resource, present, new, reason)


def planned_running(
    job: PresentJob, known: Known, attempts: tuple[float, ...], now: float, limits: AdjustLimits
) -> Change | None:
    """Return more time for a running job that reaches its limit soon, if recommended or a similar job ran longer.

    ``attempts`` are the limits, in seconds, to try one after the other.
    """
    present = job.amounts["runtime"]
    assert job.start is not None
    left_s = job.start + present.value - now
    longer = [amount for amount in (*attempts, known.recommended or 0.0, known.used) if amount > present.value]
    if not 0 < left_s <= limits.running_within_s or not longer:
        return None
    most = limits.raise_to * known.request
    new = min(present.for_whole(min(longer)), int(most) // present.step * present.step)
    return Change(job, "runtime", present, new, "runs out of time soon") if new > present.value else None


def is_chosen(cluster: str, user: str, limits: AdjustLimits) -> bool:
    """Return whether the user is among the share whose jobs are changed."""
    return share_of("users", cluster, user) < limits.users_share


def allowed(limits: AdjustLimits) -> Mapping[Resource, bool]:
    """Return the resources that may be changed."""
    return {"memory": limits.memory, "runtime": limits.time}
