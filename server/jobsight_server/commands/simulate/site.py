"""How long a site's jobs waited, and would have with Jobsight's forecasts."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress
from sqlalchemy import Connection

from jobsight_predictor.question import Question
from jobsight_scheduler.figures import resampled
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.easy_plus import EasyPlus
from jobsight_scheduler.prediction import LastTwo, Stated
from jobsight_scheduler.simulator.shared_nodes import UNLIMITED, SharedSimulation
from jobsight_scheduler.table import table_of
from jobsight_scheduler.workload.canonical import LARGEST_MACHINE, Workload
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.commands.simulate.report import EVENTS_AT_ONCE
from jobsight_server.ground.errors import UserError
from jobsight_server.queries.site_machines import (
    Machine,
    MachineJob,
    counted_nodes,
    newest_end,
    nodes_of_classes,
)
from jobsight_server.queries.site_trace import assumed_size
from jobsight_server.storage.clusters import Part

DAY_S, WEEK_S = 86_400.0, 604_800.0
DAYS = 90
LEAST_WEEKS = 4
"""Weeks below which no interval is given."""
WAITED_S = 60.0
EARLY = 0.1
"""Share of jobs submitted before the first end from which on the record is taken to begin there."""
SAMPLE = 2_000
"""Waiting jobs that are examined for what EASY cannot explain."""
ALIKE, WITHIN = 0.5, 2.0
"""A replay explains the record if waits have this rank correlation, and means differ by this factor at most."""

Floats = NDArray[np.float64]

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
BEFORE = "were submitted before the days shown: they run or wait at their beginning, and are not counted"
NONE_COUNTED = "no finished job was submitted in this time; give an earlier --since"
OURS, SIMPLEST = "Jobsight", "last two"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of each counted job, in the same order for every rule; arrays of shape (jobs,)."""

    wait_s: Floats
    slowdown: Floats
    killed: NDArray[np.int64]
    busy_s: float  # processor seconds between the first and the last submission


class Replay:
    """The jobs of one machine in the form of the simulator, with ``assumed`` values counted by reason."""

    def __init__(self, machine: Machine, base: float, assumed: Counter[str]) -> None:
        self.nodes, self.name = machine.nodes, machine.name
        self.capacity = int(machine.nodes.processors.sum())
        self.jobs = [job for job in machine.jobs if job.processors <= self.capacity]
        assumed["have more processors than their nodes: left out"] += len(machine.jobs) - len(self.jobs)
        longest = max((max(job.limit_s or 0.0, job.end - job.start) for job in self.jobs), default=0.0)
        assumed["request no run time: EASY takes the machine's longest"] += sum(not job.limit_s for job in self.jobs)
        assumed["request no memory: none is reserved"] += sum(not job.requested_bytes for job in self.jobs)
        run = np.array([job.end - job.start for job in self.jobs])
        limits = np.array([job.limit_s or longest for job in self.jobs])
        submitted = np.array([job.submitted for job in self.jobs])
        self.start_s = np.array([job.start for job in self.jobs]) - base
        self.work = Workload(
            submit_s=submitted - base,
            run_s=run,
            estimate_s=np.maximum(limits, run),  # a job that ran longer was not cut off there
            processors=np.array([job.processors for job in self.jobs], dtype=np.int64),
            row=np.arange(len(self.jobs)),
            counts=Counter(jobs=len(self.jobs)),
        )
        self.questions = [Question(user=job.user) for job in self.jobs]
        self._fitting: dict[tuple[int, float], float] = {}
        asked = [np.floor(job.requested_bytes or 0.0) for job in self.jobs]
        self._request = [self._fitted(job, amount) for job, amount in zip(self.jobs, asked, strict=True)]
        cut = sum(given < amount for given, amount in zip(self._request, asked, strict=True))
        assumed["request more memory than their nodes have: cut to that"] += cut
        used = [np.nan if job.used_bytes is None else job.used_bytes for job in self.jobs]
        # A job that used more than its request was not killed.
        self.used_bytes = np.floor(np.minimum(used, self._request))

    def run(self, run_times: str, memory: str, more: Callable[[int], None]) -> tuple[Floats, Sequence[int]]:
        """Return the start of each job's last run, and how often it was killed before.

        ``more`` takes the number of jobs that ended since its last call.
        """
        policies: dict[str, Callable[..., Easy]] = {
            "request": Easy,
            "last two": lambda requests: EasyPlus(requests, LastTwo(requests.questions)),
            "Jobsight": lambda requests: EasyPlus(requests, Stated(self._forecasts())),
        }
        amounts: dict[str, Callable[[], Sequence[Sequence[float]]]] = {
            "request": lambda: [()] * len(self.jobs),
            "last two": lambda: last_two(self.jobs),
            "Jobsight": lambda: [job.recommended for job in self.jobs],
        }
        attempts = [
            self._attempts(job, request, given)
            for job, request, given in zip(self.jobs, self._request, amounts[memory](), strict=True)
        ]
        simulation = SharedSimulation(
            self.work, self.nodes, policies[run_times], self.questions, attempts, self.used_bytes
        )
        is_over, ended = False, 0
        while not is_over:
            is_over = simulation.advance(EVENTS_AT_ONCE)
            more(simulation.ended - ended)
            ended = simulation.ended
        return simulation.start_s, simulation.failures

    def outcome(self, start_s: Floats, killed: Sequence[int], first: float, last: float) -> Outcome:
        """Return the figures of the jobs submitted from ``first`` on."""
        table, counted = table_of(self.work, start_s), self.work.submit_s >= first
        within = np.minimum(table.end_s, last) - np.maximum(start_s, first)
        busy = float(table.processors @ np.maximum(within, 0.0))
        return Outcome(table.wait_s[counted], table.bounded_slowdown[counted], np.asarray(killed)[counted], busy)

    def _forecasts(self) -> list[float]:
        known = zip(self.jobs, self.work.estimate_s.tolist(), strict=True)
        return [limit if job.forecast_s is None else job.forecast_s for job, limit in known]

    def _attempts(self, job: MachineJob, request: float, amounts: Sequence[float]) -> list[float]:
        """Return the amounts below the request in turn, then the request; more than that if so recommended."""
        if not request or not amounts:
            return [request]
        below = [self._fitted(job, amount) for amount in amounts if amount < request]
        return [*below, request] if below else [self._fitted(job, amounts[0])]

    def _fitted(self, job: MachineJob, amount: float) -> float:
        """Return the amount in whole bytes, or what its nodes have if that is less."""
        key = job.processors, amount
        if key not in self._fitting:
            while amount and self.nodes.room(amount).sum() < job.processors:
                amount *= 0.98
            self._fitting[key] = float(np.floor(amount))
        return self._fitting[key]


def last_two(jobs: Sequence[MachineJob]) -> list[tuple[float, ...]]:
    """Return the larger memory of the user's last two jobs that had ended at each submission; empty before."""
    ends = sorted((job for job in jobs if job.used_bytes), key=lambda job: job.end)
    last: dict[str, tuple[float, ...]] = {}
    found: list[tuple[float, ...]] = []
    ended = 0
    for job in jobs:
        while ended < len(ends) and ends[ended].end <= job.submitted:
            of_user = ends[ended].user
            last[of_user] = (*last.get(of_user, ())[-1:], ends[ended].used_bytes or 0.0)
            ended += 1
        known = last.get(job.user, ())
        found.append((max(known),) if len(known) == 2 else ())
    return found


def recent(connection: Connection, part: Part) -> Part:
    """Return this part of a database; without a beginning, its last ``DAYS``."""
    return part if part.since is not None else part._replace(since=newest_end(connection, part) - DAYS * DAY_S)


def stated(machines: Sequence[Machine], args: argparse.Namespace) -> Sequence[Machine]:
    """Return one machine of the nodes of ``--classes`` or ``--processors`` for all jobs; without these, the machines.

    Raises:
        UserError: the nodes are malformed or stated twice, the jobs are of several clusters, or none fits.
    """
    classes, processors = args.classes, args.processors
    if not classes and processors is None:
        return machines
    jobs = sorted((job for machine in machines for job in machine.jobs), key=lambda job: job.submitted)
    option = "--processors" if classes is None else "--classes"
    if len(clusters := {job.cluster for job in jobs}) > 1:
        raise UserError(f"{option} states one machine: choose its --cluster, of {', '.join(sorted(clusters))}")
    try:
        if classes is not None and processors is not None:
            raise ValueError("it states the processors too; leave out --processors")
        if processors is not None and not 0 < processors <= LARGEST_MACHINE:
            raise ValueError(f"{processors:,} is not from 1 to {LARGEST_MACHINE:,}")
        nodes = nodes_of_classes(classes) if classes is not None else counted_nodes(processors or 0)
        total = int(nodes.processors.sum())
        if (least := min(job.processors for job in jobs)) > total:
            raise ValueError(f"no job fits, the smallest needs {least:,} processors; state more")
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error
    used = assumed_size(*np.array([(job.start, job.end, job.processors) for job in jobs]).T).most
    if total < used:
        why = f"the record had {used:,} processors in use at once; state at least these, unless its times are inexact"
        print(f"jobsight simulate: {option} states {total:,}, but {why}", file=sys.stderr)
    return [Machine(classes or f"{processors:,} processors", nodes, jobs, has_known_nodes=classes is not None)]


def simulated(machines: Sequence[Machine], since: float) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return the account of the jobs submitted from ``since`` on, as printed by ``--json``, and the mean wait in each
    week by rule. Jobs submitted before fill the machines.

    Raises:
        UserError: no job was submitted from then on.
    """
    jobs = [job for machine in machines for job in machine.jobs]
    since = counted_since(jobs, since)
    assumed = Counter({BEFORE: sum(job.submitted < since for job in jobs)})
    base = min(job.submitted for job in jobs)
    replays = [Replay(replace(machine, jobs=at_beginning(machine.jobs, since)), base, assumed) for machine in machines]
    submitted = np.concatenate([replay.work.submit_s for replay in replays]) + base
    ends = np.concatenate([replay.start_s + replay.work.run_s for replay in replays]) + base
    counted = submitted[submitted >= since]
    if not len(counted):
        raise UserError(NONE_COUNTED)
    first, last = float(counted.min()) - base, float(counted.max()) - base
    week = np.unique((counted - since) // WEEK_S, return_inverse=True)[1]
    # A short record has jobs that waited for weeks.
    weeks = min(int(week.max()) + 1, len(np.unique((ends[submitted >= since] - since) // WEEK_S)))
    is_limited = any((machine.nodes.memory_bytes < UNLIMITED).any() for machine in machines)
    rules = {name: sources for name, sources in RULES.items() if is_limited or sources[1] == "request"}
    found: dict[str, list[Outcome]] = defaultdict(list)
    with Progress(console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying", total=sum(len(replay.jobs) for replay in replays) * len(rules))
        more = partial(progress.advance, task)
        for replay in replays:
            found[RECORD].append(replay.outcome(replay.start_s, [0] * len(replay.jobs), first, last))
            for name, sources in rules.items():
                found[name].append(replay.outcome(*replay.run(*sources, more), first, last))
    capacity = sum(replay.capacity for replay in replays) * (last - first)
    waits = {name: np.concatenate([of.wait_s for of in each]) for name, each in found.items()}
    figures = {name: _figures(each, waits[name], waits[REPLAY], week, capacity) for name, each in found.items()}
    if weeks < LEAST_WEEKS:
        for row in figures.values():
            row["mean_wait_s"][1:] = row["wait_of_replay"][1:] = [None, None]
    weekly = {name: np.bincount(week, wait) / np.bincount(week) for name, wait in waits.items()}
    account = {
        "since": float(counted.min()),
        "until": float(counted.max()),
        "jobs": len(counted),
        "weeks": weeks,
        "machines": [machine_account(machine) for machine in machines],
        "assumed": {reason: count for reason, count in assumed.items() if count},
        "replay": _explained(waits[RECORD], waits[REPLAY], replays),
        "rules": figures,
    }
    return account, weekly


def counted_since(jobs: Sequence[MachineJob], since: float) -> float:
    """Return the time from which on submissions count: ``since``, or the first end where the record begins with it."""
    begin = min(job.end for job in jobs)
    begins = EARLY * len(jobs) < sum(job.submitted < begin for job in jobs) < len(jobs)
    return max(since, begin) if begins else since


def at_beginning(jobs: Sequence[MachineJob], since: float) -> list[MachineJob]:
    """Return the jobs by submission, those submitted before ``since`` as they were then, running or waiting."""
    early = [job._replace(submitted=min(job.start, since - 1.0)) for job in jobs if job.submitted < since]
    return sorted([*early, *(job for job in jobs if job.submitted >= since)], key=lambda job: job.submitted)


def _figures(
    found: Sequence[Outcome], wait: Floats, replayed: Floats, week: NDArray[np.int64], capacity: float
) -> dict[str, Any]:
    slowdown = np.concatenate([of.slowdown for of in found])
    return {
        "mean_wait_s": resampled(wait, week),
        "wait_of_replay": resampled(wait, week, replayed),
        "p95_wait_s": float(np.quantile(wait, 0.95)),
        "mean_bounded_slowdown": float(slowdown.mean()),
        "p95_bounded_slowdown": float(np.quantile(slowdown, 0.95)),
        "utilisation": sum(of.busy_s for of in found) / capacity if capacity else None,
        "killed": int(sum(of.killed.sum() for of in found)),
    }


def machine_account(machine: Machine) -> dict[str, Any]:
    memory = float(machine.nodes.memory_bytes.sum())
    return {
        "name": machine.name,
        "nodes": len(machine.nodes.processors) if machine.has_known_nodes else None,
        "processors": int(machine.nodes.processors.sum()),
        "memory_bytes": memory if memory < UNLIMITED else None,
        "jobs": len(machine.jobs),
        "assumed_size": machine.assumed and machine.assumed._asdict(),
    }


def _explained(recorded: Floats, replayed: Floats, replays: Sequence[Replay]) -> dict[str, Any]:
    """Return how far the replay agrees with the record, and what of the record EASY cannot explain.

    ``explains`` is None if waits hardly differ: means alike then show nothing.
    """
    from scipy.stats import spearmanr  # takes half a second to load

    alike = float(spearmanr(recorded, replayed).statistic) if np.ptp(recorded) and np.ptp(replayed) else None
    ratio = (replayed.mean() + WAITED_S) / (recorded.mean() + WAITED_S)
    waited, *parts = np.sum([_unexplained(replay) for replay in replays], axis=0).tolist()
    overtaken, idle = (part / (waited or 1.0) for part in parts)
    is_near = bool(1.0 / WITHIN <= ratio <= WITHIN)
    explains = is_near and (None if alike is None else alike >= ALIKE)
    return {"explains": explains, "rank_correlation": alike, "overtaken": overtaken, "room_while_waiting": idle}


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
