"""Whether a replay explains the waits on record, and the search for one that does, queue by queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jobsight_server.ground.amounts import DAY_S
from jobsight_server.ground.answers import Record
from jobsight_server.replay.explained import WAYS, Way
from jobsight_server.replay.kinds import WAITED_S
from jobsight_server.replay.queue import Floats, Replay

WEEK_S = 7.0 * DAY_S
LEAST_PERIODS = 4
"""Weeks in which jobs were submitted, or days of a shorter record, that it takes to explain one."""
APART, ALIKE = 0.25, 0.7
"""A replay explains a queue's waits if the mean ones of its weeks are as much apart at most, as a share of the recorded
ones, and if waits have this rank correlation."""
NEAR = 0.05
"""A replay as near as that needs no other one tried."""
WORTH = 0.02
"""What each fact taken from the record has to bring nearer."""
SAMPLE = 2_000
"""Waiting jobs that are examined for what EASY cannot explain."""


class QueueAgreement(Record):
    """How far the nearest replay agrees with the record of a queue; ``apart``: of the mean waits by week.

    ``explains`` is null if no job waits, in the record and the replay; ``apart`` if there are too few weeks or days.
    """

    machine: str
    queue: str
    jobs: int
    way: str
    explains: bool | None
    apart: float | None
    rank_correlation: float | None
    recorded_wait_s: float
    replayed_wait_s: float


class Shares(NamedTuple):
    """Jobs that waited; of these, those overtaken, and the sum of the shares of their waits with enough free
    processors."""

    waited: float = 0.0
    overtaken: float = 0.0
    idle: float = 0.0


class Explained(NamedTuple):
    """The nearest replay of a machine, by queue, and the jobs of queues that it explains or that do not wait."""

    way: Way
    queues: list[QueueAgreement]
    answered: NDArray[np.bool_]


def explained(replay: Replay, progress: Callable[[int], None], before: int = 0) -> Explained:
    """Return the way in which the replay explains most waiting jobs; of several, the nearest, and of none likewise.

    ``progress`` gets the jobs replayed so far, and ``before``.
    """
    return min(_tried(replay, progress, before), key=_preference)


def _tried(replay: Replay, progress: Callable[[int], None], before: int) -> Iterator[Explained]:
    for way in WAYS:
        replay.way = way
        start, _ = replay.run("as explained", "request", partial(_report, progress, before))
        before += len(replay.jobs)
        found = _agreements(replay, start)
        yield found
        if all(
            of.apart is None or of.explains is None or (of.explains and (of.apart or 0.0) <= NEAR)
            for of in found.queues
        ):
            return


def _report(progress: Callable[[int], None], before: int, ended: int) -> None:
    progress(before + ended)


def _preference(found: Explained) -> tuple[float, float]:
    """Return first by how many jobs of explained queues, then by how far from the record, the least first."""
    jobs = sum(of.jobs for of in found.queues if of.explains)
    total = sum(of.recorded_wait_s * of.jobs for of in found.queues) or 1.0
    apart = sum((of.apart or 0.0) * of.recorded_wait_s * of.jobs for of in found.queues) / total
    return -float(jobs), apart + WORTH * found.way.assumptions


def _agreements(replay: Replay, start: Floats) -> Explained:
    recorded, replayed = (at - replay.work.submit_s for at in (replay.start_s, start))
    answered = np.zeros(len(replay.jobs), dtype=bool)
    names = np.unique([job.queue for job in replay.jobs])
    queues = []
    for number, name in enumerate(names.tolist()):
        chosen = replay.counts & (replay.record.queue == number)
        if chosen.any():
            of = recorded[chosen], replayed[chosen]
            apart, alike = apart_by_week(*of, replay.work.submit_s[chosen]), _alike(*of)
            means = [float(wait.mean()) for wait in of]
            explains: bool | None = None
            if max(means) >= WAITED_S:
                explains = apart is not None and alike is not None and apart <= APART and alike >= ALIKE
            answered |= chosen & (explains is not False)
            queues.append(
                QueueAgreement(replay.name, name, int(chosen.sum()), str(replay.way), explains, apart, alike, *means)
            )
    return Explained(replay.way, queues, answered)


def apart_by_week(recorded: Floats, replayed: Floats, submit_s: Floats) -> float | None:
    """Return by how much the replayed mean waits of weeks, or of days if these are few, differ from the recorded ones,
    as a share of these and a minute; None for too few days."""
    for period_s in (WEEK_S, DAY_S):
        _, period, jobs = np.unique(submit_s // period_s, return_inverse=True, return_counts=True)
        if len(jobs) >= LEAST_PERIODS:
            apart = np.abs(np.bincount(period, replayed - recorded)).sum()
            return float(apart / (recorded.sum() + WAITED_S * len(recorded)))
    return None


def _alike(recorded: Floats, replayed: Floats) -> float | None:
    from scipy.stats import spearmanr  # takes half a second to load

    return float(spearmanr(recorded, replayed).statistic) if np.ptp(recorded) and np.ptp(replayed) else None


def unexplained(replays: Sequence[Replay]) -> tuple[float, float]:
    """Return two shares that EASY cannot explain: of jobs that waited, those that later jobs of other users overtook,
    though these had as many processors and as long a limit; of the waiting time, that with enough free processors.
    """
    found = np.sum([Shares(), *map(_shares, replays)], axis=0).tolist()
    waited, overtaken, idle = found
    return overtaken / (waited or 1.0), idle / (waited or 1.0)


def _shares(replay: Replay) -> Shares:
    work, start = replay.work, replay.start_s
    waited = np.flatnonzero(start - work.submit_s > WAITED_S)
    if not len(waited):
        return Shares()
    chosen = waited[:: -(-len(waited) // SAMPLE)]
    user = np.unique([job.user for job in replay.jobs], return_inverse=True)[1]
    times = np.concatenate([start, start + work.run_s])
    order = np.argsort(times, kind="stable")
    times = np.concatenate([[-np.inf], times[order], [np.inf]])
    taken = np.concatenate([work.processors, -work.processors])[order]
    free = replay.capacity - np.concatenate([[0], np.cumsum(taken)])  # from each time to the next
    overtaken, idle = 0, 0.0
    for job in chosen.tolist():
        later = slice(job + 1, int(np.searchsorted(work.submit_s, start[job])))
        ahead = (start[later] < start[job]) & (user[later] != user[job])
        ahead &= work.processors[later] >= work.processors[job]
        overtaken += bool((ahead & (work.estimate_s[later] >= work.estimate_s[job])).any())
        low, high = np.searchsorted(times, (work.submit_s[job], start[job]), side="right")
        lasts = np.diff(np.clip(times[low - 1 : high + 1], work.submit_s[job], start[job]))
        idle += float(lasts[free[low - 1 : high] >= work.processors[job]].sum() / lasts.sum())
    scale = len(waited) / len(chosen)
    return Shares(float(len(waited)), overtaken * scale, idle * scale)
