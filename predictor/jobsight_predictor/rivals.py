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
    reserved: Floats, values: Floats, seconds: Floats, bounds_at: Callable[[float], Floats], first: float
) -> AtItsFailures | None:
    """The target coverage at which Jobsight fails no more often than the rival that reserved `reserved`, and the cost.

    All arrays (n,), NaN where nothing was reserved; `bounds_at(target)` replays Jobsight's bounds. Failures and MAQ
    are of the jobs for which both reserved. The `first` target will do where it fails no more often and has the
    higher MAQ; else the search goes on at the rival's own coverage and, failures being much like a power of the share
    allowed to fail, by secants, at most `TRIES` replays in all. Where none failed as seldom as the rival, the one that
    came closest; None where the rival reserved nothing.
    """
    rival = cost(reserved, values, seconds)
    if rival is None:
        return None
    best = before = _tried(first, reserved, values, seconds, bounds_at)
    target = min(SAFEST, max(1.0 - SAFEST, rival.coverage))
    slope = 1.0
    for _ in range(TRIES - 1):
        if best is None or before is None or target == before["target"]:
            break
        if _as_seldom(best) and (best["maq"] > best["rival_maq"] or best["failures"] >= 0.9 * best["rival_failures"]):
            break
        tried = _tried(target, reserved, values, seconds, bounds_at)
        if tried is None:
            break
        if _merit(tried) > _merit(best):
            best = tried
        run = log(1.0 - target) - log(1.0 - before["target"])
        if tried["failures"] != before["failures"]:
            slope = max(0.1, (_log(tried["failures"]) - _log(before["failures"])) / run)
        before = tried
        aim = _log(tried["rival_failures"]) - MARGIN - _log(tried["failures"])
        target = min(SAFEST, max(1.0 - SAFEST, 1.0 - (1.0 - target) * exp(aim / slope)))
    return best


def _tried(
    target: float, reserved: Floats, values: Floats, seconds: Floats, bounds_at: Callable[[float], Floats]
) -> AtItsFailures | None:
    bounds = bounds_at(target)
    both = ~np.isnan(reserved) & ~np.isnan(bounds)
    theirs = cost(reserved[both], values[both], seconds[both])
    ours = cost(bounds[both], values[both], seconds[both])
    if theirs is None or ours is None:
        return None
    return AtItsFailures(
        target=target,
        failures=ours.failures,
        maq=ours.maq,
        rival_failures=theirs.failures,
        rival_maq=theirs.maq,
        jobs=ours.jobs,
    )


def _as_seldom(tried: AtItsFailures) -> bool:
    return tried["failures"] <= tried["rival_failures"]


def _log(failures: int) -> float:
    return log(max(failures, 0.5))


def _merit(tried: AtItsFailures) -> tuple[int, float]:
    """Fewest failures beyond the rival's first, then MAQ."""
    return (min(0, tried["rival_failures"] - tried["failures"]), tried["maq"])
