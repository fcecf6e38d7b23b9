"""Scheduler of several clusters: first come, first served, with EASY-like backfilling around a placement.

A job larger than any cluster is always spread. Its booking is at most the capacity of empty links, or it would wait for
ever.

A placement that asks for bandwidths comes second: jobs first start as if none were spread, and then the rest of the
queue is spread over the processors on which no waiting job could start otherwise. At its turn, a spread job would take
them from many narrow ones, to save the wait of one.

The head of the queue has a reservation: the first time at which, by requested times, it can be placed, on one cluster
if the placement comes second, and the links booked by then. A later job starts now if it can be placed and should end
by that time, or if the head could still be placed beside it then. With one cluster this is EASY.

Requested times are not stretched: the slowdown of a spread job depends on future jobs, and any safe bound would make a
reservation useless. No job is killed for being slowed down. When a job exceeds its expected time, the expectation is
doubled, again and again, so a reservation may be late, but never stale.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import nextafter

from jobsight_scheduler.coallocation.bandwidth_sources import BandwidthSource
from jobsight_scheduler.coallocation.clusters import Allocation, Clusters, LinkDemand, demand
from jobsight_scheduler.coallocation.placement import PlacementPolicy, SpreadPlacement, naive, none

LOOK_AHEAD = 500
"""Waiting jobs considered for backfilling, so that endless queues take reasonable time."""

THETA = 0.8
"""Default bookable share of an uplink, since forecasts are more often too low than too high."""

WHOLE = 0.999
"""Largest booking of one job, as a share of empty links; below 1 because bookings are rounded."""

NEVER = float("inf")

SpreadStart = tuple[int, Allocation]


@dataclass(frozen=True, slots=True)
class ClusterRequests:
    """A scheduler's knowledge of the jobs, by job index: their requests, not their real run times and use."""

    clusters: Clusters
    processors: Sequence[int]
    estimate_s: Sequence[float]


class Scheduler:
    """Decides at submissions and ends which jobs start, and where.

    ``theta`` is the bookable share of each uplink.
    """

    def __init__(
        self,
        requests: ClusterRequests,
        placement: SpreadPlacement,
        bandwidth: BandwidthSource,
        theta: float = THETA,
    ) -> None:
        self.bandwidth = bandwidth
        self._placement = placement
        self._clusters = requests.clusters
        self._first = none if placement.asks else placement.place
        self._wide = placement.place if placement.spreads else naive  # for jobs larger than any cluster
        self._has_wide = max(requests.processors, default=0) > requests.clusters.largest
        self._processors = requests.processors
        self._estimate_s = requests.estimate_s
        self.free = list(requests.clusters.processors)
        self._theta, self._uplink_bps = theta, requests.clusters.uplink_bps
        self._spare_bps = [theta * capacity for capacity in self._uplink_bps]
        self._front: list[int] = []  # the first of the queue, in order
        self._back: deque[int] = deque()
        self._bandwidth_bps: dict[int, float] = {}  # booked, of jobs that have not ended
        self._allocations: dict[int, tuple[float, Allocation, LinkDemand]] = {}  # start, where, booked
        self._expected: list[tuple[float, int]] = []  # (end, job), sorted
        self._ends: dict[int, float] = {}
        # The reservation of the head, and the free processors and links then; 0 if it must be recomputed.
        self._shadow_s = 0.0
        self._then_free: list[int] = []
        self._then_spare: list[float] = []

    def submitted(self, now: float, job: int) -> Sequence[SpreadStart]:
        """Take in a submission; return the jobs that start now, in the order of the decision."""
        self._bandwidth_bps[job] = self._booked(job, self.bandwidth.expected(job)) if self._placement.asks else 0.0
        front = self._front
        if self._back or len(front) >= LOOK_AHEAD:
            self._back.append(job)
            return ()
        front.append(job)
        if len(front) == 1 or self._shadow_s <= now:
            return self._pass(now)
        # Nothing has become free since the others were considered: only the new job may start.
        return self._fill(now, len(front) - 1, self._placement.place)

    def ended(self, now: float, job: int, peak_bps: float) -> Sequence[SpreadStart]:
        """Take in an end, with the job's ``peak_bps`` per processor; return the jobs that start now."""
        if self._placement.asks:
            self.bandwidth.learn(job, peak_bps)
        del self._bandwidth_bps[job]
        _, allocation, booked = self._allocations.pop(job)
        for cluster, count in allocation:
            self.free[cluster] += count
        for link, rate in booked:
            self._spare_bps[link] += rate
        del self._expected[bisect_left(self._expected, (self._ends.pop(job), job))]
        return self._pass(now) if self._front else ()

    def measured(self, saturation: Sequence[float]) -> None:
        """Take in the demand on each link as a share of its capacity; above 1, the link is full."""
        if self._placement.watches:
            self._spare_bps = [
                (self._theta - min(1.0, share)) * capacity
                for share, capacity in zip(saturation, self._uplink_bps, strict=True)
            ]

    def _pass(self, now: float) -> list[SpreadStart]:
        begun: list[SpreadStart] = []
        front = self._front
        while front:
            allocation = self._where(front[0], self._first, self.free, self._spare_bps)
            if allocation is None:
                self._reserve(now)
                begun += self._fill(now, 1, self._first)
                if self._first is self._placement.place:
                    break
                allocation = self._where(front[0], self._placement.place, self.free, self._spare_bps)
            if allocation is None:
                begun += self._fill(now, 1, self._placement.place)
                break
            begun.append((front[0], allocation))
            self._start(now, front.pop(0), allocation)
            if self._back:
                front.append(self._back.popleft())
        while self._back and len(front) < LOOK_AHEAD:
            front.append(self._back.popleft())
        return begun

    def _booked(self, job: int, expected: float) -> float:
        """Return the expected bandwidth; of a job that must be spread, no more than empty links carry."""
        processors = self._processors[job]
        if processors <= self._clusters.largest:
            return expected
        emptiest = naive(processors, 0.0, self._clusters.processors, ())
        carried = [self._theta * self._uplink_bps[link] / rate for link, rate in demand(emptiest or (), 1.0)]
        return min(expected, WHOLE * min(carried))

    def _where(self, job: int, place: PlacementPolicy, free: list[int], spare: list[float]) -> Allocation | None:
        need = self._processors[job]
        chosen = self._wide if need > self._clusters.largest else place
        return chosen(need, self._bandwidth_bps[job], free, spare)

    def _fill(self, now: float, first: int, place: PlacementPolicy) -> list[SpreadStart]:
        """Start jobs that may jump ahead of the head, from position ``first`` of the queue on."""
        processors, estimate, bandwidth = self._processors, self._estimate_s, self._bandwidth_bps
        front, shadow = self._front, self._shadow_s
        begun: list[SpreadStart] = []
        taken: list[int] = []
        most = self._most(place)
        nowhere: set[tuple[int, float]] = set()  # requests that found no place since the last start,
        in_the_way: set[tuple[int, float]] = set()  # or one until after the head is to start
        for i in range(first, len(front)):
            job = front[i]
            need = processors[job]
            if need > most:
                if not most:
                    break
                continue
            alike = need, bandwidth[job]
            late = now + estimate[job] > shadow
            if alike in nowhere or (late and alike in in_the_way):
                continue
            allocation = self._where(job, place, self.free, self._spare_bps)
            if allocation is None:
                nowhere.add(alike)
            elif late and not self._beside(front[0], job, allocation):
                in_the_way.add(alike)
            else:
                begun.append((job, allocation))
                taken.append(i)
                self._start(now, job, allocation)
                most = self._most(place)
                nowhere.clear()
                in_the_way.clear()
        for i in reversed(taken):
            del front[i]
        return begun

    def _most(self, place: PlacementPolicy) -> int:
        """Return the most processors for a job now."""
        return max(self.free) if place is none and not self._has_wide else sum(self.free)

    def _beside(self, head: int, job: int, allocation: Allocation) -> bool:
        """Return whether the head fits beside the job at its reserved time; if so, update its placement."""
        free, spare = list(self._then_free), list(self._then_spare)
        for cluster, count in allocation:
            free[cluster] -= count
        for link, rate in demand(allocation, self._bandwidth_bps[job]):
            spare[link] -= rate
        if min(free) < 0 or self._where(head, self._first, free, spare) is None:
            return False
        self._then_free, self._then_spare = free, spare
        return True

    def _reserve(self, now: float) -> None:
        """Reserve the first time at which the head of the queue should fit."""
        while self._expected and self._expected[0][0] <= now:
            end, job = self._expected.pop(0)
            start = self._allocations[job][0]
            while end <= now:
                # Late in a very long schedule a short estimate does not move the clock.
                end = start + 2.0 * (end - start) if end > start else nextafter(now, NEVER)
            self._ends[job] = end
            insort(self._expected, (end, job))
        head = self._front[0]
        free, spare, allocations = list(self.free), list(self._spare_bps), self._allocations
        self._shadow_s, self._then_free, self._then_spare = NEVER, free, spare
        found = NEVER
        for end, job in self._expected:
            if end > found:
                break
            _, allocation, booked = allocations[job]
            for cluster, count in allocation:
                free[cluster] += count
            for link, rate in booked:
                spare[link] += rate
            if found > end and self._where(head, self._first, free, spare) is not None:
                found = end
        self._shadow_s = found

    def _start(self, now: float, job: int, allocation: Allocation) -> None:
        for cluster, count in allocation:
            self.free[cluster] -= count
        booked = demand(allocation, self._bandwidth_bps[job])
        for link, rate in booked:
            self._spare_bps[link] -= rate
        self._allocations[job] = now, allocation, booked
        end = self._ends[job] = now + self._estimate_s[job]
        insort(self._expected, (end, job))
