"""Compares Jobsight's bounds with a baseline at no more failures than the baseline's."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from typing import TypedDict

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.evaluation.cost import reservation_cost

TRIES = 6  # limit on replays
SAFEST = 0.9999  # share; the highest target tried
MARGIN = 0.02  # log failures; margin below the baseline's, as bounds do not meet their target exactly
NEARLY = 0.9  # share; tolerance, relative to the baseline's failures
FLATTEST = 0.1  # log failures per log share; least slope of secants
NONE = 0.5  # failures; replaces 0 in logarithms


class AtEqualFailures(TypedDict):
    """Jobsight's bounds at ``target``, over the jobs that the baseline reserved for."""

    target: float
    failures: int
    maq: float
    baseline_failures: int
    baseline_maq: float
    jobs: int


def at_equal_failures(
    reserved: Floats, values: Floats, seconds: Floats, bounds_at: Callable[[float], Floats], first: float
) -> AtEqualFailures | None:
    """Find the target coverage at which Jobsight fails no more often than the baseline ``reserved``, and the cost.

    Arrays (n,), NaN without a reservation; ``bounds_at(target)`` replays Jobsight's bounds. Failures and MAQ are over
    the jobs for which both reserved. The ``first`` target is used if it fails no more often and has the higher MAQ.
    Otherwise the search continues at the baseline's own coverage and then by secants, since failures are nearly a power
    of the share allowed to fail, with at most ``TRIES`` replays. Returns the closest one if all fail more often than
    the baseline, None if the baseline reserved nothing.
    """
    baseline = reservation_cost(reserved, values, seconds)
    if baseline is None:
        return None
    best = before = _tried(first, reserved, values, seconds, bounds_at)
    target = min(SAFEST, max(1.0 - SAFEST, baseline.coverage))
    slope = 1.0
    for _ in range(TRIES - 1):
        if best is None or before is None or target == before["target"]:
            break
        if best["failures"] <= best["baseline_failures"] and (
            best["maq"] > best["baseline_maq"] or best["failures"] >= NEARLY * best["baseline_failures"]
        ):
            break
        tried = _tried(target, reserved, values, seconds, bounds_at)
        if tried is None:
            break
        if _merit(tried) > _merit(best):
            best = tried
        run = log(1.0 - target) - log(1.0 - before["target"])
        if tried["failures"] != before["failures"]:
            slope = max(FLATTEST, (_log(tried["failures"]) - _log(before["failures"])) / run)
        before = tried
        aim = _log(tried["baseline_failures"]) - MARGIN - _log(tried["failures"])
        target = min(SAFEST, max(1.0 - SAFEST, 1.0 - (1.0 - target) * exp(aim / slope)))
    return best


def _tried(
    target: float, reserved: Floats, values: Floats, seconds: Floats, bounds_at: Callable[[float], Floats]
) -> AtEqualFailures | None:
    bounds = bounds_at(target)
    both = ~np.isnan(reserved) & ~np.isnan(bounds)
    theirs = reservation_cost(reserved[both], values[both], seconds[both])
    ours = reservation_cost(bounds[both], values[both], seconds[both])
    if theirs is None or ours is None:
        return None
    return AtEqualFailures(
        target=target,
        failures=ours.failures,
        maq=ours.maq,
        baseline_failures=theirs.failures,
        baseline_maq=theirs.maq,
        jobs=ours.jobs,
    )


def _log(failures: int) -> float:
    return log(max(failures, NONE))


def _merit(tried: AtEqualFailures) -> tuple[int, float]:
    """Rank by fewest failures beyond the baseline's, then by MAQ."""
    return (min(0, tried["baseline_failures"] - tried["failures"]), tried["maq"])
