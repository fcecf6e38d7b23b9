"""Share held, waste and savings of requests that advice lowers, by the number of similar jobs.

    python benchmarks/lowered.py [--jobs N] [WORKLOAD ...] > benchmarks/results/lowered.md

Each job of a trace asks before it starts and is learned when it ends; `decide` gets the forecast and the last similar
jobs. Beside it the simplest rules: the largest use of five similar jobs or more, and the request as it is.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from recorded_accuracy import FOLDER, workload

from jobsight_predictor.evaluation.jobs import Jobs, first_jobs, in_time
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.profile.reserve import needs_of
from jobsight_predictor.question import Question
from jobsight_server.forecasts.decision import LEAST_JOBS, LOOKED_AT, Need, Resource, Use, decide

WORKLOADS = (
    "LANL-CM5 memory",
    "LANL-CM5 runtime",
    "SDSC-SP2 runtime",
    "UniLu-Gaia runtime",
    "eager memory",
    "mag memory",
)
STEPS: dict[Resource, float] = {"memory": 2.0**20, "runtime": 60.0}
SIMILAR = (0, 1, 2, 5, 20)
DAYS = (1, 7, 30)
DAY_S = 86400.0


@dataclass(slots=True)
class Ended:
    """A job that has ended: use per processor, and when it was under way."""

    submitted: float
    end: float
    used: float
    application: str | None
    processors: int


@dataclass(slots=True)
class Tally:
    """What a rule did: jobs, lowered ones and those that held, by number of similar jobs; value x seconds wasted."""

    jobs: list[int] = field(default_factory=lambda: [0] * len(SIMILAR))
    lowered: list[int] = field(default_factory=lambda: [0] * len(SIMILAR))
    held: list[int] = field(default_factory=lambda: [0] * len(SIMILAR))
    wasted: float = 0.0
    saved: list[float] = field(default_factory=lambda: [0.0] * len(DAYS))

    def score(self, similar: int, lowered: float | None, asked: float, used: float, seconds: float, day: float) -> None:
        """Count a job; one that does not hold runs again with its request."""
        k = max(k for k, least in enumerate(SIMILAR) if similar >= least)
        holds = lowered is not None and used <= lowered
        self.jobs[k] += 1
        self.lowered[k] += lowered is not None
        self.held[k] += holds
        reserved = asked if lowered is None else lowered if holds else lowered + asked
        self.wasted += (reserved - min(used, reserved)) * seconds
        for k, days in enumerate(DAYS):
            self.saved[k] += (asked - reserved) * seconds * (day <= days)


def similar_uses(ended: Sequence[Ended], question: Question, resource: Resource) -> list[Use]:
    """The latest first, of as many processors if there are any; memory for at least as many as the job's own."""
    mine = question.processors or 1
    found = [job for job in ended if question.application is None or job.application == question.application]
    found = [job for job in found if job.processors == mine] or found
    number, first_end, bursts = 0, -math.inf, {}
    for job in sorted(found, key=lambda job: job.submitted):
        if job.submitted >= first_end:
            number, first_end = number + 1, math.inf
        first_end = min(first_end, job.end)
        bursts[id(job)] = number
    return [
        Use(job.used * (max(1.0, job.processors / mine) if resource == "memory" else 1.0), bursts[id(job)])
        for job in reversed(found[-LOOKED_AT:])
    ]


def lowered(jobs: Jobs, resource: Resource) -> tuple[dict[str, Tally], float, list[float]]:
    """The tally of each rule, what was used, and what was requested in the first days, in value x seconds."""
    profile, step = Profile("", metric=resource), STEPS[resource]
    ended: dict[str | None, deque[Ended]] = defaultdict(lambda: deque(maxlen=200))
    tallies = {name: Tally() for name in ("Jobsight", "largest", "request")}
    asked_for: dict[int, tuple[PendingForecast, int, dict[str, float | None]]] = {}
    used, requested, begin = 0.0, [0.0] * len(DAYS), float(jobs.submitted.min())
    for event, i in in_time(jobs, "completion"):
        question, asked = jobs.questions[i], float(jobs.requested[i])
        if event == "submit":
            amounts: dict[str, float | None] = dict.fromkeys(tallies)
            forecast, uses = profile.forecast_job(question), similar_uses(ended[question.user], question, resource)
            if asked > 0.0:
                need = profile.forecast_job(question, cut=False)
                correct, is_named = (
                    profile.calibrations["submission"].exceeding.correct,
                    question.application is not None,
                )
                steps = [(amount, 1.0 - correct(more)) for amount, more in needs_of(need.prospect)]
                amounts["Jobsight"] = decide(
                    resource, asked, uses, Need(need.bound, steps), step, is_named=is_named
                ).amount
                if is_named and len(uses) >= LEAST_JOBS:
                    amounts["largest"] = max(use.amount for use in uses)
            asked_for[i] = forecast, len(uses), amounts
            continue
        forecast, similar, amounts = asked_for.pop(i)
        value, seconds, end = float(jobs.values[i]), float(jobs.seconds[i]), float(jobs.ended[i])
        profile.learn(question, value, forecast, seconds)
        ended[question.user].append(
            Ended(float(jobs.submitted[i]), end, value, question.application, question.processors or 1)
        )
        if asked > 0.0:
            used, day = used + value * seconds, (end - begin) / DAY_S
            requested = [sum_ + asked * seconds * (day <= days) for sum_, days in zip(requested, DAYS, strict=True)]
            for name, amount in amounts.items():
                is_lower = amount is not None and amount < asked
                tallies[name].score(similar, amount if is_lower else None, asked, value, seconds, day)
    return tallies, used, requested


def rows(name: str, jobs: Jobs, resource: Resource) -> list[str]:
    """Lines of the table."""
    tallies, used, requested = lowered(jobs, resource)
    found = []
    for rule, tally in tallies.items():
        shares = [f"{held / n:.3f} of {n:,}" if n else "" for held, n in zip(tally.held, tally.lowered, strict=True)]
        total = f"{sum(tally.held) / sum(tally.lowered):.3f}" if sum(tally.lowered) else ""
        saved = [f"{saved / asked:.1%}" if asked else "" for saved, asked in zip(tally.saved, requested, strict=True)]
        of_all = f"{sum(tally.lowered) / sum(tally.jobs):.3f}"
        cells = [f"{name}, {len(jobs):,} jobs", rule, of_all, total, *shares, f"{tally.wasted / used:.3f}", *saved]
        found.append("| " + " | ".join(cells) + " |")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=WORKLOADS, help="such as 'LANL-CM5 memory' (default: all six)")
    parser.add_argument("--jobs", type=int, default=12_000, help="first jobs of a trace (default %(default)s)")
    args = parser.parse_args()
    names = ["0", "1", "2 to 4", "5 to 19", "20 or more"]
    heads = ["trace", "rule", "lowered", "held of these", *[f"{name} similar" for name in names], "wasted over used"]
    heads += [f"saved after {days} d" for days in DAYS]
    print("# Requests that are lowered\n\n`python benchmarks/lowered.py`; .95 of the lowered ones should hold.\n")
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for name in args.workloads:
        trace, metric = name.split(" ")
        resource: Resource = "memory" if metric == "memory" else "runtime"
        print("\n".join(rows(name, first_jobs(workload(FOLDER, trace, metric), args.jobs), resource)), flush=True)


if __name__ == "__main__":
    main()
