"""How long a site's jobs waited, and would have with Jobsight's forecasts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.figures import resampled
from jobsight_scheduler.simulator.shared_nodes import UNLIMITED
from jobsight_server.ground.answers import Record
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.counted import BEFORE, DAY_S, HELD, NONE_COUNTED, at_beginning, counted_since
from jobsight_server.replay.machines import Machine
from jobsight_server.replay.queue import Floats, Replay, Waits
from jobsight_server.replay.record import AssumedSize

WEEK_S = 7 * DAY_S
LEAST_WEEKS = 8
"""Weeks below which no interval is given: with four, nine in ten or fewer would have the truth in them."""
WAITED_S = 60.0
SAMPLE = 2_000
"""Waiting jobs that are examined for what EASY cannot explain."""
ALIKE, WITHIN = 0.5, 2.0
"""A replay explains the record if waits have this rank correlation, and means differ by this factor at most."""

RULES: dict[str, tuple[str, str]] = {
    "as requested": ("request", "request"),
    "run times by last two": ("last two", "request"),
    "run times by Jobsight": ("Jobsight", "request"),
    "memory by last two": ("request", "last two"),
    "memory by Jobsight": ("request", "Jobsight"),
    "both by last two": ("last two", "last two"),
    "both by Jobsight": ("Jobsight", "Jobsight"),
}
"""Sources of run times and memory. EASY backfills by requested run times, EASY++ by predicted ones."""
RECORD, REPLAY = "recorded", "as requested"
OURS, SIMPLEST = "Jobsight", "last two"


class MachineSummary(Record):
    """A machine; ``nodes`` and memory are null where unknown, ``assumed_size`` where the size is known."""

    name: str
    nodes: int | None
    processors: int
    memory_bytes: float | None
    jobs: int
    assumed_size: AssumedSize | None


class Agreement(Record):
    """How far the replay agrees with the record, and the shares of the record that EASY cannot explain.

    ``explains`` is null if waits hardly differ: means alike then show nothing.
    """

    explains: bool | None
    rank_correlation: float | None
    overtaken: float
    room_while_waiting: float


class RuleFigures(Record):
    """The counted jobs under one rule. Waits are a mean and the ends of its 95 % interval, null if weeks are few;
    ``wait_of_replay`` is the ratio to the replay as requested.
    """

    mean_wait_s: tuple[float, float | None, float | None]
    wait_of_replay: tuple[float | None, float | None, float | None]
    p95_wait_s: float
    mean_bounded_slowdown: float
    p95_bounded_slowdown: float
    utilisation: float | None
    killed: int


class Comparison(Record):
    """The jobs of ``trace`` submitted in a span of time, under each rule; ``assumed`` counts values by reason."""

    trace: str
    since: float
    until: float
    jobs: int
    weeks: int
    machines: list[MachineSummary]
    assumed: dict[str, int]
    replay: Agreement
    rules: dict[str, RuleFigures]


def simulated(
    trace: str, machines: Sequence[Machine], since: float, progress: Callable[[int, int], None]
) -> tuple[Comparison, dict[str, Floats]]:
    """Compare the rules on the jobs submitted from ``since`` on; return also the mean wait in each week by rule.

    Jobs submitted before, and runs that did not end, fill the machines. ``progress`` gets the number of replayed jobs,
    and of all.

    Raises:
        UserError: no job was submitted from then on.
    """
    jobs = [job for machine in machines for job in machine.jobs]
    since = counted_since(jobs, since)
    held = [job for job in jobs if not job.counts]
    assumed = Counter({HELD: len(held), BEFORE: sum(job.counts and job.submitted < since for job in jobs)})
    base = min(job.submitted for job in jobs)
    begun = [replace(machine, jobs=at_beginning(machine.jobs, since)) for machine in machines]
    replays = [Replay(machine, base, since, assumed) for machine in begun]
    counted = np.concatenate([(replay.work.submit_s + base)[replay.counts] for replay in replays])
    ends = np.concatenate([(replay.start_s + replay.work.run_s + base)[replay.counts] for replay in replays])
    if not len(counted):
        raise UserError(NONE_COUNTED)
    first, last = float(counted.min()) - base, float(counted.max()) - base
    week = np.unique((counted - since) // WEEK_S, return_inverse=True)[1]
    # A short record has jobs that waited for weeks.
    weeks = min(int(week.max()) + 1, len(np.unique((ends - since) // WEEK_S)))
    is_limited = any((machine.nodes.memory_bytes < UNLIMITED).any() for machine in machines)
    rules = {name: sources for name, sources in RULES.items() if is_limited or sources[1] == "request"}
    found: dict[str, list[Waits]] = defaultdict(list)
    done, total = 0, sum(len(replay.jobs) for replay in replays) * len(rules)

    def report(ended: int) -> None:
        progress(done + ended, total)

    for replay in replays:
        found[RECORD].append(replay.waits(replay.start_s, [0] * len(replay.jobs), first, last))
        for name, sources in rules.items():
            found[name].append(replay.waits(*replay.run(*sources, report), first, last))
            done += len(replay.jobs)
    capacity = sum(replay.capacity for replay in replays) * (last - first)
    waits = {name: np.concatenate([of.wait_s for of in each]) for name, each in found.items()}
    figures = {name: _figures(each, waits[name], waits[REPLAY], week, capacity) for name, each in found.items()}
    if weeks < LEAST_WEEKS:
        for row in figures.values():
            row.mean_wait_s = row.mean_wait_s[0], None, None
            row.wait_of_replay = row.wait_of_replay[0], None, None
    weekly = {name: np.bincount(week, wait) / np.bincount(week) for name, wait in waits.items()}
    comparison = Comparison(
        trace=trace,
        since=float(counted.min()),
        until=float(counted.max()),
        jobs=len(counted),
        weeks=weeks,
        machines=[summary(machine) for machine in machines],
        assumed={reason: count for reason, count in assumed.items() if count},
        replay=_agreement(waits[RECORD], waits[REPLAY], replays),
        rules=figures,
    )
    return comparison, weekly


def _figures(
    found: Sequence[Waits], wait: Floats, replayed: Floats, week: NDArray[np.int64], capacity: float
) -> RuleFigures:
    slowdown = np.concatenate([of.slowdown for of in found])
    (_, low, high), (ratio, least, most) = resampled(wait, week), resampled(wait, week, replayed)
    return RuleFigures(
        mean_wait_s=(float(wait.mean()), low, high),
        wait_of_replay=(ratio, least, most),
        p95_wait_s=float(np.quantile(wait, 0.95)),
        mean_bounded_slowdown=float(slowdown.mean()),
        p95_bounded_slowdown=float(np.quantile(slowdown, 0.95)),
        utilisation=sum(of.busy_s for of in found) / capacity if capacity else None,
        killed=int(sum(of.killed.sum() for of in found)),
    )


def summary(machine: Machine) -> MachineSummary:
    """Summarise the machine."""
    memory = float(machine.nodes.memory_bytes.sum())
    return MachineSummary(
        name=machine.name,
        nodes=len(machine.nodes.processors) if machine.has_known_nodes else None,
        processors=int(machine.nodes.processors.sum()),
        memory_bytes=memory if memory < UNLIMITED else None,
        jobs=len(machine.jobs),
        assumed_size=machine.assumed,
    )


def _agreement(recorded: Floats, replayed: Floats, replays: Sequence[Replay]) -> Agreement:
    from scipy.stats import spearmanr  # takes half a second to load

    alike = float(spearmanr(recorded, replayed).statistic) if np.ptp(recorded) and np.ptp(replayed) else None
    ratio = (replayed.mean() + WAITED_S) / (recorded.mean() + WAITED_S)
    waited, *parts = np.sum([_unexplained(replay) for replay in replays], axis=0).tolist()
    overtaken, idle = (part / (waited or 1.0) for part in parts)
    is_near = bool(1.0 / WITHIN <= ratio <= WITHIN)
    explains = is_near and (None if alike is None else alike >= ALIKE)
    return Agreement(explains, alike, overtaken, idle)


def _unexplained(replay: Replay) -> tuple[float, float, float]:
    """Return the number of jobs that waited; of those that later jobs of other users overtook, though these had as many
    processors and as long a limit; and the sum of the shares of waiting time with enough free processors.
    """
    work, start = replay.work, replay.start_s
    waited = np.flatnonzero(start - work.submit_s > WAITED_S)
    if not len(waited):
        return 0.0, 0.0, 0.0
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
    return float(len(waited)), overtaken * scale, idle * scale
