"""Decides a job's request of one resource from the use of similar jobs: the only place that does.

A forecast estimates the need. The decision checks it against the similar jobs that its sentence names, so that no
recommendation goes beyond their evidence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jobsight_server.accounting.amounts import MIB

LEAST_JOBS = 5
"""Similar jobs, of two bursts at least, needed to lower a request."""

LOOKED_AT = 100
"""The latest similar jobs, against which an amount is checked."""

DOUBT = 0.05
"""Jobs refute a stated share if the probability of so few within it is below this."""

MAY_EXCEED = 0.05
"""Share of similar jobs that may have used more than a request that is kept, or than the recommendation."""

BEYOND_AT_MOST = 1.0 / 3.0
"""Share of similar jobs that may have used more, even if most of them are one burst."""

MORE_THAN_FAILED = 1.25
"""Factor on an amount that failed."""
AGAIN = 1.6
"""Further factor if the latest job failed although it had more than the one before, which failed as well: twice as
much. With 4, .886 of what jobs use is wasted instead of .848 (UniLu-Gaia), and as many hold, on four traces."""

LIKELY = 0.5
"""Share of jobs for which a lowered request must be enough by the forecast, which also knows the jobs of others. A run
time must be enough for all but ``MAY_EXCEED``, unless no job failed or used more than ``HALF`` of the request. Memory
that this keeps would be enough for .63 if lowered (LANL-CM5)."""

LONGEST = 1.25
"""Limit of a recommended run time, as a multiple of the longest similar run, and margin of a request where they are
few: with 1.1, .945 hold instead of .956, with 1.5 a fiftieth fewer are lowered (eager)."""

MANY = 20
"""With fewer similar jobs, requests stay at least ``LONGEST`` times the largest use, with fewer bursts at least that
use: the next job may exceed it more often than forecast. Otherwise .930 would hold instead of .956 (eager)."""

NEAR = 0.9
"""Share of a time limit that a job killed for time, or more than ``MAY_EXCEED`` of similar jobs, must have reached for
a longer limit; for more memory, one must have used more."""

MARGIN = 1.5
HALF = 0.5
"""Where no job failed, at most ``MARGIN`` times the largest use is recommended above a request; below it, where no job
used more than ``HALF`` of it."""

Resource = Literal["memory", "runtime"]

ASKED_FOR: tuple[Resource, ...] = ("memory", "runtime")
"""Metrics that a job can request."""

STEPS: Mapping[Resource, float] = {"memory": float(MIB), "runtime": 60.0}
"""Units to round up to; every scheduler takes these."""

Kept = Literal[
    "not measured",
    "no forecast",
    "no application",
    "few jobs",
    "one burst",
    "other processors",
    "forecast higher",
    "enough requested",
    "as requested",
]
"""Reasons to keep the request."""


class Use(NamedTuple):
    """A similar job's use, or its limit when it ``failed``; ``burst`` numbers the jobs submitted together, ``run`` is
    the job's position. ``is_alike``: it had as many processors as the new job."""

    amount: float
    burst: int
    failed: bool = False
    run: int = 0
    is_alike: bool = True


class Enough(NamedTuple):
    """Number of similar ``jobs`` with a known use, the latest ones, and for how many an amount was enough."""

    within: int
    jobs: int


class Need(NamedTuple):
    """A forecast: the reservation without the limit of the request, and ``steps``, ascending: amounts with the share of
    similar jobs for which each is enough. ``by_facts``: from facts that distinguish the job from similar jobs."""

    amount: float | None
    steps: Sequence[tuple[float, float]] = ()
    by_facts: bool = False

    def share(self, amount: float) -> float:
        """Return the least share of similar jobs for which this amount is enough."""
        return max((share for step, share in self.steps if step <= amount * (1.0 + 1e-9)), default=0.0)


@dataclass(frozen=True, slots=True)
class Decision:
    """The request for one resource, for the whole job; ``amount`` None: the request, or nothing, for this reason.

    ``enough``: probability that the amount is enough, None without sufficient evidence. ``similar``: number of similar
    jobs with a measured use. ``steps``: if more than the request is recommended, both amounts with what they were
    enough for. ``estimated_from``: few or other jobs, which say nothing of that probability, or those with similar
    ``facts``, which say nothing of all similar jobs.
    """

    amount: float | None
    enough: float | None
    similar: int
    kept: Kept | None = None
    steps: tuple[tuple[float, Enough], ...] = ()
    estimated_from: Literal["facts"] | Kept | None = None


def decide(
    resource: Resource,
    requested: float | None,
    uses: Sequence[Use],
    need: Need | Callable[[], Need],
    step: float,
    most: float = math.inf,
    *,
    is_named: bool = True,
) -> Decision:
    """Decide by the ``uses`` of similar jobs, the latest first, and the forecast ``need``, made when it is needed.

    The amount is a multiple of ``step`` and at most ``most``. A job of an unknown application, not ``is_named``, may
    differ from all others of its user: its request is the better evidence, unless the latest of them ran out of it.
    """
    asked, largest = requested or 0.0, max([use.amount for use in uses if not use.failed], default=0.0)
    failed = max([use.amount for use in uses if use.failed], default=0.0)

    def kept(why: Kept) -> Decision:
        return Decision(None, None, len(uses), why)

    if not uses:
        return kept("not measured")
    if asked and not is_named:
        if not uses[0].failed or uses[0].amount < NEAR * asked:
            return kept("no application")
        uses, largest, failed = uses[:1], 0.0, uses[0].amount
    few = _too_few(uses, has_request=asked > 0.0)
    if few and asked and not failed and largest <= asked:
        return kept(few)
    need = need() if callable(need) else need
    if need.amount is None:
        return kept("no forecast")
    least = _after_failures(uses, asked, failed, largest) if failed else 0.0
    if few or need.by_facts:
        amount = max(need.amount, largest if few else 0.0, 0.0 if need.by_facts else least)
    else:
        amount = _within_evidence(resource, asked, uses, need.amount, largest, has_failed=failed > 0.0)
        amount = _upheld(max(amount, least), need, uses[:LOOKED_AT], step)
        if len({use.burst for use in uses}) < MANY:
            amount = max(amount, min(asked, largest * (LONGEST if len(uses) < MANY else 1.0)))
    if amount > asked > 0.0 and not need.by_facts:
        near = sum(use.amount >= NEAR * asked for use in uses[:LOOKED_AT])
        has_ended_near = failed >= NEAR * asked or near > MAY_EXCEED * min(len(uses), LOOKED_AT)
        if not (has_ended_near if resource == "runtime" else max(largest, least) > asked):
            return kept("enough requested")
    rounded = min(_up(amount, step), most)
    if rounded < asked:
        is_wide = not failed and largest <= HALF * asked
        likely = LIKELY if resource == "memory" or is_wide else 1.0 - MAY_EXCEED
        if few or need.share(rounded) < likely:
            return kept(few or "forecast higher")
    if amount * (1.0 - 1e-9) <= asked <= max(rounded, amount):
        return kept("as requested")
    is_alike = uses[0].is_alike
    enough = None if few or not is_alike or rounded < amount else need.share(rounded)
    if source := "facts" if need.by_facts else few if is_alike else "other processors":
        return Decision(rounded, enough, len(uses), estimated_from=source)
    limits = (asked, rounded) if enough is not None and 0.0 < asked < rounded else ()
    return Decision(rounded, enough, len(uses), steps=tuple((limit, count_enough([(uses, limit)])) for limit in limits))


def _too_few(uses: Sequence[Use], *, has_request: bool) -> Kept | None:
    """Return why these jobs cannot lower a request; None if they can."""
    if len(uses) < LEAST_JOBS:
        return "few jobs"
    if len({use.burst for use in uses}) == 1:
        return "one burst"
    # Memory does not grow evenly with the processors, and run time does not fall so.
    return "other processors" if has_request and not uses[0].is_alike else None


def together(decisions: Mapping[Resource, Decision], uses: Mapping[Resource, Sequence[Use]]) -> Enough | None:
    """Count the similar jobs for which all recommendations were enough; None without sufficient evidence."""
    changed = {resource: decision for resource, decision in decisions.items() if decision.amount is not None}
    if not changed or any(one.enough is None or one.estimated_from for one in changed.values()):
        return None
    found = count_enough([(uses[resource], decision.amount or 0.0) for resource, decision in changed.items()])
    return found if found.jobs >= LEAST_JOBS else None


def count_enough(amounts: Sequence[tuple[Sequence[Use], float]]) -> Enough:
    """Count the latest jobs whose use of every resource is known, and those for which every amount was enough.

    What a job that ran out of less would have used is unknown: it does not count.
    """
    runs = set.intersection(*({use.run for use in uses[:LOOKED_AT]} for uses, _ in amounts))
    beyond = {use.run for uses, amount in amounts for use in uses if not _fits(use, amount)}
    unknown = {use.run for uses, _ in amounts for use in uses if use.failed} - beyond
    return Enough(len(runs - beyond - unknown), len(runs - unknown))


def _after_failures(uses: Sequence[Use], asked: float, failed: float, largest: float) -> float:
    """Return the least amount to try after failures.

    A quarter more than the failed amount, ``AGAIN`` times that if it failed again; at most the request, unless that
    failed.
    """
    least = failed * MORE_THAN_FAILED
    if len(uses) > 1 and uses[0].failed and uses[1].failed and uses[0].amount > uses[1].amount:
        least *= AGAIN
    if failed <= largest:
        least = min(least, MORE_THAN_FAILED * largest)
    return min(least, asked) if failed < asked else least


def _within_evidence(
    resource: Resource, asked: float, uses: Sequence[Use], amount: float, largest: float, *, has_failed: bool
) -> float:
    """Limit a forecast by the use of similar jobs: neither far above it, nor below the use of many."""
    if resource == "runtime" and largest:
        amount = min(amount, LONGEST * largest)
    if not has_failed and amount >= asked > 0.0:
        amount = min(amount, max(MARGIN * largest, asked if largest > HALF * asked else 0.0))
    if asked and (has_failed or largest > asked):
        latest = uses[:LOOKED_AT]
        above = [use.amount for use in latest if use.amount > asked]
        if len(above) > MAY_EXCEED * len(latest):
            amount = max(amount, min(above))
    return amount


def _fits(use: Use, amount: float) -> bool:
    return use.amount < amount if use.failed else use.amount <= amount


def _share_within(uses: Sequence[Use], amount: float) -> float:
    """Return the share of jobs for which this amount was enough, each burst counting once."""
    beyond = [use.burst for use in uses if not _fits(use, amount)]
    if not beyond:
        return 1.0
    jobs = Counter([use.burst for use in uses])
    return 1.0 - math.fsum([1.0 / jobs[burst] for burst in beyond]) / len(jobs)


def _upheld(amount: float, need: Need, uses: Sequence[Use], step: float) -> float:
    """Raise an amount until the jobs do not refute that it is enough for the stated share, and for nearly all."""
    more = [use.amount * (MORE_THAN_FAILED if use.failed else 1.0) for use in uses if not _fits(use, amount)]
    bursts = len({use.burst for use in uses}) if more else 0
    for raised in (amount, *sorted(more)):
        amount = max(amount, raised)
        tried = _up(amount, step)
        share = _share_within(uses, tried)
        stated = max(need.share(tried), 1.0 - MAY_EXCEED)
        if share >= stated and len(more) <= BEYOND_AT_MOST * len(uses):
            break
        beyond = sum(not _fits(use, tried) for use in uses)
        if beyond <= BEYOND_AT_MOST * len(uses) and not refuted(share * bursts, bursts, stated):
            break
    return amount


def _up(amount: float, step: float) -> float:
    """Round up to a multiple of ``step``, ignoring rounding errors."""
    return math.ceil(amount / step - 1e-9) * step


def refuted(within: float, jobs: int, stated: float) -> bool:
    """Return whether ``within`` of ``jobs`` are too few for the ``stated`` share (binomial, one-sided).

    A job that counts in part is not within.

    >>> refuted(67, 100, 0.88), refuted(92, 100, 0.95)
    (True, False)
    """
    if within >= jobs * stated:
        return False
    whole = math.floor(within + 1e-9)
    share = min(max(stated, 1e-12), 1.0 - 1e-12)
    log_odds, log_none = math.log(share) - math.log1p(-share), jobs * math.log1p(-share)
    ways = [math.lgamma(k + 1) + math.lgamma(jobs - k + 1) for k in range(whole + 1)]
    chances = [math.exp(math.lgamma(jobs + 1) - way + k * log_odds + log_none) for k, way in enumerate(ways)]
    return math.fsum(chances) < DOUBT
