"""Jobs with known communication, as the simulation needs them; errors name what cannot be simulated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.workload.canonical import Workload

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CommunicatingJobs:
    """Jobs and their network use, arrays of shape (jobs,).

    ``bandwidth_bps`` per processor, on average over a dedicated run; ``share`` of that run in communication, 0..1.

    Raises:
        ValueError: a job has a field that is not a number, negative, or out of range; or jobs are out of order.
    """

    jobs: Workload
    bandwidth_bps: Floats
    share: Floats

    def __post_init__(self) -> None:
        jobs = self.jobs
        for name, column, low, high, rule in (
            ("submission", jobs.submit_s, 0.0, np.inf, "at least 0"),
            ("run time", jobs.run_s, 0.0, np.inf, "above 0"),
            ("requested time", jobs.estimate_s, 0.0, np.inf, "above 0"),
            ("number of processors", jobs.processors, 1, np.inf, "at least 1"),
            ("bandwidth", self.bandwidth_bps, 0.0, np.inf, "at least 0"),
            ("share of communication", self.share, 0.0, 1.0, "from 0 to 1"),
        ):
            if len(column) != len(jobs):
                raise ValueError(f"{len(column)} values of {name} for {len(jobs)} jobs: give one each")
            good = (column >= low) & (column <= high) & np.isfinite(column)
            if rule == "above 0":
                good &= column > 0.0
            if not good.all():
                bad = int(np.argmin(good))
                raise ValueError(f"job {bad + 1} has a {name} of {column[bad]}: it must be {rule}; drop and count it")
        if (np.diff(jobs.submit_s) < 0.0).any():
            late = int(np.argmax(np.diff(jobs.submit_s) < 0.0)) + 2
            raise ValueError(f"job {late} was submitted before job {late - 1}: sort them by submission")
