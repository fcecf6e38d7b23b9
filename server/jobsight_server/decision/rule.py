"""The rule for what to request: the only place that decides.

Memory: the largest use of similar runs with a margin that shrinks with their number. Time limits stay, but for clear
cases: a shorter one frees nothing by itself, and kills.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jobsight_server.decision.by_size import need_by_size
from jobsight_server.decision.evidence import SAME, Evidence, Resource, Runs, Shape, Similar, similar_runs
from jobsight_server.ground.amounts import MIB
from jobsight_server.ground.facts import KEEP

MARGIN, MARGIN_AT = 0.15, 0.95
"""Share added to the largest use of one burst, of n bursts this over the square root of n, for a target of .95 of the
jobs; for other targets in proportion to the logarithm of the share that may need more."""

LEAST_RUNS, LEAST_BURSTS = 3, 2
"""Runs whose use is known exactly, and their bursts, needed to lower a memory request."""

MORE, AGAIN = 1.5, 2.0
"""Factors on an amount that failed, and if the last two runs ran out."""

NEARLY = 0.9
"""Share of a request that a run must have run out of for a larger one."""

FEW = 5
"""With fewer exact runs, the amount for a job without a request is only an estimate."""

SHORTER_RUNS, SHORTER_BURSTS, SHORTER = 20, 5, 2.0
"""Runs and bursts needed for a shorter time limit, which is at least this multiple of the longest."""

LAST_RUNS, ABOUT = 5, 1.1
"""A longer limit needs a kill among so many last runs, with a limit within this factor."""

PAST, GRACE_S = 1.1, 300.0
"""Factor and seconds beyond its limit at which a run that completed proves that limits are not enforced: schedulers
look at times at intervals, and some give minutes of grace."""

GIB, HOUR_S = 1024.0 * MIB, 3600.0

Kept = Literal[
    "not measured",
    "other requests",
    "no application",
    "few runs",
    "other processors",
    "ran out",
    "unproven",
    "larger",
    "enough requested",
    "as requested",
    "time",
    "time not enforced",
    "kept",
]
"""Reasons to keep the request."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A site's limits: the ``floor`` of lowered requests, the ``most`` that a request can be, and the target
    ``coverage``, a fraction of jobs. ``enforced``: jobs that use more than they requested are killed."""

    floor: float = 0.0
    most: float = math.inf
    coverage: float = MARGIN_AT
    enforced: bool = True

    @property
    def margin(self) -> float:
        """Return the margin of one burst."""
        return MARGIN * math.log(1.0 - self.coverage) / math.log(1.0 - MARGIN_AT)


@dataclass(frozen=True, slots=True)
class Decision:
    """The request for one resource, for the whole job; ``amount`` None: the request, or nothing, for this reason.

    ``similar``: the runs behind it. ``then``: the next request if a job with this one runs out. ``is_estimate``: too
    few runs, or other ones, are behind it. ``shorter``: a time limit for the user to decide on: programs keep the
    request, since a shorter one frees nothing by itself, and kills.
    """

    amount: float | None
    similar: Similar
    kept: Kept | None = None
    then: float | None = None
    is_estimate: bool = False
    shorter: float | None = None


def decide(
    resource: Resource,
    evidence: Evidence,
    job: Shape,
    forecast: float | None,
    limits: Limits,
    *,
    is_named: bool = True,
    is_kept: bool = False,
    is_unproven: bool = False,
) -> Decision:
    """Decide a job's request by the earlier runs of its application, all of the whole job.

    ``forecast``: its reservation, for a job without a request. A job whose application is unknown, not ``is_named``,
    may be of any: its request is kept unless its user's last run of that kind ran out. ``is_kept``: the site
    or the user wants its request unchanged. ``is_unproven``: such a job was lowered, and its end is not known yet.
    """
    asked, similar = job.asked(resource), similar_runs(evidence.rows, job, enforced=limits.enforced)
    if asked and (is_kept or KEEP in dict(job.facts)):
        return Decision(None, similar, "kept")
    if not asked:
        return _without_request(resource, similar, forecast, limits)
    if not similar.rows:
        return Decision(None, similar, "other requests" if evidence.rows else "not measured")
    found = _memory(similar, job, limits) if resource == "memory" else _runtime(similar, job, limits)
    other = found.amount or found.shorter or asked
    if is_unproven and other < asked:
        return Decision(None, similar, "unproven")
    if not is_named and (other < asked or (other > asked and similar.rows[0].since)):
        return Decision(None, similar, "no application")
    return found


def readable(resource: Resource, amount: float) -> float:
    """Round up to what a person would write: two digits of MiB, whole GiB from 10 on; minutes, from an hour on ten,
    from a day on hours.

    >>> [readable("memory", mib * MIB) / MIB for mib in (87.2, 683, 1025, 20481)]
    [88.0, 690.0, 1100.0, 21504.0]
    >>> [readable("runtime", seconds) / 60 for seconds in (61, 3700, 90_000)]
    [2.0, 70.0, 1500.0]
    """
    if resource == "runtime":
        step = 60.0 if amount <= HOUR_S else 10.0 * 60.0 if amount <= 24.0 * HOUR_S else HOUR_S
    elif amount > 9900.0 * MIB:
        step = GIB
    else:
        step = MIB * (1.0 if amount <= 100.0 * MIB else 10.0 if amount <= 1000.0 * MIB else 100.0)
    return math.ceil(amount / step - 1e-9) * step


def _without_request(resource: Resource, similar: Similar, forecast: float | None, limits: Limits) -> Decision:
    known, failed = similar.known, max([row.failed_at for row in similar.rows], default=0.0)
    amount = max(forecast or (known.largest if known else 0.0), MORE * failed)
    if not amount:
        return Decision(None, similar, "not measured")
    chosen = min(readable(resource, max(amount, limits.floor)), limits.most)
    then = min(readable(resource, MORE * chosen), limits.most)
    return Decision(chosen, similar, then=then, is_estimate=similar.exact < FEW)


def _memory(similar: Similar, job: Shape, limits: Limits) -> Decision:
    asked, last, failed = job.memory_bytes, similar.rows[0], max([row.failed_at for row in similar.rows])

    def kept(why: Kept) -> Decision:
        return Decision(None, similar, why)

    if any(0.0 < row.failed_at < SAME * asked for row in similar.rows if row.burst == last.burst):
        return kept("ran out")
    largest = max(
        [
            max(similar.most_of(row), row.at_least) * max(1.0, job.processors / row.shape.processors)
            for row in similar.rows
        ]
    )
    if not similar.exact and not failed and largest <= asked:
        return kept("not measured")
    margin = 1.0 + limits.margin / math.sqrt(max(1, similar.bursts))
    # Of a single burst, the small ones end first.
    is_sized = job.facts and similar.bursts >= LEAST_BURSTS
    sized = need_by_size(similar.rows, job.facts) if is_sized else None
    if sized is not None:
        amount = sized.need * margin
        if sized.is_beyond and amount < asked:
            return kept("larger")
    else:
        amount = largest * margin
        if failed >= SAME * largest:
            amount = max(amount, _after_failures(similar.rows))
    if amount < asked:
        return _lowered(similar, job, min(readable("memory", max(amount, limits.floor)), limits.most))
    if amount * SAME <= asked:
        return kept("as requested")
    is_needed = failed >= NEARLY * asked or (not limits.enforced and largest * SAME > asked)
    if not is_needed and (sized is None or sized.need * SAME <= asked):
        return kept("enough requested")
    chosen = min(readable("memory", amount), limits.most)
    then = min(readable("memory", AGAIN * chosen), limits.most)
    return Decision(chosen, similar, then=then, is_estimate=not similar.is_alike or not similar.exact)


def _after_failures(rows: Sequence[Runs]) -> float:
    """Return the least amount to try after the runs that ran out."""
    last = rows[0]
    twice = not last.since and (last.failed > 1 or any(row.failed for row in rows[1:2]))
    return max(row.failed_at for row in rows) * (AGAIN if twice else MORE)


def _lowered(similar: Similar, job: Shape, amount: float) -> Decision:
    """Lower the request if enough runs that asked for at least as much are known."""
    if amount > SAME * job.memory_bytes:
        return Decision(None, similar, "as requested")
    if not similar.is_alike:
        return Decision(None, similar, "other processors")
    least = SAME * job.memory_bytes
    if not _are_enough(similar, [row.shape.memory_bytes for row in similar.rows], least, LEAST_RUNS, LEAST_BURSTS):
        return Decision(None, similar, "few runs")
    return Decision(amount, similar, then=job.memory_bytes)


def _are_enough(similar: Similar, asked: Sequence[float], least: float, runs: int, bursts: int) -> bool:
    """Return whether enough runs and bursts that asked for at least that much, or for nothing, are known exactly."""
    rows = [row for row, of in zip(similar.rows, asked, strict=True) if row.exact and (not of or of >= least)]
    return sum([row.exact for row in rows]) >= runs and len({row.burst for row in rows}) >= bursts


def _runtime(similar: Similar, job: Shape, limits: Limits) -> Decision:
    asked, killed, at = job.walltime_s, 0, 0.0
    if similar.failed:
        about = [row for row in similar.rows if _is_about(row.shape.walltime_s or row.failed_at, asked)]
        killed, at = _last_killed(about)
    if killed:
        amount = min(readable("runtime", (AGAIN if killed > 1 else MORE) * max(at, asked)), limits.most)
        if amount > asked:
            then = min(readable("runtime", AGAIN * amount), limits.most)
            return Decision(amount, similar, then=then, is_estimate=not similar.is_alike)
        return Decision(None, similar, "as requested")
    known = similar.known
    why: Kept = "time" if similar.failed or (limits.enforced and not _ran_past(similar)) else "time not enforced"
    if not similar.is_alike or similar.failed or known is None or not known.most:
        return Decision(None, similar, why)
    limits_asked = [row.shape.walltime_s for row in similar.rows]
    amount = readable("runtime", max(SHORTER * known.most, limits.floor))
    if amount > SAME * asked or not _are_enough(similar, limits_asked, SAME * asked, SHORTER_RUNS, SHORTER_BURSTS):
        return Decision(None, similar, why)
    return Decision(None, similar, why, shorter=amount)


def _ran_past(similar: Similar) -> bool:
    """Return whether a run went on far beyond its own limit."""
    limits = [(row, row.shape.walltime_s) for row in similar.rows if row.exact]
    return any(limit and row.most > PAST * limit + GRACE_S for row, limit in limits)


def _is_about(limit: float, asked: float) -> bool:
    return max(limit, asked) <= ABOUT * min(limit, asked)


def _last_killed(rows: Sequence[Runs]) -> tuple[int, float]:
    """Return how many of the last runs were killed for time, and the longest limit that failed."""
    killed, at, left = 0, 0.0, LAST_RUNS
    for row in sorted(rows, key=lambda row: row.end, reverse=True):
        if row.failed and row.since < left:
            killed += min(row.failed, left - row.since)
            at = max(at, row.failed_at)
        left -= row.runs
        if left <= 0:
            break
    return killed, at
