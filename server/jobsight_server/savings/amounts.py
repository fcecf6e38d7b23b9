"""What one finished job adds to the totals of its day (docs/definitions.md, Savings)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter
from typing import Any

from jobsight_predictor.profile.steps import held

METRICS = ("memory", "runtime")
"""Memory counts in byte seconds, run time in processor seconds."""

AMOUNTS = ("weight", "requested", "used", "reserved", "request_held", "bound_held")
COLUMNS = (
    "jobs",
    *AMOUNTS,
    "request_failures",
    "bound_failures",
    "without_request",
    "without_use",
    "without_bound",
)
"""Columns of the table that are added up.

``jobs`` have a request, a measured use and a bound that was given at submission; the amounts are theirs. ``weight`` is
what a value is multiplied by: processors asked for x run time of memory per processor, processors held of a run time.
``request_held`` is what ran, as it ran; ``bound_held`` has all attempts of the jobs that would have run out, the
``bound_failures``. The others are left out.
"""

# Sums of whole units are exact, in whatever order jobs are counted and taken back.
_UNITS = {"memory": 2.0**20, "runtime": 1.0}


def amounts_of(job: Any, metric: str, value: float | None, attempts: Sequence[float]) -> tuple[float, ...]:
    """The columns of one job, a row of ``jobs`` with ``lower_bound``; ``value`` is None if not measured or only shown.

    ``attempts``: the bound at its submission and what to reserve after it, as far as that is known; empty without one.

    A job that ran out of its request needed more, however little was measured.
    """
    if metric == "memory":  # is measured per processor asked for; others may be held too
        processors, request = job.asked_processors or 0, job.asked_memory_bytes
        weight = processors * (job.end - job.start)
        request = request / processors if request and processors else None
    else:
        processors, request = job.processors or 0, job.asked_walltime_s
        weight = float(processors)
    if value is None or not processors:
        return _left_out("without_use")
    if not request or request <= 0:
        return _left_out("without_request")
    if not attempts:
        return _left_out("without_bound")
    bound = attempts[0]
    if job.ran_out:
        value = max(value, nextafter(request, inf))
    unit = _UNITS[metric]
    per_unit = (request, value, bound, request, held(attempts, value, request))
    amounts = [round(weight), *(round(amount * weight / unit) * unit for amount in per_unit)]
    return (1, *amounts, int(value > request), int(value > bound), 0, 0, 0)


def _left_out(reason: str) -> tuple[float, ...]:
    return tuple(int(name == reason) for name in COLUMNS)
