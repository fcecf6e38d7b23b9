"""The plan of an emulation: the size of the site, the period, the seed, and the frequency of faults."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import inf

WEEK_S = 7 * 86_400

CHANGED = "dan"
"""The user whose jobs change, if planned."""


class EmulatorError(Exception):
    """The emulation cannot continue; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Frequencies of the emulated faults, as shares of readings, marks, batches and nodes.

    ``outage_every_s`` is the mean time between outages of a node, ``unreliable_every_s`` for the share
    ``unreliable_nodes``. ``odd_names``: some job names have characters that separate fields of an accounting log. From
    ``silent_from`` on (UTC epoch) the agent of the first cluster's last node sends nothing; from ``changed_from`` on
    the user ``CHANGED`` runs something else under the old name.
    """

    lost_readings: float = 0.01
    lost_marks: float = 0.0007
    duplicate_batches: float = 0.004
    late_batches: float = 0.004
    skewed_nodes: float = 0.06
    outage_every_s: float = 90 * 86_400
    unreliable_nodes: float = 0.0
    unreliable_every_s: float = 6 * 3600.0
    odd_names: bool = True
    silent_from: float = inf
    changed_from: float = inf


@dataclass(frozen=True, slots=True)
class SitePlan:
    """A site of ``nodes`` nodes in ``clusters`` clusters, read every ``interval_s`` from ``start`` until ``end``.

    With ``cgroups``, the agents read each job's cgroup too.
    Times are UTC epoch seconds. The same plan gives the same site, jobs, readings and accounting.
    """

    nodes: int
    clusters: int
    start: int
    end: int
    interval_s: int = 60
    seed: int = 1
    faults: Faults = field(default_factory=Faults)
    cgroups: bool = False

    def __post_init__(self) -> None:
        if self.clusters < 1 or self.nodes < self.clusters:
            raise EmulatorError(
                f"{self.nodes} nodes in {self.clusters} clusters: give at least one cluster and a node for each"
            )
        if not 1 <= self.interval_s <= 300:
            # A 32-bit counter on a link of 100 Mb/s wraps after 343 s: twice unseen beyond that.
            raise EmulatorError(f"an interval of {self.interval_s} s: give 1 to 300 s")
        if self.end - self.start < 10 * self.interval_s:
            raise EmulatorError(f"a period of {self.end - self.start} s is shorter than ten intervals: give more weeks")

    @property
    def horizon(self) -> int:
        """No job starts or ends after this; two more readings of every node follow."""
        return self.end - 2 * self.interval_s

    def rng(self, *purpose: object) -> random.Random:
        """Return a separate random stream for each purpose: a change in one leaves the others unchanged."""
        return random.Random("/".join(str(part) for part in (self.seed, *purpose)))
