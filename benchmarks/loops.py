"""Jobsight in closed loops: what it recommends decides which jobs are killed, and what it learns next.

    [SEED=2] python benchmarks/loops.py [-v] [SCENARIOS.py [NAME ...]]

Each scenario is a list of jobs as in ``benchmarks/loop_scenarios.py``, the default. A job asks at submission and starts
5 s later with what it is given. If it is killed, the user submits it again after a minute, up to seven attempts. A kill
is Jobsight's own if the job would have run with its own request. Waste is what was reserved and not used, over what
completed jobs used, in GiB-hours. -v explains the scenarios.
"""

from __future__ import annotations

import argparse
import heapq
import importlib.util
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from loop_product import STARTS_AFTER_S, Allocated, Ended, Product

ATTEMPTS = 7
AGAIN_AFTER_S = 60.0
LEAST_WASTE = 0.02
"""Smaller shares count as this in the geometric mean."""


class Site(Protocol):
    """Decides what jobs get, and learns from the runs that end at the same time."""

    def submit(self, job: Any, now: float) -> Allocated: ...

    def learn(self, ended: list[Ended]) -> None: ...


@dataclass(slots=True)
class LoopTotals:
    """Counts of a loop; memory in GiB-seconds."""

    jobs: int = 0
    kills: int = 0
    own: int = 0
    lost: int = 0
    unused: float = 0.0
    used: float = 0.0

    @property
    def waste(self) -> float:
        """Return the amount reserved and not used over that used; inf if no job completed."""
        return self.unused / self.used if self.used else math.inf


@dataclass(frozen=True, slots=True)
class LoopAttempt:
    """One attempt of a job with what follows: whether it is killed, and whether its own request would have done."""

    ended: Ended
    attempt: int
    is_killed: bool
    is_own: bool
    needed_gib: float


def run_of(job: Any, given: Allocated, attempt: int, submitted: float) -> LoopAttempt:
    """Let a job run with what it was given."""
    memory, limit = given.memory_gib, given.limit_s
    need = job.need(memory) if callable(job.need) else job.need
    least = need if getattr(job, "min_need", None) is None else job.min_need
    seen = need if job.seen is None else job.seen
    state, ran_s, exit_code = "COMPLETED", job.run, "0:0"
    killed_for = None
    if job.state is not None:
        state, ran_s, exit_code = job.state, job.after or job.run, "1:0" if job.state == "FAILED" else "0:0"
    elif memory is not None and least > memory * (1 + 1e-9):
        state, exit_code = getattr(job, "oom_state", "OUT_OF_MEMORY"), getattr(job, "oom_exit", "0:125")
        killed_for, ran_s = "memory", 0.9 * job.run
        seen = 0.99 * memory if job.seen is None else min(0.99 * memory, seen)
    if limit is not None and ran_s > limit + 1e-6:
        killed_for, state, ran_s, exit_code = "time", "TIMEOUT", limit, "0:0"
    would_hold = {
        None: False,
        "memory": job.asked is not None and job.asked >= least,
        "time": bool(job.limit) and job.limit >= job.run,
    }
    start = submitted + STARTS_AFTER_S
    ended = Ended(job, given, submitted, start, start + max(1.0, ran_s), state, exit_code, seen)
    return LoopAttempt(ended, attempt, killed_for is not None, would_hold[killed_for], least)


class Loop:
    """Plays the jobs of one scenario on a site, event by event; at one time, ends come before submissions."""

    def __init__(self, site: Site, jobs: Sequence[Any]) -> None:
        self._site = site
        self._chain: Iterator[Any] = iter([job for job in jobs if job.at is None])
        self._ends: list[tuple[float, int, LoopAttempt]] = []
        self._submissions: list[tuple[float, int, Any, int]] = []
        self._events = 0
        self.outcome = LoopTotals()
        for job in jobs:
            if job.at is not None:
                self._submit_at(job.at, job)
        self._continue_chain(0.0)

    def play(self) -> LoopTotals:
        """Play until no job is left."""
        while self._ends or self._submissions:
            if self._ends and (not self._submissions or self._ends[0][0] <= self._submissions[0][0]):
                self._end_together()
            else:
                now, _, job, attempt = heapq.heappop(self._submissions)
                self.outcome.jobs += attempt == 1
                run = run_of(job, self._site.submit(job, now), attempt, now)
                self._count(run)
                self._events += 1
                heapq.heappush(self._ends, (run.ended.end, self._events, run))
        return self.outcome

    def _end_together(self) -> None:
        now, together = self._ends[0][0], list[LoopAttempt]()
        while self._ends and self._ends[0][0] == now:
            together.append(heapq.heappop(self._ends)[2])
        self._site.learn([run.ended for run in together])
        for run in together:
            job = run.ended.job
            if run.is_killed and run.attempt < ATTEMPTS:
                self._submit_at(now + AGAIN_AFTER_S, job, run.attempt + 1)
                continue
            self.outcome.lost += run.is_killed
            if job.at is None:
                self._continue_chain(now)

    def _submit_at(self, time: float, job: Any, attempt: int = 1) -> None:
        self._events += 1
        heapq.heappush(self._submissions, (time, self._events, job, attempt))

    def _continue_chain(self, now: float) -> None:
        if (job := next(self._chain, None)) is not None:
            self._submit_at(now + AGAIN_AFTER_S, job)

    def _count(self, run: LoopAttempt) -> None:
        ended, counts = run.ended, self.outcome
        seconds, given = ended.end - ended.start, ended.given.memory_gib or 0.0
        is_complete = ended.state == "COMPLETED"
        counts.kills += run.is_killed
        counts.own += run.is_own
        counts.used += run.needed_gib * seconds * is_complete
        counts.unused += (given - min(run.needed_gib, given) * is_complete) * seconds


def scenarios_in(path: Path, names: Sequence[str] = ()) -> dict[str, tuple[str, str, Any]]:
    """Return the scenarios of a Python file, all or those whose names begin so: label, sentence and maker by name.

    Raises:
        SystemExit: it is no Python file, or has no such scenario.
    """
    spec = importlib.util.spec_from_file_location("scenarios", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SystemExit(f"{path}: not a Python file of scenarios")
    module = importlib.util.module_from_spec(spec)
    sys.modules["scenarios"] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    found = getattr(module, "S", None)
    if not isinstance(found, dict):
        raise SystemExit(f"{path}: has no scenarios: define S, a dict of (label, sentence, function) by name")
    chosen = {name: one for name, one in found.items() if not names or name.startswith(tuple(names))}
    if not chosen:
        raise SystemExit(f"{path}: no scenario {' or '.join(names)}; it has {', '.join(found) or 'none'}")
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=Path(__file__).with_name("loop_scenarios.py"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios whose names begin so (default: all)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each scenario's label and sentence")
    args = parser.parse_args()
    found = scenarios_in(args.file, args.names)
    print(f"{'scenario':<34}{'jobs':>6}{'kills':>6}{'own':>5}{'lost':>5}{'waste':>8}")
    outcomes = []
    for name, (label, sentence, make) in found.items():
        with Product() as site:
            outcome = Loop(site, make()).play()
        outcomes.append(outcome)
        print(_line(name, outcome, outcome.waste), flush=True)
        if args.verbose:
            print(f"    {label}: {sentence}", flush=True)
    total = LoopTotals(*(sum(getattr(one, name) for one in outcomes) for name in ("jobs", "kills", "own", "lost")))
    logs = [math.log(max(LEAST_WASTE, one.waste)) for one in outcomes if one.used]
    print(_line("total", total, math.exp(sum(logs) / len(logs)) if logs else math.inf))
    print(f"waste of the total is the geometric mean of the {len(logs)} loops in which a job completed")
    return 0


def _line(name: str, of: LoopTotals, waste: float) -> str:
    return f"{name:<34}{of.jobs:>6}{of.kills:>6}{of.own:>5}{of.lost:>5}{waste:>8.3f}"


if __name__ == "__main__":
    sys.exit(main())
