"""The fast form of run-time risk: each job's start and end as equally likely scenarios, without convolution.

Each job has a random permutation of evenly spaced quantiles of its run time. A start is the elementwise maximum of the
predecessors' ends, an end the start plus the run time, both cut as in the exact form. Error: docs/overbooking.md.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from jobsight_predictor.forecasters import Floats

from .accuracy import BINS, RuntimeAccuracy

SCENARIOS = 256

_QUANTILES = (np.arange(SCENARIOS) + 0.5) / SCENARIOS


@lru_cache(maxsize=10_000)
def scenario_order(job: int) -> Floats:
    """The job's quantiles in an order of its own, shape (SCENARIOS,), read-only; the same for the same number."""
    order = np.random.default_rng([SCENARIOS, job & (2**63 - 1)]).permutation(_QUANTILES)
    order.setflags(write=False)
    return order


def ends_of_running(
    order: Floats, started_h: float, requested_h: float, end_h: float, now_h: float, accuracy: RuntimeAccuracy
) -> Floats:
    """Ends of a job that still runs at ``now_h``, shape (SCENARIOS,)."""
    rest = accuracy.after((now_h - started_h) / requested_h)
    return np.minimum(started_h + requested_h * rest.quantiles(order), end_h)


def ends_of_waiting(starts_h: Floats | float, runs_h: Floats, end_h: float) -> Floats:
    """Ends of a job that starts at ``starts_h`` and has run times ``runs_h``, shape (SCENARIOS,)."""
    ends = starts_h + runs_h
    return np.minimum(ends, end_h, out=ends)


def executable_by_scenarios(
    starts_h: Floats | float, window_end_h: float, requested_h: float, accuracy: RuntimeAccuracy
) -> float:
    """P_executable as the mean over the starts of G((w - start) / requested), G read at the nearest 1 %."""
    if isinstance(starts_h, float):
        return float(accuracy.within((window_end_h - starts_h) / requested_h))
    percent = starts_h * (-BINS / requested_h)
    percent += window_end_h * (BINS / requested_h) + 0.5  # truncation rounds to the nearest
    return float(accuracy.cdf.take(percent.astype(np.intp), mode="clip").sum()) / len(percent)
