"""``jobsight simulate DATABASE``: how long a site's jobs waited, and would have with Jobsight's forecasts."""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from jobsight_predictor.question import Question
from jobsight_scheduler.figures import resampled
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.easy_plus import EasyPlus
from jobsight_scheduler.prediction import LastTwo, Stated
from jobsight_scheduler.simulator.shared_nodes import UNLIMITED, NodeSizes, SharedSimulation
from jobsight_scheduler.workload.canonical import Workload
from jobsight_server.command_line.trace_argument import open_trace, part_of, read_trace
from jobsight_server.commands.simulate.report import check_outputs
from jobsight_server.queries.site_machines import Machine, MachineJob, newest_end, site_machines, trace_machine
from jobsight_server.storage.errors import UserError

DAY_S, WEEK_S = 86_400.0, 604_800.0
DAYS = 90
LEAST_WEEKS = 4
"""Weeks below which no interval is given."""
WAITED_S = 60.0
EARLY = 0.1
"""Share of jobs submitted before the record begins that is worth a warning."""
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
        asked = [job.requested_bytes or 0.0 for job in self.jobs]
        self._request = [self._fitted(job, amount) for job, amount in zip(self.jobs, asked, strict=True)]
        cut = sum(given < amount for given, amount in zip(self._request, asked, strict=True))
        assumed["request more memory than their nodes have: cut to that"] += cut
        used = [np.nan if job.used_bytes is None else job.used_bytes for job in self.jobs]
        self.used_bytes = np.minimum(used, self._request)  # a job that used more than its request was not killed

    def run(self, run_times: str, memory: str) -> tuple[Floats, Sequence[int]]:
        """Return the start of each job's last run, and how often it was killed before."""
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
        while not simulation.advance(100_000):
            pass
        return simulation.start_s, simulation.failures

    def outcome(self, start_s: Floats, killed: Sequence[int], first: float, last: float) -> Outcome:
        """Return the figures of the jobs submitted from ``first`` on."""
        work, counted = self.work, self.work.submit_s >= first
        wait = start_s - work.submit_s
        slowdown = np.maximum(1.0, (wait + work.run_s) / np.maximum(work.run_s, 10.0))
        within = np.minimum(start_s + work.run_s, last) - np.maximum(start_s, first)
        busy = float(work.processors @ np.maximum(within, 0.0))
        return Outcome(wait[counted], slowdown[counted], np.asarray(killed)[counted], busy)

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
        """Return the amount, or what its nodes have if that is less."""
        key = job.processors, amount
        if key not in self._fitting:
            while amount and self.nodes.room(amount).sum() < job.processors:
                amount *= 0.98
            self._fitting[key] = amount
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


def run(args: argparse.Namespace) -> int:
    check_outputs(args)
    part = part_of(args)
    with open_trace(args.trace, part) as connection:
        if connection is None:
            machines = [trace_machine(*read_trace(args.trace))]
            name, end = machines[0].name, max(job.end for job in machines[0].jobs)
        else:
            name, end = f"finished jobs of {part.cluster or 'all clusters'}", newest_end(connection, part)
            part = part._replace(since=end - DAYS * DAY_S if part.since is None else part.since)
            machines = site_machines(connection, part)
    if args.classes:
        machines = [_on_classes(machines, args.classes)]
    account, waits = simulated(machines, end - DAYS * DAY_S if part.since is None else part.since)
    account = {"trace": name, **account}
    if args.plot is not None:
        from jobsight_server.commands.simulate.plot import draw_waits

        draw_waits(account["rules"], waits, args.plot)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        from jobsight_server.commands.simulate.site_report import show

        show(account, Console())
    return 0


def _on_classes(machines: Sequence[Machine], classes: str) -> Machine:
    """Return one machine of all jobs."""
    jobs = sorted((job for machine in machines for job in machine.jobs), key=lambda job: job.submitted)
    try:
        return Machine(classes, NodeSizes.of(classes), jobs)
    except ValueError as error:
        raise UserError(f"--classes: {error}") from error


def simulated(machines: Sequence[Machine], since: float) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return the account of the jobs submitted from ``since`` on, as printed by ``--json``, and the mean wait in each
    week by rule. Jobs submitted before fill the machines.

    Raises:
        UserError: no job was submitted from then on.
    """
    assumed: Counter[str] = Counter()
    base = min(job.submitted for machine in machines for job in machine.jobs)
    replays = [Replay(machine, base, assumed) for machine in machines]
    submitted = np.concatenate([replay.work.submit_s for replay in replays]) + base
    early = int(np.count_nonzero(submitted < min(job.end for machine in machines for job in machine.jobs)))
    if early > EARLY * len(submitted):
        assumed["were submitted before the first end in the record: machines seem emptier than they were"] = early
    counted = submitted[submitted >= since]
    if not len(counted):
        raise UserError("no finished job was submitted in this time; give an earlier --since")
    first, last = float(counted.min()) - base, float(counted.max()) - base
    week = ((counted - since) // WEEK_S).astype(np.int64)
    week = np.unique(week, return_inverse=True)[1]
    is_limited = any((machine.nodes.memory_bytes < UNLIMITED).any() for machine in machines)
    rules = {name: sources for name, sources in RULES.items() if is_limited or sources[1] == "request"}
    found: dict[str, list[Outcome]] = defaultdict(list)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying", total=len(replays) * len(rules))
        for replay in replays:
            found[RECORD].append(replay.outcome(replay.start_s, [0] * len(replay.jobs), first, last))
            for name, sources in rules.items():
                found[name].append(replay.outcome(*replay.run(*sources), first, last))
                progress.advance(task)
    capacity = sum(replay.capacity for replay in replays) * (last - first)
    waits = {name: np.concatenate([of.wait_s for of in each]) for name, each in found.items()}
    figures = {name: _figures(each, waits[name], waits[REPLAY], week, capacity) for name, each in found.items()}
    weekly = {name: np.bincount(week, wait) / np.bincount(week) for name, wait in waits.items()}
    account = {
        "since": float(counted.min()),
        "until": float(counted.max()),
        "jobs": len(counted),
        "weeks": int(week.max()) + 1,
        "machines": [_machine(machine) for machine in machines],
        "assumed": {reason: count for reason, count in assumed.items() if count},
        "replay": _explained(waits[RECORD], waits[REPLAY], replays),
        "rules": figures,
    }
    return account, weekly


def _figures(
    found: Sequence[Outcome], wait: Floats, replayed: Floats, week: NDArray[np.int64], capacity: float
) -> dict[str, Any]:
    slowdown = np.concatenate([of.slowdown for of in found])
    has_interval = int(week.max()) + 1 >= LEAST_WEEKS
    mean, change = resampled(wait, week), resampled(wait, week, replayed)
    return {
        "mean_wait_s": mean if has_interval else [mean[0], None, None],
        "wait_of_replay": change if has_interval else [change[0], None, None],
        "p95_wait_s": float(np.quantile(wait, 0.95)),
        "mean_bounded_slowdown": float(slowdown.mean()),
        "p95_bounded_slowdown": float(np.quantile(slowdown, 0.95)),
        "utilisation": sum(of.busy_s for of in found) / capacity if capacity else None,
        "killed": int(sum(of.killed.sum() for of in found)),
    }


def _machine(machine: Machine) -> dict[str, Any]:
    memory = float(machine.nodes.memory_bytes.sum())
    size = {"nodes": len(machine.nodes.processors), "processors": int(machine.nodes.processors.sum())}
    own = machine.jobs
    return {"name": machine.name, **size, "memory_bytes": memory if memory < UNLIMITED else None, "jobs": len(own)}


def _explained(recorded: Floats, replayed: Floats, replays: Sequence[Replay]) -> dict[str, Any]:
    """Return how far the replay agrees with the record, and what of the record EASY cannot explain.

    ``explains`` is None if waits hardly differ: means alike then show nothing.
    """
    from scipy.stats import spearmanr  # takes half a second to load

    alike = float(spearmanr(recorded, replayed).statistic) if np.ptp(recorded) and np.ptp(replayed) else None
    ratio = (replayed.mean() + WAITED_S) / (recorded.mean() + WAITED_S)
    shares = np.array([_unexplained(replay) for replay in replays])
    total = shares[:, 0].sum()
    overtaken, idle = (float(part) / total if total else 0.0 for part in shares[:, 1:].sum(axis=0))
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
    times = times[order]
    free = replay.capacity - np.cumsum(np.concatenate([work.processors, -work.processors])[order])
    overtaken, idle = 0, 0.0
    for job in chosen.tolist():
        later = slice(job + 1, int(np.searchsorted(work.submit_s, start[job])))
        ahead = (start[later] < start[job]) & (user[later] != user[job])
        ahead &= work.processors[later] >= work.processors[job]
        overtaken += bool((ahead & (work.estimate_s[later] >= work.estimate_s[job])).any())
        low, high = np.searchsorted(times, (work.submit_s[job], start[job]), side="right")
        edges = np.concatenate([[work.submit_s[job]], times[low : high - 1], [start[job]]])
        level = free[max(low - 1, 0) : high - 1] if low else np.concatenate([[replay.capacity], free[: high - 1]])
        lasts = np.diff(edges)[: len(level)]
        idle += float(lasts[level[: len(lasts)] >= work.processors[job]].sum() / (start[job] - work.submit_s[job]))
    scale = len(waited) / len(chosen)
    return float(len(waited)), overtaken * scale, idle * scale
