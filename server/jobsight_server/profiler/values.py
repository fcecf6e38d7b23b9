"""A run's use: exact, a lower bound, or unknown, and why. The one rule for every source.

Logs, agents and the site's monitoring deliver readings of a run, a ``Measurement`` each: the quantity, who measured it,
and why it may be too low. Here readings that cannot be true are dropped, and one of the others is chosen. In doubt, a
value is a lower bound or unknown, never exact (docs/operate/sources.md, What counts as measured).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jobsight_server.forecasts.record import Record

SHORT_S = 10.0
"""Longest run for which a source without CPU time or memory may still be complete."""

SLACK = 1.05
"""Largest use of CPU time that clock errors explain, as a multiple of the processors' time."""

Quantity = Literal["resident", "virtual", "with_cache", "node"]
"""Memory: of the job's processes without page cache; their address space; with page cache; of nodes above idle."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason for a missing value; ``kind`` has a placeholder for the node's name, to count without it."""

    kind: str
    node: str = ""

    @property
    def reason(self) -> str:
        return self.kind.format(node=self.node)

    @property
    def label(self) -> str:
        return self.kind.format(node="a node")


NO_PROCESSORS = Missing("the accounting log gives no processors")
NO_START = Missing("the accounting log gives no start")
NOT_SEEN = Missing("no CPU time was counted in a run of more than 10 s")
TOO_SHORT = Missing("it ran for 10 s or less: its nodes' memory shows little of it")
GPUS_UNKNOWN = Missing("other jobs were on its nodes, and which of their GPUs it held is unknown")
GPUS_OF_OTHERS = Missing("more GPUs were read than it held, and which of them were its is unknown")
GPUS_NOT_READ = Missing("no readings of its GPUs within its life")
ABOVE_NODES = Missing("its memory is more than its nodes have")
ABOVE_PROCESSORS = Missing("its CPU time is more than its nodes' processors have")

RAN_OUT = "a lower bound: the job ran out of it"
CUT_SHORT = "a lower bound: the job was killed, cancelled or failed"
PARTLY_MEASURED = "a lower bound: the log lacks the use of some of its steps or tasks"
PEAK_NOT_READ = "a lower bound: its cgroup was charged with more between two readings"
NOT_ALL_READ = "a lower bound: its cgroup was not read all the time on all of its nodes"
PROCESSES_NOT_SEEN = "a lower bound: its source counted no CPU time, so it may have missed processes"
CONTRADICTED = "a lower bound: two sources contradict each other"
UNCOUNTED = "a lower bound: a network device of its nodes does not count bytes"
GPUS_NOT_ALL_READ = "a lower bound: not all of its GPUs were read"
OTHER_QUANTITY = "a lower bound: only resident memory was measured, and the job asks for virtual memory"


class GpuUse(Record):
    """One GPU of a job: the share of the time for which it was busy, the most memory in use, and all that it has.

    ``gpu``: its node, and its name there. Null where unknown.
    """

    gpu: str
    busy: float | None
    memory_bytes: float | None
    memory_total_bytes: float | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric of a run, as one source read it, or as it was decided: ``value`` and ``peak`` in the metric's unit.

    Without a value, ``missing`` says why. ``lower_bound``: the truth may be above, as ``reason`` says. ``source`` says
    who measured it, ``attribution`` whether it is of the job's own processes or of its nodes. For memory, ``quantity``
    says which, the value is the peak and ``mean`` the time average, if samples give one; ``idle_age_s`` is the time
    between its life and the oldest idle level used; ``cache`` is the page cache of its cgroups, the sum of each node's
    largest, and ``charged_peak`` the largest charge to them, an upper limit of any true peak. For bandwidth, ``fabric``
    is the network of the value, and ``fabrics`` has the value of each if there are several. For GPUs, the value is the
    largest number busy at one time, ``mean`` the average number, and ``gpus`` has the use of each.
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
    quantity: Quantity | None = None
    gpus: tuple[GpuUse, ...] | None = None

    def at_least(self, why: str | None) -> Measurement:
        """Return it as a lower bound for this reason; unchanged without a reason or a value."""
        return self if why is None or self.value is None else replace(self, reason=why, lower_bound=True)


Measurements = Mapping[str, Measurement]
"""Metric -> its entry."""


def without(missing: Missing, how: str | None) -> Measurement:
    """Return a measurement without a value, with the reason."""
    return Measurement(None, attribution=how, reason=missing.reason, missing=missing)


def from_log(total: float, processors: int, quantity: Quantity | None = None) -> Measurement:
    """Return the accounting log's value for the whole run, per processor."""
    if processors <= 0:
        return without(NO_PROCESSORS, None)
    # The batch system's sum over the job's own processes is the kernel's accounting.
    return Measurement(total / processors, source="accounting", attribution="cgroup", quantity=quantity)


def is_seen(cpu_s: float | None, run_s: float) -> bool:
    """Return whether a source that counted ``cpu_s`` of CPU time saw the job's processes; None: it counts none."""
    return cpu_s is None or cpu_s > 0 or run_s <= SHORT_S


def plausible(reading: Measurement, most: float | None, above: Missing) -> Measurement:
    """Return the reading; without its value if that is above ``most``, where this is known."""
    if reading.value is None or most is None or reading.quantity == "virtual" or reading.value <= most:
        return reading
    return replace(without(above, reading.attribution), source=reading.source)


def decided(readings: Sequence[Measurement], is_virtual: bool = False) -> Measurement:
    """Combine the ``readings``; the first is preferred.

    The larger of two counts if both are of the same quantity and neither is a lower bound. A lower bound above the
    others shows that they are too small. If the preferred one is a lower bound, a larger one of another quantity is
    one too. Page cache and address space are more than resident memory, so they show nothing about it: where
    the job asks for address space (``is_virtual``), the others are lower bounds.
    """
    if is_virtual:
        readings = [one if one.quantity == "virtual" else one.at_least(OTHER_QUANTITY) for one in readings]
    known = [reading for reading in readings if reading.value is not None]
    if not known:
        return readings[0]
    first = known[0]
    known = [one for one in known if one.quantity in (first.quantity, "resident", "node")]
    exact = [one for one in known if not one.lower_bound and one.quantity == first.quantity]
    if not exact:
        return max(known, key=_value).at_least(first.reason)
    found = max(exact, key=_value)
    bound = max((one for one in known if one.lower_bound), key=_value, default=found)
    return bound.at_least(CONTRADICTED) if _value(bound) > _value(found) else found


def _value(reading: Measurement) -> float:
    return reading.value or 0.0
