"""Decides what a job should request of one resource, by what similar jobs used of it: the only place that does.

Forecasts say what such a job needs. The decision holds that against the similar jobs that its sentence names, so that
nothing is recommended beyond their evidence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple

LEAST_JOBS = 5
LEAST_BURSTS = 2
"""Similar jobs, and bursts of them, below which no request is lowered."""

LOOKED_AT = 100
"""The latest similar jobs, by which it is checked for how many of them an amount is enough."""

DOUBT = 0.05
"""Jobs refute a stated share if so few of them would be within it with a lower probability than this."""

MAY_EXCEED = 0.05
"""Share of similar jobs that may have used more than a request that is not raised, or than what is recommended."""

BEYOND_AT_MOST = 1.0 / 3.0
"""Share of similar jobs that may have used more, even if most of these are of one burst."""

MORE_THAN_FAILED = 1.25
"""Factor on an amount that failed."""
AGAIN = 4.0
IN_A_ROW = 3
"""Factor on it for each failure in a row after the amount was raised, and the failures that count, at most."""

LIKELY = 0.5
"""Share of jobs that a lowered request must be enough for by the forecast, which also knows reported failures. A run
time must be enough for all but ``MAY_EXCEED``, unless no job failed or used more than ``HALF`` of the request."""

LONGEST = 1.25
"""Limit of a recommended run time, as a multiple of the longest similar run."""

MANY = 20
"""Similar jobs below which no request is lowered to less than ``LONGEST`` times the largest use: the next may exceed
that more often than the forecast says."""

NEAR = 0.9
"""Share of a time limit that a similar job must have reached for a longer one; of memory, it must have used more."""

MARGIN = 1.5
HALF = 0.5
"""Where no job failed, at most ``MARGIN`` times the largest use is recommended above a request; below it, where no job
used more than ``HALF`` of it."""

Resource = Literal["memory", "runtime"]

Kept = Literal[
    "not measured",
    "no forecast",
    "no application",
    "few jobs",
    "one burst",
    "forecast higher",
    "enough requested",
    "as requested",
]
"""Why nothing but the request is recommended."""


class Use(NamedTuple):
    """A similar job's use, or its limit when it ``failed``; ``burst`` numbers the jobs submitted together."""

    amount: float
    burst: int
    failed: bool = False


class Need(NamedTuple):
    """A forecast: what to reserve where no request limits it, and ``steps``, ascending: amounts with the share of such
    jobs that each is enough for. ``by_facts`` of the job, which tell it from similar jobs."""

    amount: float | None
    steps: Sequence[tuple[float, float]] = ()
    by_facts: bool = False

    def share(self, amount: float) -> float:
        """Return the share of such jobs that this amount is enough for, at least."""
        return max((share for step, share in self.steps if step <= amount * (1.0 + 1e-9)), default=0.0)


@dataclass(frozen=True, slots=True)
class Decision:
    """The request for one resource, for the whole job; ``amount`` None: the request, or nothing, for this reason.

    ``enough``: the share of jobs that the amount is enough for, None where the evidence is too little to say.
    ``similar``: the similar jobs with a measured use; ``largest``: the most that one of them used, 0 for none.
    ``steps``: where more than requested is recommended, both amounts with the share of the latest jobs within them,
    where each burst counts once.
    """

    amount: float | None
    enough: float | None
    similar: int
    largest: float
    kept: Kept | None = None
    steps: tuple[tuple[float, float], ...] = ()


def decide(
    resource: Resource,
    requested: float | None,
    uses: Sequence[Use],
    need: Need,
    step: float,
    most: float = math.inf,
    *,
    is_named: bool = True,
) -> Decision:
    """Decide by the ``uses`` of similar jobs, the latest first, and the forecast ``need``.

    The amount is a multiple of ``step`` and at most ``most``. A job of an unknown application, not ``is_named``, may
    differ from all others of its user: its request says more about it.
    """
    asked, largest = requested or 0.0, _largest(uses, failed=False)

    def kept(why: Kept) -> Decision:
        return Decision(None, None, len(uses), largest, why)

    if not uses or need.amount is None:
        return kept("no forecast" if uses else "not measured")
    few: Kept | None = None
    if len({use.burst for use in uses}) < LEAST_BURSTS:
        few = "one burst"
    if len(uses) < LEAST_JOBS:
        few = "few jobs"
    if not is_named:
        few = "no application"
    least, has_failed = _after_failures(uses, asked), any(use.failed for use in uses)
    if asked and not has_failed and largest <= asked and few:
        return kept(few)
    amount = need.amount if few or need.by_facts else _within_evidence(resource, asked, uses, need.amount)
    if not need.by_facts:
        amount = max(amount, least)
    if few:
        amount = max(amount, largest)
    elif not need.by_facts:
        amount = _upheld(amount, need, uses[:LOOKED_AT], step)
        if len(uses) < MANY:
            amount = max(amount, min(asked, LONGEST * largest))
    if resource == "runtime":
        is_too_little = max(use.amount for use in uses) >= NEAR * asked
    else:
        is_too_little = max(largest, least) > asked
    if amount > asked > 0.0 and not (is_too_little or need.by_facts):
        return kept("enough requested")
    rounded = min(_up(amount, step), most)
    is_wide = not has_failed and largest <= HALF * asked
    likely = LIKELY if resource == "memory" or is_wide else 1.0 - MAY_EXCEED
    if rounded < asked and not few and need.share(rounded) < likely:
        return kept("forecast higher")
    if few and rounded < asked:
        return kept(few)
    if amount * (1.0 - 1e-9) <= asked <= max(rounded, amount):
        return kept("as requested")
    enough = None if few or rounded < amount else need.share(rounded)
    decision = Decision(rounded, enough, len(uses), largest)
    if enough is None or not 0.0 < asked < rounded:
        return decision
    latest = uses[:LOOKED_AT]
    return replace(decision, steps=tuple((limit, _share_within(latest, limit)) for limit in (asked, rounded)))


def together(decisions: Mapping[Resource, Decision], uses: Mapping[Resource, Sequence[Use]]) -> float | None:
    """Return the share of jobs that everything recommended is enough for; None without a recommendation that says.

    The product for independent resources, or what similar jobs show where they refute it.
    """
    changed = {resource: decision for resource, decision in decisions.items() if decision.amount is not None}
    shares = [decision.enough for decision in changed.values() if decision.enough is not None]
    if not changed or len(shares) < len(changed):
        return None
    stated = math.prod(shares)
    latest = {resource: uses[resource][:LOOKED_AT] for resource in changed}
    beyond = sum(
        1.0 - _share_within(latest[resource], decision.amount or 0.0) for resource, decision in changed.items()
    )
    bursts = min(len({use.burst for use in some}) for some in latest.values())
    within = max(0.0, 1.0 - beyond)
    return within if refuted(within * bursts, bursts, stated) else stated


def _largest(uses: Sequence[Use], *, failed: bool) -> float:
    return max((use.amount for use in uses if use.failed == failed), default=0.0)


def _after_failures(uses: Sequence[Use], asked: float) -> float:
    """Return the least amount to try after failures; 0 without failures.

    What failed and a quarter more, ``AGAIN`` times that for each of the latest jobs that failed with more than the
    failed one before it; at most the request, unless that failed.
    """
    failed, largest = _largest(uses, failed=True), _largest(uses, failed=False)
    raised = takewhile(
        lambda pair: pair[0].failed and pair[1].failed and pair[0].amount > pair[1].amount, pairwise(uses)
    )
    least = failed * MORE_THAN_FAILED * AGAIN ** min(len(list(raised)), IN_A_ROW)
    if failed <= largest:
        least = min(least, MORE_THAN_FAILED * largest)
    return min(least, asked) if failed < asked else least


def _within_evidence(resource: Resource, asked: float, uses: Sequence[Use], amount: float) -> float:
    """Limit what a forecast says by what similar jobs used: neither far beyond it, nor below what many used."""
    largest, has_failed = _largest(uses, failed=False), any(use.failed for use in uses)
    if resource == "runtime" and largest:
        amount = min(amount, LONGEST * largest)
    if not has_failed and (largest <= HALF * asked <= HALF * amount or amount > asked > 0.0):
        amount = min(amount, max(MARGIN * largest, asked if largest > HALF * asked else 0.0))
    latest = uses[:LOOKED_AT]
    above = [use.amount for use in latest if use.amount > asked]
    if asked and len(above) > MAY_EXCEED * len(latest):
        amount = max(amount, min(above))
    return amount


def _fits(use: Use, amount: float) -> bool:
    return use.amount < amount if use.failed else use.amount <= amount


def _share_within(uses: Sequence[Use], amount: float) -> float:
    """Return the share of the jobs that this amount was enough for, where each burst counts once."""
    jobs = Counter(use.burst for use in uses)
    return 1.0 - math.fsum(1.0 / jobs[use.burst] for use in uses if not _fits(use, amount)) / len(jobs)


def _upheld(amount: float, need: Need, uses: Sequence[Use], step: float) -> float:
    """Raise an amount until the jobs do not refute that it is enough for the stated share, and for nearly all."""
    bursts = len({use.burst for use in uses})
    more = [use.amount * (MORE_THAN_FAILED if use.failed else 1.0) for use in uses if not _fits(use, amount)]
    for raised in (amount, *sorted(more)):
        amount = max(amount, raised)
        tried = _up(amount, step)
        stated = max(need.share(tried), 1.0 - MAY_EXCEED)
        beyond = sum(not _fits(use, tried) for use in uses)
        if beyond <= BEYOND_AT_MOST * len(uses) and not refuted(_share_within(uses, tried) * bursts, bursts, stated):
            break
    return amount


def _up(amount: float, step: float) -> float:
    """Round up to a multiple of ``step``, but not for what a float lost."""
    return math.ceil(amount / step - 1e-9) * step


def refuted(within: float, jobs: int, stated: float) -> bool:
    """Return whether ``within`` of so many jobs are too few to believe the ``stated`` share (binomial, one-sided).

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
