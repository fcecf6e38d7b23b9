"""The stated chance that a running job reaches its time limit, and what came, by the share of the limit gone."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from calibration_measures import bins, mean_difference

from jobsight_predictor.evaluation.jobs import Jobs, in_time
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.profile.running import time_runs_out

SHARES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.98)
BEFORE_S = 600.0
LIKELY = 0.5
HEADS = ("trace", "gone", "jobs", "stated", "came", "mean difference", "precision", "recall", "not stated")

INTRODUCTION = f"""# Running jobs that reach their time limit

`python benchmarks/calibration.py --running`; whole traces. *Gone*: the share of the limit at which a job is asked
about, if it runs so long. *Stated* and *came*: the mean chance, and the share that reached the limit. *Mean
difference*: of both in bins of the chance. *Precision* and *recall*: of the jobs with a chance of at least {LIKELY}.
*Not stated*: too few runs of the site had got as far. Traces without a line have no requests, or do not hold jobs to
them."""

Stated = tuple[float | None, bool]


def replay(jobs: Jobs) -> dict[str, list[Stated]]:
    """Return the stated chance and whether the limit was reached, of each job that gets as far.

    Each job is asked about as it goes, by what has ended then; killed ones are known as lower bounds.
    """
    profile = Profile("", metric="runtime")
    pending: dict[int, PendingForecast] = {}
    found: dict[str, list[Stated]] = {f"{share:.2f}": [] for share in SHARES} | {"10 min before": []}
    coming: list[tuple[float, int, str]] = []
    for event, i in in_time(jobs, "start"):
        question, value, start = jobs.questions[i], float(jobs.values[i]), float(jobs.started[i])
        limit = question.requested_time_s or 0.0
        now = {"submit": float(jobs.submitted[i]), "start": start, "finish": float(jobs.ended[i])}[event]
        while coming and coming[0][0] <= now:
            at, number, name = heapq.heappop(coming)
            found[name] += _stated(profile, jobs, number, at)
        if event == "submit":
            pending[i] = profile.forecast_job(question)
        elif event == "start":
            moments = [(share * limit, f"{share:.2f}") for share in SHARES] + [(limit - BEFORE_S, "10 min before")]
            for elapsed, name in moments:
                if 0.0 < elapsed < value:
                    heapq.heappush(coming, (start + elapsed, i, name))
        else:
            is_killed = 0.0 < limit <= value <= 1.01 * limit
            profile.learn(question, value, pending.pop(i), float(jobs.seconds[i]), lower_bound=is_killed)
    return found


def _stated(profile: Profile, jobs: Jobs, number: int, now: float) -> Iterator[Stated]:
    question, limit = jobs.questions[number], jobs.questions[number].requested_time_s or 0.0
    if profile.are_limits:
        runs_out = time_runs_out(profile.outlook(question), now - float(jobs.started[number]), limit, limit)
        yield None if runs_out is None else runs_out.chance, bool(jobs.values[number] >= limit)


def table(trace: str, jobs: Jobs) -> Iterator[str]:
    """Yield a line for each share of the limit, as ``HEADS``; none where requests are not limits."""
    for gone, found in replay(jobs).items():
        known = [(chance, came) for chance, came in found if chance is not None]
        if not known:
            continue
        stated, came = (np.array(column) for column in zip(*known, strict=True))
        likely = stated >= LIKELY
        right = [f"{came[likely].mean():.2f}" if likely.any() else "", f"{came[likely].sum() / max(1, came.sum()):.2f}"]
        means = [f"{x:.3f}" for x in (stated.mean(), came.mean(), mean_difference(bins(stated, came)))]
        yield " | ".join([trace, gone, f"{len(known):,}", *means, *right, f"{len(found) - len(known)}"])
