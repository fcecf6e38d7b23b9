"""Share held, waste and savings of requests that advice lowers, by the number of similar jobs.

    python benchmarks/lowered.py [--jobs N] [WORKLOAD ...] > benchmarks/results/lowered.md

Each job of a trace asks before it starts and is learned when it ends; `decide` gets the forecast and the last similar
jobs. Beside it the forecast's own reservation and the largest use of five similar jobs or more. A job that ran for its
limit and at most 1 % more counts as killed for time.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict, deque

import numpy as np
from numpy.typing import NDArray
from recorded_accuracy import FOLDER, first_jobs, workload

from jobsight_predictor.arrays import Floats
from jobsight_predictor.evaluation.jobs import Jobs, in_time
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.answer import need_steps
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_server.forecasts.decision import LEAST_JOBS, STEPS, Need, Resource, decide
from jobsight_server.forecasts.such_jobs import LOOKED_AT, SuchJob, such_jobs

WORKLOADS = (
    "LANL-CM5 memory",
    "LANL-CM5 runtime",
    "METACENTRUM memory",
    "SDSC-SP2 runtime",
    "KTH-SP2 runtime",
    "UniLu-Gaia runtime",
    "eager memory",
    "mag memory",
)
Mask = NDArray[np.bool_]
RULES = ("Jobsight", "forecast alone", "largest")
SIMILAR = {"0 to 4": 0, "5 to 19": 5, "20 or more": 20}
DAYS = (7, 30)
DAY_S = 86400.0


def finished(jobs: Jobs, i: int, resource: Resource, count: int) -> SuchJob:
    """The run as the log would have it."""
    question, value, asked = jobs.questions[i], float(jobs.values[i]), float(jobs.requested[i])
    submitted, end = float(jobs.submitted[i]), float(jobs.ended[i])
    if resource == "memory":
        return SuchJob(i, question.application, count, count * value, None, None, submitted=submitted, end=end)
    failure = "time" if asked <= value <= 1.01 * asked else None
    return SuchJob(i, question.application, count, None, value, failure, submitted=submitted, end=end)


def amounts(jobs: Jobs, resource: Resource) -> tuple[Floats, Floats]:
    """What each rule recommends for each job, (rules, jobs), NaN where nothing; and how many similar jobs there are."""
    profile, step = Profile("", metric=resource), STEPS[resource]
    ended: dict[str | None, deque[SuchJob]] = defaultdict(lambda: deque(maxlen=LOOKED_AT))
    pending: dict[int, PendingForecast] = {}
    found, similar = np.full((len(RULES), len(jobs)), np.nan), np.zeros(len(jobs))
    for event, i in in_time(jobs, "completion"):
        question, whole = jobs.questions[i], jobs.questions[i].processors or 1
        count = whole if resource == "memory" else 1
        if event == "finish":
            profile.learn(question, float(jobs.values[i]), pending.pop(i), float(jobs.seconds[i]))
            ended[question.user].appendleft(finished(jobs, i, resource, whole))
            continue
        pending[i] = forecast = profile.forecast_job(question)
        uses = such_jobs(list(ended[question.user]), question, whole).uses[resource]
        need = profile.forecast_job(question, cut=False)
        steps = [(count * amount, share) for amount, share in need_steps(profile, need, "submission")]
        asked = count * float(jobs.requested[i]) if jobs.requested[i] > 0.0 else None
        wanted = Need(None if need.bound is None else count * need.bound, steps)
        is_named, similar[i] = question.application is not None, len(uses)
        decided = decide(resource, asked, uses, wanted, step, is_named=is_named).amount
        alone = math.ceil(count * forecast.bound / step) * step if ended[question.user] and forecast.bound else None
        largest = max(use.amount for use in uses) if is_named and len(uses) >= LEAST_JOBS else None
        found[:, i] = np.array([decided, alone, largest], dtype=float) / count
    return found, similar


def rows(name: str, jobs: Jobs, resource: Resource) -> list[str]:
    """Lines of the table, of the jobs with a request; where none has one, of all, and nothing is saved."""
    found, similar = amounts(jobs, resource)
    of = jobs.requested > 0.0
    has_requests = bool(of.any())
    of |= not has_requests
    used, seconds, day = jobs.values[of], jobs.seconds[of], (jobs.ended[of] - jobs.submitted.min()) / DAY_S
    bins = np.digitize(similar[of], list(SIMILAR.values())) - 1
    # What a job gets without advice, and again if its amount does not hold.
    asked = jobs.requested[of] if has_requests else used
    lines = []
    waste_of_requests = f"{_waste(asked, used, seconds):.3f}" if has_requests else ""
    for rule, amount in zip(RULES, found[:, of], strict=True):
        advised = amount < asked if has_requests else amount > 0.0
        if not has_requests and not advised.any():
            continue
        holds = advised & (used <= amount)
        reserved = np.where(advised, amount, asked) + asked * (advised & ~holds)
        shares = [_share(holds, advised & (bins == k)) for k in range(len(SIMILAR))]
        saved = [_saved(asked * seconds, reserved * seconds, day <= days) if has_requests else "" for days in DAYS]
        trace = "" if lines else f"{name}, {len(jobs):,} jobs"
        cells = [trace, rule, f"{advised.mean():.3f}", _share(holds, advised), *shares]
        lines.append(
            "| " + " | ".join([*cells, f"{_waste(reserved, used, seconds):.3f}", waste_of_requests, *saved]) + " |"
        )
    return lines


def _waste(reserved: Floats, used: Floats, seconds: Floats) -> float:
    """Return the amounts reserved and not used over those used, each weighted by seconds."""
    return float(((reserved - np.minimum(used, reserved)) * seconds).sum() / (used * seconds).sum())


def _share(holds: Mask, of: Mask) -> str:
    return f"{holds[of].mean():.3f} of {of.sum():,}" if of.any() else ""


def _saved(asked: Floats, reserved: Floats, of: Mask) -> str:
    return f"{1.0 - reserved[of].sum() / asked[of].sum():.1%}" if of.any() else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=WORKLOADS, help="such as 'LANL-CM5 memory' (default: all)")
    parser.add_argument("--jobs", type=int, help="first jobs of a trace (default: all)")
    args = parser.parse_args()
    heads = ["trace", "rule", "lowered", "held of these", *[f"{name} similar" for name in SIMILAR]]
    heads += ["wasted over used", "waste of requests", *[f"saved after {days} d" for days in DAYS]]
    print("# Requests that are lowered\n\n`python benchmarks/lowered.py`; .95 of the lowered ones should hold.\n")
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for name in args.workloads:
        trace, metric = name.split(" ")
        resource: Resource = "memory" if metric == "memory" else "runtime"
        print("\n".join(rows(name, first_jobs(workload(FOLDER, trace, metric), args.jobs), resource)), flush=True)


if __name__ == "__main__":
    main()
