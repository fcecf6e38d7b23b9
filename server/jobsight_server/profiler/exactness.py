"""A run's use: exact, a lower bound, or unknown, and why. The one rule for every source.

Logs, agents and the site's monitoring deliver readings of a run, a ``Measurement`` each: the quantity, who measured it,
and why it may be too low. Here readings that cannot be true are dropped, and one of the others is chosen. In doubt, a
value is a lower bound or unknown, never exact (docs/operate/sources.md, What counts as measured).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jobsight_server.ground.answers import Record
from jobsight_server.settings.declared import Fabric

SHORT_S = 10.0
"""Longest run for which a source without CPU time or memory may still be complete."""

_IDLE_S, _IDLE = 600.0, 0.005
"""A longer run of several processors that used a smaller share of their time was idle, or not seen."""

LEAST_BYTES = 4 * 2**20
"""Smallest memory of a run that used CPU time for longer than ``SHORT_S``."""

GROWTH = 0.01
"""Smallest growth from the reading before to the last one that shows that memory may have grown on."""

SLACK = 1.05
"""Largest use of CPU time that clock errors explain, as a multiple of the processors' time."""

STARTING_S = 1.0
"""CPU time that a batch system may spend in a job's cgroup to start it."""

Quantity = Literal["resident", "virtual", "with_cache", "node"]
"""Memory: of the job's processes without page cache; their address space; with page cache; of nodes above idle."""


@dataclass(frozen=True, slots=True)
class UseConfig:
    """How the use of a site's runs is read.

    ``fabric`` is the network whose bandwidth counts, ``resident`` the clusters whose logs have no page cache in their
    memory.
    """

    fabric: Fabric = "fastest"
    resident: frozenset[str] = frozenset()


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
IDLE = Missing("less than 0.5 % of its processors' time was counted in more than 10 minutes: idle, or not seen")
TOO_LITTLE = Missing("less than 4 MiB was measured, although it used CPU time for more than 10 s")
GPUS_NOT_SEEN = Missing("the scheduler counted no use of such GPUs yet")
TOO_SHORT = Missing("it ran for 10 s or less: its nodes' memory shows little of it")
GPUS_UNKNOWN = Missing("other jobs were on its nodes, and which of their GPUs it held is unknown")
GPUS_OF_OTHERS = Missing("more GPUs were read than it held, and which of them were its is unknown")
GPUS_NOT_READ = Missing("no readings of its GPUs within its life")
ABOVE_NODES = Missing("its memory is more than its nodes have")
ABOVE_PROCESSORS = Missing("its CPU time is more than its nodes' processors have")

RAN_OUT = "a lower bound: the job ran out of it"
CUT_SHORT = "a lower bound: the job was killed, cancelled or failed"
PARTLY_MEASURED = "a lower bound: the log lacks the use of some of its steps, tasks or nodes, or sampled it too seldom"
GROWING = "a lower bound: it was still growing at its last reading"
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

    def refused(self, why: Missing) -> Measurement:
        """Return it without its value, for this reason."""
        return replace(without(why, self.attribution), source=self.source)


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


def unseen(cpu_s: float | None, run_s: float, processors: int) -> Missing | None:
    """Return why a source that counted ``cpu_s`` of CPU time (None: it counts none) may not have seen the job's
    processes.
    """
    if cpu_s is None or run_s <= SHORT_S:
        return None
    if processors > 1 and run_s > _IDLE_S and cpu_s < _IDLE * processors * run_s:
        return IDLE
    return NOT_SEEN if cpu_s <= 0 else None


def seldom(intervals: float | None) -> bool:
    """Return whether memory was sampled too seldom: once, as it began, perhaps before it was used."""
    return intervals is not None and intervals <= 1.0


def why_low(
    *, is_whole: bool = True, growing: float = 0.0, was_read: bool | None = None, is_part: bool = False
) -> str | None:
    """Return why memory that was read may be too low; None if nothing shows that.

    ``is_whole``: it was read all the time on all nodes. ``growing``: its growth up to the last reading, as a share.
    ``was_read``: whether the readings have the kernel's own maximum, None if that is unknown; it replaces what a log
    lacks (``is_part``).
    """
    if not is_whole:
        return NOT_ALL_READ
    if growing > GROWTH:
        return GROWING
    if was_read is False:
        return PEAK_NOT_READ
    return PARTLY_MEASURED if is_part and not was_read else None


def of_processes(
    memory: Measurement, size: float, cpu_s: float | None, run_s: float, processors: int, why: str | None
) -> Measurement:
    """Return the memory of processes, ``size`` in all, by the CPU time of the same source; a lower bound if there is a
    reason ``why``.
    """
    missed = unseen(cpu_s, run_s, processors)
    if missed is IDLE:
        return memory.refused(IDLE)
    if size < LEAST_BYTES and (run_s if cpu_s is None else cpu_s) > SHORT_S:
        return memory.refused(TOO_LITTLE)
    return memory.at_least(why or (PROCESSES_NOT_SEEN if missed else None))


def plausible(reading: Measurement, most: float | None, above: Missing) -> Measurement:
    """Return the reading; without its value if that is above ``most``, where this is known."""
    if reading.value is None or most is None or reading.quantity == "virtual" or reading.value <= most:
        return reading
    return reading.refused(above)


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
