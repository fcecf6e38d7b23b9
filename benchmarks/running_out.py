"""Which running jobs run out within ten minutes: makes the section "Running out" of docs/use/asking-again.md.

    python benchmarks/running_out.py [--output FILE] [--weeks 4] [--jobs N]

Time on recorded workloads whose jobs are held to their requested time, one decision for each job that still runs ten
minutes before its limit. Time and memory on an emulated site. There, jobs of an application grow in one of four ways
up to the memory that the emulator gives them: at once, in proportion to time, in the first half of their run, or in
its last fifth. Users ask for .9, 1.1 or 1.5 times what their application needs; a job is killed where it exceeds that.
Every five minutes there is a decision about each running job. As in the server, a job that was killed is a lower bound.
Traces are looked for in JOBSIGHT_TRACES, by default ../shared/traces. The same traces give the same section.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from accuracy import ROOT, TRACES, workload
from asked_again import RUNNING_OUT, table

from jobsight_emulator.placement import WALLTIME_EXIT, place_jobs
from jobsight_emulator.plan import SitePlan
from jobsight_emulator.site import make_site
from jobsight_emulator.workload import make_jobs
from jobsight_predictor.evaluation.jobs import first_jobs
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import AtStart, PendingForecast
from jobsight_predictor.profile.running import Outlook, grown, memory_runs_out, time_runs_out
from jobsight_predictor.question import Question

TEXT = Path(__file__).with_name("running_out_text.md.in")
HORIZON_S = 600.0
EVERY_S, READ_S = 300.0, 60.0
LIKELY, NEAR = 0.5, 0.9
KILLED = ("KTH-SP2", "SDSC-SP2", "UniLu-Gaia")
"""Traces with requested times that hold their jobs."""
ASKED = (0.9, 1.1, 1.5)
SHAPES = {
    "at once": lambda share: 1.0,
    "in proportion": lambda share: share,
    "in the first half": lambda share: min(1.0, 2.0 * share),
    "in the last fifth": lambda share: 0.3 + 0.7 * max(0.0, 5.0 * share - 4.0),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its times in seconds, its limits, what it ran out of; ``peaks`` so far by minute, of each processor."""

    question: Question
    submitted: float
    start: float
    end: float
    limit_s: float
    failed: str | None
    peaks: Sequence[float] = ()
    limit: float = 0.0


@dataclass(slots=True)
class Score:
    """Decisions that were right, that said a job would run out, and that should have."""

    right: int = 0
    said: int = 0
    true: int = 0

    def count(self, said: bool, true: bool) -> None:
        self.right += said and true
        self.said += said
        self.true += true

    def __str__(self) -> str:
        shares = [self.right / n if n else None for n in (self.said, self.true)]
        return " / ".join("-" if share is None else f"{share:.2f}" for share in shares)


RULES = ("Jobsight", "extrapolation", "request minus used")
Scores = dict[str, Score]


class Watched:
    """The models of run time and memory, and what they say of the runs that are under way."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.profiles = {"runtime": Profile("s", metric="runtime")}
        if any(run.peaks for run in runs):
            self.profiles["memory"] = Profile("bytes", metric="memory")
        self.scores: dict[str, Scores] = {name: {rule: Score() for rule in RULES} for name in ("time", "memory")}
        self.decisions: Counter[str] = Counter()
        self._pending: dict[tuple[int, str], PendingForecast] = {}
        self._again: dict[tuple[int, str], AtStart] = {}
        self._outlooks: dict[tuple[int, str], tuple[int, Outlook]] = {}
        self._ended: Counter[str | None] = Counter()

    def play(self) -> None:
        """Everything, in order of time."""
        for event, i, at in self._events():
            run = self.runs[i]
            for metric, profile in self.profiles.items():
                if event == "submit":
                    self._pending[i, metric] = profile.forecast_job(run.question)
                elif event == "start":
                    self._again[i, metric] = AtStart.of(profile.forecast_job(run.question, "start"))
                elif event == "end":
                    self._learn(i, metric)
            if event == "time":
                self._decide_time(i, at)
            elif event == "memory":
                self._decide_memory(i, at)

    def _events(self) -> list[tuple[str, int, float]]:
        """At one instant ends come first, then submissions, starts, decisions."""
        rank = ("end", "submit", "start", "time", "memory")
        found = [(at, rank.index(event), i, event) for i, run in enumerate(self.runs) for event, at in _of(run)]
        return [(event, i, at) for at, _, i, event in sorted(found)]

    def _learn(self, i: int, metric: str) -> None:
        run = self.runs[i]
        value = run.end - run.start if metric == "runtime" else run.peaks[-1]
        is_bound = run.failed is not None and (metric == "runtime" or run.failed == "memory")
        pending, again = self._pending.pop((i, metric)), self._again.pop((i, metric))
        seconds = max(1.0, run.end - run.start)
        self.profiles[metric].learn(run.question, value, pending, seconds, lower_bound=is_bound, at_start=again)
        self._ended[run.question.user] += 1
        self._outlooks.pop((i, metric), None)

    def _outlook(self, i: int, metric: str) -> Outlook:
        """Made again when its user's jobs have ended, as the server does."""
        question, known = self.runs[i].question, self._outlooks.get((i, metric))
        ended = self._ended[question.user]
        if known is None or known[0] != ended:
            known = self._outlooks[i, metric] = ended, self.profiles[metric].outlook(question)
        return known[1]

    def _count(self, name: str, true: bool, said: Sequence[bool]) -> None:
        self.decisions[name] += 1
        for rule, yes in zip(RULES, said, strict=True):
            self.scores[name][rule].count(yes, true)

    def _decide_time(self, i: int, at: float) -> None:
        run = self.runs[i]
        found = time_runs_out(self._outlook(i, "runtime"), at - run.start, run.limit_s, HORIZON_S)
        soon = found is not None and found.soon >= LIKELY and self.profiles["runtime"].are_limits
        # Elapsed time grows by a second a second: extrapolated, every job reaches its limit.
        self._count("time", run.failed == "time", (soon, True, True))

    def _decide_memory(self, i: int, at: float) -> None:
        run = self.runs[i]
        known = run.peaks[: int((at - run.start) / READ_S) + 1]
        growth = 0.0
        for before, peak in itertools.pairwise(known):
            growth = grown(growth, before, peak, READ_S)
        left_s = self._outlook(i, "runtime").final(at - run.start) - (at - run.start)
        left_s = max(1.0, min(left_s, run.start + run.limit_s - at))
        outlook = self._outlook(i, "memory")
        found = memory_runs_out(outlook, known[-1], growth, run.limit, at - run.start, left_s, HORIZON_S)
        soon = found is not None and found.soon >= LIKELY and self.profiles["memory"].are_limits
        true = run.failed == "memory" and run.end - at <= HORIZON_S
        self._count("memory", true, (soon, known[-1] + HORIZON_S * growth >= run.limit, known[-1] >= NEAR * run.limit))


def _of(run: Run) -> Iterator[tuple[str, float]]:
    """The events of a run."""
    yield from (("submit", run.submitted), ("start", run.start), ("end", run.end))
    before_limit = run.start + run.limit_s - HORIZON_S
    if run.start <= before_limit < run.end:
        yield "time", before_limit
    at = run.start + EVERY_S
    while run.peaks and at < run.end:
        yield "memory", at
        at += EVERY_S


def recorded(folder: Path, trace: str, number: int | None) -> list[Run]:
    """Those of a trace that requested a time."""
    jobs = workload(folder, trace, "runtime")
    jobs = jobs if number is None else first_jobs(jobs, number)
    columns = (jobs.questions, jobs.submitted.tolist(), jobs.started.tolist(), jobs.ended.tolist())
    rows = zip(*columns, jobs.requested.tolist(), jobs.values.tolist(), strict=True)
    return [
        Run(question, submitted, start, end, limit_s, "time" if value >= limit_s else None)
        for question, submitted, start, end, limit_s, value in rows
        if limit_s > 0.0
    ]


def emulated(weeks: float) -> list[Run]:
    """An emulated site of 64 nodes whose jobs' memory grows."""
    plan = SitePlan(nodes=64, clusters=1, start=0, end=int(weeks * 7 * 86400))
    [cluster] = make_site(plan)
    shapes, factors = random.Random(1), random.Random(2)
    shape_of: dict[tuple[str, str], str] = defaultdict(lambda: shapes.choice(list(SHAPES)))
    asked_of: dict[str, float] = defaultdict(lambda: factors.choice(ASKED))
    runs = []
    for placed in place_jobs(plan, cluster, make_jobs(plan, cluster)):
        job = placed.job
        if placed.end is None or not placed.ended or placed.end <= placed.start:
            continue
        application, name = job.demand.application, job.user.name
        needed = sum(place.memory_bytes for place in placed.places) / job.processors
        limit = application.memory_bytes * asked_of[name]
        shape = SHAPES[shape_of[name, application.name]]
        lasts = max(placed.end - placed.start, 1)
        peaks = [needed * shape(min(1.0, READ_S * k / lasts)) for k in range(int(lasts / READ_S) + 1)]
        question = Question(name, application.name, None, job.processors, limit, float(job.walltime_s))
        end, failed = float(placed.end), "time" if placed.exit_status == WALLTIME_EXIT else None
        if peaks[-1] > limit:
            k = bisect_left(peaks, limit)
            end, failed, peaks = placed.start + READ_S * k, "memory", [*peaks[:k], limit]
        times = (float(job.submitted), float(placed.start), max(end, placed.start + 1.0))
        runs.append(Run(question, *times, float(job.walltime_s), failed, peaks, limit))
    return runs


def rows_of(name: str, runs: Sequence[Run]) -> Iterator[list[str]]:
    """A line for each thing that jobs may run out of."""
    watched = Watched(runs)
    watched.play()
    for what in ("time", "memory"):
        scores, number = watched.scores[what], watched.decisions[what]
        if number:
            true = f"{scores['Jobsight'].true / number:.1%}"
            row = [name, what, f"{number:,}", true, *(str(scores[rule]) for rule in RULES)]
            print(" | ".join(row), flush=True)
            yield row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/use/asking-again.md", metavar="FILE")
    parser.add_argument("--weeks", type=float, default=4.0, help="of the emulated site")
    parser.add_argument("--jobs", type=int, metavar="N", help="the first N jobs of each trace only, for a quick look")
    args = parser.parse_args()
    folder = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared" / "traces"))
    rows = list(rows_of("emulated site", emulated(args.weeks)))
    for trace in KILLED:
        if not (folder / TRACES[trace]).exists():
            print(f"no {TRACES[trace]} in {folder}: set JOBSIGHT_TRACES to the folder of the traces", file=sys.stderr)
            return 1
        rows += rows_of(trace, recorded(folder, trace, args.jobs))
    names = ("jobs of", "run out of", "decisions", "run out", *RULES)
    section = TEXT.read_text(encoding="utf-8").replace("$rows", table(names, rows))
    document = args.output.read_text(encoding="utf-8").partition(RUNNING_OUT)[0].rstrip("\n")
    args.output.write_text(f"{document}\n\n{section}", encoding="utf-8")
    print(f"wrote {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
