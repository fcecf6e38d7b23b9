"""What the log and the measurements of a run say about its need, in the form in which it is learned."""

from __future__ import annotations

from collections.abc import Mapping

from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.forecasts.events import Observation
from jobsight_server.forecasts.job import ForecastJob

Observations = dict[str, Observation | None]


def observed(job: ForecastJob, measured: Mapping[str, Observation | None], *, is_late: bool = False) -> Observations:
    """By metric; None where nothing is known.

    A run that ran out of something needed more than it had been given, or had used by then, whichever is more. That is
    known without any measurement: when one arrives late (``is_late``), it has been learned.
    """
    found = dict(measured)
    if job.failure is None:
        return found
    metric = FAILED_METRIC[job.failure]
    given = (job.given_memory_bytes if metric == "memory" else job.given_time_s) or 0.0
    if is_late:
        if metric in found and given:
            found[metric] = None
        return found
    known = found.get(metric)
    used = known.value if known is not None else 0.0
    # A run time is known exactly, and may be less than what was given: a scheduler kills at its convenience.
    needed = max(used, given) if metric == "memory" else used or given
    found[metric] = Observation(needed, True) if needed else None
    return found
