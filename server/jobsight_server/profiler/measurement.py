"""One metric of a run's profile: its value and where it is from, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobsight_server.profiler.usage import Missing

NO_PROCESSORS = Missing("the accounting log gives no processors")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric of a profile: ``value`` and ``peak`` in the metric's unit, or ``missing``.

    For memory, the value is the peak and ``mean`` the time average, if samples give one; ``idle_age_s`` is how far from
    its life the oldest idle level used was read; ``cache`` is the page cache of its cgroups, added up at its largest on
    each node, and ``charged_peak`` the most that was ever charged to them, which no true peak exceeds.
    ``lower_bound``: the job used more, or would have: it ran out of it, was cut short, or was measured in part. For
    bandwidth, ``fabric`` is the network that the value is of, and ``fabrics`` has the value of each if there are
    several.
    """

    value: float | None
    peak: float | None = None
    source: str | None = None
    attribution: str | None = None
    reason: str | None = None
    missing: Missing | None = None
    mean: float | None = None
    idle_age_s: float | None = None
    cache: float | None = None
    charged_peak: float | None = None
    fabric: str | None = None
    fabrics: Mapping[str, float] | None = None
    lower_bound: bool = False


Measurements = Mapping[str, Measurement]
"""Metric -> its entry."""


def without(missing: Missing, how: str | None) -> Measurement:
    """No value, and why."""
    return Measurement(None, attribution=how, reason=missing.reason, missing=missing)


def from_log(total: float, processors: int) -> Measurement:
    """What the accounting log has for the whole run, per processor."""
    if processors <= 0:
        return without(NO_PROCESSORS, None)
    # The batch system's sum over the job's own processes is the kernel's accounting for that job.
    return Measurement(total / processors, source="accounting", attribution="cgroup")


def missing_labels(entries: Mapping[str, Measurement]) -> dict[str, str]:
    """Per metric without a value the reason to count it under."""
    return {name: entry.missing.label for name, entry in entries.items() if entry.missing is not None}
