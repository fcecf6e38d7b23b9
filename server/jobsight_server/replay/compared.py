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
from jobsight_server.replay.agreement import WEEK_S, QueueAgreement, explained, unexplained
from jobsight_server.replay.counted import BEFORE, HELD, NONE_COUNTED, at_beginning, counted_since
from jobsight_server.replay.explained import BY_QUEUE, FCFS, WAYS, Way
from jobsight_server.replay.machines import Machine
from jobsight_server.replay.queue import Floats, Replay, Waits
from jobsight_server.replay.record import AssumedSize

LEAST_WEEKS = 8
"""Weeks below which no interval is given: with four, nine in ten or fewer would have the truth in them."""

RULES: dict[str, tuple[str, str]] = {
    "as requested": ("as explained", "request"),
    "backfilled as requested": ("request", "request"),
    "time limits by Jobsight": ("limits", "request"),
    "run times by last two": ("last two", "request"),
    "run times by Jobsight": ("Jobsight", "request"),
    "memory by last two": ("as explained", "last two"),
    "memory by Jobsight": ("as explained", "Jobsight"),
    "both by last two": ("last two", "last two"),
    "both by Jobsight": ("Jobsight", "Jobsight"),
}
"""Sources of run times and memory. EASY backfills by requests or lowered limits, EASY++ by predicted run times."""
RECORD, REPLAY, BACKFILLED, LIMITS = "recorded", "as requested", "backfilled as requested", "time limits by Jobsight"
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
    """Which queues a replay explains, and the shares of the record that EASY cannot explain.

    ``explains`` if it does so for ``answered`` jobs; it is null if jobs hardly wait: that shows nothing.
    """

    explains: bool | None
    answered: int
    queues: list[QueueAgreement]
    overtaken: float
    room_while_waiting: float


class RuleFigures(Record):
    """The answered jobs, or all counted ones, under one rule. Waits are a mean and the ends of its 95 % interval, null
    if weeks are few; ``wait_of_baseline`` is the ratio to that rule, ``weeks_shorter`` those with shorter mean waits.
    """

    mean_wait_s: tuple[float, float | None, float | None]
    baseline: str
    wait_of_baseline: tuple[float | None, float | None, float | None]
    weeks_shorter: int
    p95_wait_s: float
    mean_bounded_slowdown: float
    p95_bounded_slowdown: float
    utilisation: float | None
    killed: int


class Comparison(Record):
    """The jobs of ``trace`` submitted in a span of time, under each rule; ``assumed`` counts values by reason.

    ``weeks`` are those for intervals, ``weeks_begun`` those in which answered jobs were submitted. ``memory_reserved``
    and ``memory_used`` are shares of the memory of nodes whose memory is known, over the time.
    """

    trace: str
    since: float
    until: float
    jobs: int
    weeks: int
    weeks_begun: int
    machines: list[MachineSummary]
    memory_reserved: float | None
    memory_used: float | None
    assumed: dict[str, int]
    replay: Agreement
    rules: dict[str, RuleFigures]


def simulated(
    trace: str, machines: Sequence[Machine], since: float, progress: Callable[[int, int], None]
) -> tuple[Comparison, dict[str, Floats]]:
    """Compare the rules on the jobs submitted from ``since`` on, of queues whose waits a replay explains; return also
    the mean wait in each week by rule.

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
    submitted = np.concatenate([(replay.work.submit_s + base)[replay.counts] for replay in replays])
    if not len(submitted):
        raise UserError(NONE_COUNTED)
    first, last = float(submitted.min()) - base, float(submitted.max()) - base
    done, total = 0, sum(len(replay.jobs) for replay in replays) * (len(WAYS) + len(RULES))

    def report(ended: int) -> None:
        progress(done + ended, total)

    agreement = _agreement(replays, report)
    done = sum(len(replay.jobs) for replay in replays) * len(WAYS)
    reserved, used = _memory(replays, first, last)
    replays = [replay for replay in replays if replay.counts.any()]
    rules = [REPLAY]
    if agreement.explains:
        rules = _rules(replays)
        for replay in replays:
            replay.forecast()
    found: dict[str, list[Waits]] = defaultdict(list)
    for replay in replays:
        found[RECORD].append(replay.waits(replay.start_s, [0] * len(replay.jobs), first, last))
        for name in rules:
            found[name].append(replay.waits(*replay.run(*RULES[name], report), first, last))
            done += len(replay.jobs)
    counted = np.concatenate([(replay.work.submit_s + base)[replay.counts] for replay in replays])
    ends = np.concatenate([(replay.start_s + replay.work.run_s + base)[replay.counts] for replay in replays])
    week = np.unique((counted - since) // WEEK_S, return_inverse=True)[1]
    # A short record has jobs that waited for weeks.
    weeks = min(int(week.max()) + 1, len(np.unique((ends - since) // WEEK_S)))
    capacity = sum(replay.capacity for replay in replays) * (last - first)
    waits = {name: np.concatenate([of.wait_s for of in each]) for name, each in found.items()}
    figures = {}
    for name, each in found.items():
        is_planned = name in RULES and RULES[name][0] not in ("as explained", "request")
        baseline = BACKFILLED if is_planned and BACKFILLED in found else REPLAY
        figures[name] = _figures(each, waits[name], (baseline, waits[baseline]), week, capacity)
    if weeks < LEAST_WEEKS:
        for row in figures.values():
            row.mean_wait_s = row.mean_wait_s[0], None, None
            row.wait_of_baseline = row.wait_of_baseline[0], None, None
    weekly = {name: np.bincount(week, wait) / np.bincount(week) for name, wait in waits.items()}
    comparison = Comparison(
        trace=trace,
        since=float(submitted.min()),
        until=float(submitted.max()),
        jobs=len(submitted),
        weeks=weeks,
        weeks_begun=int(week.max()) + 1,
        machines=[summary(machine) for machine in machines],
        memory_reserved=reserved,
        memory_used=used,
        assumed={reason: count for reason, count in assumed.items() if count},
        replay=agreement,
        rules=figures,
    )
    return comparison, weekly


def _memory(replays: Sequence[Replay], first: float, last: float) -> tuple[float, float] | tuple[None, None]:
    """Return the shares of the known memory that jobs reserved, and that they used, as recorded."""
    known = [replay for replay in replays if (replay.nodes.memory_bytes < UNLIMITED).all()]
    capacity = sum(float(replay.nodes.memory_bytes.sum()) for replay in known) * (last - first)
    if not capacity:
        return None, None
    found = np.sum([replay.memory_held(first, last) for replay in known], axis=0) / capacity
    return float(found[0]), float(found[1])


def _rules(replays: Sequence[Replay]) -> list[str]:
    """Return the rules that can differ from the replay, and that."""
    is_limited = any((replay.nodes.memory_bytes < UNLIMITED).any() for replay in replays)
    is_backfilled = all(replay.way.order not in (FCFS, BY_QUEUE) for replay in replays)
    same = {BACKFILLED} if is_backfilled else set()
    return [name for name, (_, memory) in RULES.items() if name not in same and (is_limited or memory == "request")]


def _figures(
    found: Sequence[Waits], wait: Floats, baseline: tuple[str, Floats], week: NDArray[np.int64], capacity: float
) -> RuleFigures:
    slowdown = np.concatenate([of.slowdown for of in found])
    name, before = baseline
    (_, low, high), (ratio, least, most) = resampled(wait, week), resampled(wait, week, before)
    return RuleFigures(
        mean_wait_s=(float(wait.mean()), low, high),
        baseline=name,
        wait_of_baseline=(ratio, least, most),
        weeks_shorter=int((np.bincount(week, wait) < np.bincount(week, before)).sum()),
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


def _agreement(replays: Sequence[Replay], progress: Callable[[int], None]) -> Agreement:
    """Set the way of each replay, and let only the jobs count that are explained, if there are any that wait."""
    shares = unexplained(replays)
    done, found = 0, []
    for replay in replays:
        found.append(explained(replay, progress, done))
        done += len(replay.jobs) * len(WAYS)
    queues = [queue for of in found for queue in of.queues]
    judged = [of.explains for of in queues if of.explains is not None]
    explains = any(judged) if judged else None
    for replay, of in zip(replays, found, strict=True):
        replay.way = of.way if explains else Way()
        replay.counts = of.answered if explains else replay.counts
    answered = sum(int(replay.counts.sum()) for replay in replays) if explains else 0
    return Agreement(explains, answered, queues, *shares)
