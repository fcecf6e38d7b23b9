"""Jobsight's bounds beside another rule's, at no more failures than that rule had."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from typing import TypedDict

import numpy as np

from .forecasters import Floats
from .reservations import cost

TRIES = 6
SAFEST = 0.9999
MARGIN = 0.02
"""Aimed this much below the rival's failures, in logarithms: bounds keep their target on the whole, not to the job."""


class AtItsFailures(TypedDict):
    """Jobsight's bounds at `target`, over the jobs that the rival reserved for."""

    target: float
    failures: int
    maq: float
    rival_failures: int
    rival_maq: float
    jobs: int


def at_its_failures(
    reserved: Floats, values: Floats, seconds: Floats, bounds_at: Callable[[float], Floats]
) -> AtItsFailures | None:
    """The target coverage at which Jobsight fails no more often than the rival that reserved `reserved`, and the cost.

    All arrays (n,), NaN where nothing was reserved; `bounds_at(target)` replays Jobsight's bounds. Failures and MAQ
    are of the jobs for which both reserved. Starts at the rival's own coverage; then, failures being much like a
    power of the share allowed to fail, goes on by secants, at most `TRIES` replays in all. Where none failed as
    seldom as the rival, the one that came closest; None where the rival reserved nothing.
    """
    rival = cost(reserved, values, seconds)
    if rival is None:
        return None
    allowed = 1.0 - rival.coverage
    best: AtItsFailures | None = None
    slope = 1.0
    before: tuple[float, float] | None = None
    for _ in range(TRIES):
        allowed = min(SAFEST, max(1.0 - SAFEST, allowed))
        bounds = bounds_at(1.0 - allowed)
        both = ~np.isnan(reserved) & ~np.isnan(bounds)
        theirs = cost(reserved[both], values[both], seconds[both])
        ours = cost(bounds[both], values[both], seconds[both])
        if theirs is None or ours is None:
            return None
        tried = AtItsFailures(
            target=1.0 - allowed,
            failures=ours.failures,
            maq=ours.maq,
            rival_failures=theirs.failures,
            rival_maq=theirs.maq,
            jobs=ours.jobs,
        )
        if best is None or _merit(tried) > _merit(best):
            best = tried
        if 0.9 * theirs.failures <= ours.failures <= theirs.failures:
            break
        at, wanted = log(max(ours.failures, 0.5)), log(max(theirs.failures, 0.5)) - MARGIN
        if before is not None and before[0] != log(allowed) and before[1] != at:
            slope = max(0.1, (at - before[1]) / (log(allowed) - before[0]))
        before = (log(allowed), at)
        allowed *= exp((wanted - at) / slope)
    return best


def _merit(tried: AtItsFailures) -> tuple[int, float]:
    """Fewest failures beyond the rival's first, then MAQ."""
    return (min(0, tried["rival_failures"] - tried["failures"]), tried["maq"])
