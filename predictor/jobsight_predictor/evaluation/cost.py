"""The cost of reservations (docs/use/definitions.md, Reservations)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.forecasters.base import LARGEST
from jobsight_predictor.profile.reserve import RETRIES


@dataclass(frozen=True, slots=True)
class ReservationCost:
    """``failures``: jobs, of ``jobs``, whose first reservation was too small; ``maq``: used share of all reservations.

    MAQ (memory allocation quality, Witt et al. 2019) is used / (used + wasted), in value x seconds, the failed
    attempts included; ``wasted`` is in value x seconds.
    """

    jobs: int
    failures: int
    coverage: float
    wasted: float
    maq: float


def reservation_cost(reserved: Floats, values: Floats, seconds: Floats) -> ReservationCost | None:
    """Compute the cost of first reservations ``reserved``, (n,), NaN where there was none; None without any.

    A job that runs out fails at its end and runs again with twice as much until it fits; after ``RETRIES`` it gets
    exactly its need. The rule is the same for all.
    """
    there = ~np.isnan(reserved)
    if not there.any():
        return None
    # In units of the largest, so that sums of huge values stay finite.
    scale = max(float(reserved[there].max()), float(values[there].max())) or 1.0
    held, used, lasted = reserved[there] / scale, values[there] / scale, seconds[there]
    failed = used > held
    attempts = np.zeros(len(held))
    last = held.copy()
    for _ in range(RETRIES):
        short = last < used
        attempts += short
        last = np.where(short, 2.0 * last, last)
    last = np.maximum(last, used)
    total_used = float((used * lasted).sum())
    total_wasted = float(((held * (2.0**attempts - 1.0) + last - used) * lasted).sum())
    return ReservationCost(
        jobs=len(held),
        failures=int(failed.sum()),
        coverage=float(1.0 - failed.mean()),
        wasted=min(total_wasted * scale, LARGEST),
        maq=total_used / (total_used + total_wasted) if total_used + total_wasted > 0.0 else 1.0,
    )
