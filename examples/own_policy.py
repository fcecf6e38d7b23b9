"""Two custom scheduling policies of ten lines each, for ``jobsight simulate``.

    cd examples
    jobsight simulate TRACE.swf.gz --policy own_policy:Wfp3 --against easy own_policy:F1 --validate

``EasyByKey`` does the backfilling; a policy only defines the order of jobs, lowest key first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.policies import EasyByKey


class Wfp3(EasyByKey):
    """Waiting time relative to the request, cubed, times the size: large and short jobs age fast (Tang et al. 2009)."""

    name = "wfp3"

    def keys(self, now: float, jobs: NDArray[np.int64]) -> NDArray[np.float64]:
        waited = now - self.submit_s[jobs]
        return -((waited / self.requested_s[jobs]) ** 3) * self.need[jobs]


class F1(EasyByKey):
    """Learned from simulations, fixed at submission (Carastan-Santos and de Camargo 2017, F1)."""

    name = "f1"

    def keys(self, now: float, jobs: NDArray[np.int64]) -> NDArray[np.float64]:
        submitted = np.maximum(self.submit_s[jobs], 1.0)
        return np.log10(self.requested_s[jobs]) * self.need[jobs] + 870.0 * np.log10(submitted)
