"""How good two distributions of the share of its request that a job runs are: that of offers, and the predictor's.

    python benchmarks/end_times.py [--jobs 20000] [--only TRACE ...]

Each job with a requested time is asked about at its submission and learned at its end. CRPS is the mean squared
difference between the distribution and what happened, on a grid of 1 %; the miscalibration is the mean absolute
difference, in ten bins, between the probabilities of ending within 10, 25, 50, 75, 90 and 98 % and how often it did.
Traces are looked for in JOBSIGHT_TRACES, by default ../shared/traces.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from accuracy import workload

from jobsight_predictor.evaluation.jobs import Jobs, first_jobs, in_time
from jobsight_predictor.forecasters import Floats
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.profile.steps import steps_of
from jobsight_predictor.runtime.accuracy import GRID, GroupAccuracy, accuracy_of_ratios

ROOT = Path(__file__).parents[1]
TRACES = ("KTH-SP2", "SDSC-SP2", "UniLu-Gaia")
"""Those with requested times."""

WITHIN = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.98])
WARM_UP = 200  # jobs


def distributions(jobs: Jobs) -> tuple[dict[str, Floats], Floats]:
    """By name the cumulative probabilities on the grid, (jobs, 101), and the share of its request that each job ran."""
    profile, groups = Profile("s", metric="runtime"), GroupAccuracy()
    pending: dict[int, PendingForecast] = {}
    found: dict[str, list[Floats]] = {"offers": [], "predictor": []}
    ratios = []
    for event, i in in_time(jobs, "completion"):
        question, value, request = jobs.questions[i], float(jobs.values[i]), float(jobs.requested[i])
        if event == "finish":
            profile.learn(question, value, pending.pop(i), float(jobs.seconds[i]))
            if request > 0.0:
                groups.learn(question, value / request)
            continue
        forecast = pending[i] = profile.forecast_job(question)
        prospect = forecast.prospect
        if request > 0.0 and profile.n > WARM_UP and prospect is not None:
            places, masses = np.array([*steps_of(prospect), (np.inf, prospect.beyond)]).T
            found["predictor"].append(accuracy_of_ratios(places / request, weights=masses).cdf)
            found["offers"].append(groups.distribution(question).cdf)
            ratios.append(min(value / request, 1.0))
    return {name: np.array(cdfs) for name, cdfs in found.items()}, np.array(ratios)


def scores(cdfs: Floats, ratios: Floats) -> tuple[float, float]:
    """CRPS and miscalibration."""
    crps = float(np.mean((cdfs - (ratios[:, None] <= GRID)) ** 2))
    stated = cdfs[:, np.rint(100 * WITHIN).astype(int)].ravel()
    came_true = (ratios[:, None] <= WITHIN).ravel()
    bins = np.minimum((10 * stated).astype(int), 9)
    off = [abs(float((stated[bins == k] - came_true[bins == k]).sum())) for k in range(10)]
    return crps, sum(off) / len(stated)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", choices=TRACES, default=TRACES, metavar="TRACE")
    args = parser.parse_args()
    folder = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared/traces"))
    print("| trace | jobs | CRPS, offers | predictor | miscalibration, offers | predictor |")
    print("|---|---|---|---|---|---|")
    for trace in args.only:
        jobs = workload(folder, trace, "runtime")
        found, ratios = distributions(first_jobs(jobs, min(args.jobs, len(jobs))))
        (crps, off), (other_crps, other_off) = (scores(found[name], ratios) for name in ("offers", "predictor"))
        print(
            f"| {trace} | {len(ratios):,} | {crps:.4f} | {other_crps:.4f} | {off:.3f} | {other_off:.3f} |", flush=True
        )


if __name__ == "__main__":
    main()
