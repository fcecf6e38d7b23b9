"""Evidence for a job's need: earlier runs of the user's application, summed up by burst and request.

A burst is what was submitted before one of its jobs had ended, such as an array. Its jobs are alike in more than their
name, so a burst counts once, and a question reads a few dozen rows whatever the size of an array.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from jobsight_predictor.question import Facts

Resource = Literal["memory", "runtime"]

ASKED_FOR: tuple[Resource, ...] = ("memory", "runtime")
"""Metrics that a job can request."""

CHECK = "jobsight-check"
"""Name of the job of ``jobsight check``, which is not evidence for other jobs."""

BURSTS = 40
"""Bursts of one request that are kept and looked at."""

ROWS = 400
"""Rows kept for an application, the latest ones."""

NEAR = 4.0
"""Largest factor between the processors, the memory requests and the time limits of similar jobs."""

SAME = 0.999
"""Share of a request that counts as all of it."""


class Shape(NamedTuple):
    """What a job asks for, of the whole job; 0 is none or unknown. ``gpus`` None is unknown, in questions only."""

    processors: int = 1
    gpus: int | None = 0
    memory_bytes: float = 0.0
    walltime_s: float = 0.0
    facts: Facts = ()

    def asked(self, resource: Resource) -> float:
        """Return the requested memory or run time; 0 without one."""
        return self.memory_bytes if resource == "memory" else self.walltime_s


Says = Literal["exact", "at least", "ran out", "nothing"]


class RunUse(NamedTuple):
    """A finished run's use of one resource, of the whole job, in the words of ``says``.

    ``held`` is its limit, 0 without one: of a run that ran out, the amount that was too little. ``submitted`` and
    ``end`` in UTC epoch seconds.
    """

    shape: Shape
    submitted: float
    end: float
    says: Says
    used: float = 0.0
    held: float = 0.0
    is_virtual: bool = False


@dataclass(slots=True)
class Runs:
    """Runs of one burst with the same request.

    ``burst`` is the end of the first run of the burst, ``end`` that of the last of these. ``exact`` of them are known,
    from ``least`` to ``most``, within their limits to ``most_held``; ``bounds`` used ``at_least`` that much. ``failed``
    ran out of at most ``failed_at``; ``since`` runs ended after the last of these.
    """

    shape: Shape
    is_virtual: bool
    burst: float
    end: float
    runs: int = 0
    exact: int = 0
    least: float = math.inf
    most: float = 0.0
    most_held: float = 0.0
    bounds: int = 0
    at_least: float = 0.0
    failed: int = 0
    failed_at: float = 0.0
    since: int = 0

    def add(self, run: RunUse) -> None:
        """Count one more run."""
        self.runs += 1
        self.since += 1
        self.end = max(self.end, run.end)
        self.learn(run)

    def learn(self, run: RunUse) -> None:
        """Take in the use of a run that is counted already."""
        match run.says:
            case "exact":
                self.exact += 1
                self.least, self.most = min(self.least, run.used), max(self.most, run.used)
                self.most_held = max(self.most_held, min(run.used, run.held or math.inf))
            case "at least":
                self.bounds += 1
                self.at_least = max(self.at_least, run.used)
            case "ran out":
                self.failed += 1
                self.failed_at = max(self.failed_at, run.held, run.used)
                self.since = 0


_as_stored = attrgetter(*(field.name for field in fields(Runs)))


class Evidence:
    """The runs of one application of a user, of one resource, in the order in which their bursts ended first."""

    def __init__(self, state: Iterable[Sequence[Any]] = ()) -> None:
        self.rows = [Runs(Shape._make((*of, tuple(map(tuple, facts)))), *row) for (*of, facts), *row in state]
        self.is_changed = False

    def add(self, run: RunUse) -> None:
        """Learn a run that has ended."""
        row = self._row(run)
        if row is None:
            burst = next((one.burst for one in self.rows if one.burst > run.submitted), run.end)
            row = Runs(run.shape, run.is_virtual, burst, run.end)
            place = len(self.rows)
            while place and self.rows[place - 1].burst > burst:
                place -= 1
            self.rows.insert(place, row)
            self._drop_old(row)
        row.add(run)
        self.is_changed = True

    def fill_in(self, run: RunUse) -> None:
        """Learn the use of a run that was learned without it."""
        if (row := self._row(run)) is None:
            self.add(run)
        else:
            row.learn(run)
            self.is_changed = True

    def state(self) -> list[tuple[Any, ...]]:
        """Return the rows, from which the evidence can be restored."""
        return list(map(_as_stored, self.rows))

    def _row(self, run: RunUse) -> Runs | None:
        """Return the row of the run's burst and request; None if it is the first."""
        burst = None
        for row in self.rows:
            if row.burst > run.submitted:
                if burst is None:
                    burst = row.burst
                if row.burst > burst:
                    break
                if (row.shape, row.is_virtual) == (run.shape, run.is_virtual):
                    return row
        return None

    def _drop_old(self, new: Runs) -> None:
        """Drop what is beyond ``BURSTS`` of the request of ``new``, and beyond ``ROWS``."""
        if len(self.rows) <= BURSTS:
            return
        request = new.shape[:-1]  # without facts
        bursts = list(dict.fromkeys([row.burst for row in self.rows if row.shape[:-1] == request]))
        if len(bursts) > BURSTS:
            last = bursts[-BURSTS]
            self.rows = [row for row in self.rows if row.burst >= last or row.shape[:-1] != request]
        del self.rows[:-ROWS]


class Known(NamedTuple):
    """The ``least`` use that is known exactly, None if there is none, the ``most``, and the largest lower bound."""

    least: float | None
    most: float
    at_least: float

    @property
    def largest(self) -> float:
        """Return the largest use, exact or at least."""
        return max(self.most, self.at_least)


@dataclass(frozen=True, slots=True)
class Similar:
    """The runs similar to a job, the latest burst first.

    ``is_alike``: they had as many processors as the job. ``has_other_counts``: similar ones had other numbers of
    processors. ``enforced``: none used more than its limit, whatever the log says.
    """

    rows: Sequence[Runs] = ()
    is_alike: bool = True
    has_other_counts: bool = False
    enforced: bool = True

    @property
    def runs(self) -> int:
        """Return the number of runs."""
        return sum([row.runs for row in self.rows])

    @property
    def exact(self) -> int:
        """Return the number of runs whose use is known exactly."""
        return sum([row.exact for row in self.rows])

    @property
    def failed(self) -> int:
        """Return the number of runs that ran out."""
        return sum([row.failed for row in self.rows])

    @property
    def bursts(self) -> int:
        """Return the number of bursts with a use that is known exactly."""
        return len({row.burst for row in self.rows if row.exact})

    @property
    def known(self) -> Known | None:
        """Return the uses that are known; None if there are none."""
        exact, bounds = [row for row in self.rows if row.exact], [row.at_least for row in self.rows if row.bounds]
        if not exact and not bounds:
            return None
        most = max([self.most_of(row) for row in exact], default=0.0)
        least = min([row.least for row in exact], default=None)
        return Known(least if least is None else min(least, most), most, max(bounds, default=0.0))

    def most_of(self, row: Runs) -> float:
        """Return the largest exact use of these runs."""
        return row.most_held if self.enforced else row.most


def _around(asked: float) -> tuple[float, float]:
    """Return the least and the largest request near this one; any is near none."""
    return (asked / NEAR, asked * NEAR) if asked else (0.0, math.inf)


def similar_runs(rows: Sequence[Runs], job: Shape, *, enforced: bool = True) -> Similar:
    """Select the runs that asked for about as much as ``job``, on as many processors, or else on up to ``NEAR`` times
    as many; of memory of different kinds those of the latest kind. At most ``BURSTS`` bursts. ``enforced``: as in
    ``Similar``. Those that ran out of any less memory count too: some logs have only the lowered request.
    """
    (fewest, most), (least, largest), (shortest, longest) = map(_around, (job[0], job[2], job[3]))
    near = [
        row
        for row in reversed(rows)
        for processors, gpus, memory, walltime_s, _ in [row.shape]
        if (job.gpus is None or job.gpus == gpus)
        and (not memory or least <= memory <= largest or (row.failed and memory < job.memory_bytes))
        and (not walltime_s or shortest <= walltime_s <= longest)
        and (not processors or fewest <= processors <= most)
        and row.is_virtual == rows[-1].is_virtual
    ]
    alike = [row for row in near if row.shape.processors == job.processors]
    found = alike or near
    if len(found) > BURSTS:
        bursts = list(dict.fromkeys([row.burst for row in found]))
        if len(bursts) > BURSTS:
            found = [row for row in found if row.burst >= bursts[BURSTS - 1]]
    return Similar(found, bool(alike), 0 < len(alike) < len(near), enforced)
