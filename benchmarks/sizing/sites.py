"""Rules for services beside Jobsight on a site's trace, at equal failures (docs/develop/measurements.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.evaluation.cost import reservation_cost
from jobsight_predictor.evaluation.equal_failures import at_equal_failures
from jobsight_predictor.evaluation.jobs import Jobs, in_time
from jobsight_predictor.evaluation.replay import replay_jobsight
from jobsight_scheduler.workload.backtest_jobs import jobs_of_trace
from jobsight_scheduler.workload.swf import read_swf
from sizing import rules
from sizing.protocols import GBH
from sizing.table import markdown
from sizing.tasks import Task, trace_name

RULES: dict[str, type[rules.OfProcess]] = {
    "vpa": rules.Vpa,
    "autopilot-p98": rules.AutopilotP98,
    "autopilot-max": rules.AutopilotMax,
    "largest-seen": rules.LargestSeen,
}
BY: dict[str, Callable[[Jobs, int], str]] = {
    "user": lambda jobs, i: str(jobs.questions[i].user),
    "user+application": lambda jobs, i: f"{jobs.questions[i].user}/{jobs.questions[i].application}",
}


class Beside(NamedTuple):
    """A rule and Jobsight on the jobs for which both had an answer, in GBh and jobs that ran out."""

    trace: str
    rule: str
    gbh: float
    failures: int
    ours_gbh: float
    ours_failures: int
    target: float
    jobs: int


def reserved_by(kind: type[rules.OfProcess], jobs: Jobs, by: Callable[[Jobs, int], str]) -> Floats:
    """Replay the rule: reservation for each job, bytes (n,), NaN before it has data."""
    rule = rules.ByProcess(kind)
    tasks = [
        Task(by(jobs, i), submitted, ended, seconds, np.nan, value, value, 0.0, "")
        for i, (submitted, ended, seconds, value) in enumerate(
            zip(*(column.tolist() for column in (jobs.submitted, jobs.ended, jobs.seconds, jobs.values)), strict=True)
        )
    ]
    reserved = np.full(len(jobs), np.nan)
    for event, i in in_time(jobs, "completion"):
        if event == "submit":
            reserved[i] = rule.ask(tasks[i])
        else:
            rule.learn(tasks[i], tasks[i].peak_rss)
    return reserved


def compare_site(file: Path, coverage: float) -> Iterator[Beside]:
    """Compare each rule with Jobsight at the coverage at which it fails no more often, by user, and by user and
    application.

    A job that runs out runs again with twice as much, for all rules (docs/use/definitions.md, Reservations).

    Raises:
        ValueError: the trace has no job with a memory value.
    """
    jobs = jobs_of_trace(read_swf(file), "memory", file.name)
    if not len(jobs):
        raise ValueError(f"no job with a memory value, of {sum(jobs.skipped.values())}")

    @cache
    def bounds_at(target: float) -> Floats:
        return replay_jobsight(jobs, "completion", coverage=target).bounds

    named = any(question.application for question in jobs.questions)
    for name, kind in RULES.items():
        for by, key in BY.items() if named else [("user", BY["user"])]:
            reserved = reserved_by(kind, jobs, key)
            found = at_equal_failures(reserved, jobs.values, jobs.seconds, bounds_at, coverage)
            if found is None:
                continue
            bounds = bounds_at(found["target"])
            both = ~np.isnan(reserved) & ~np.isnan(bounds)
            costs = [
                reservation_cost(answers[both], jobs.values[both], jobs.seconds[both]) for answers in (reserved, bounds)
            ]
            theirs, ours = (cost for cost in costs if cost is not None)
            yield Beside(
                trace_name(file),
                f"{name} by {by}",
                theirs.wasted / GBH,
                theirs.failures,
                ours.wasted / GBH,
                ours.failures,
                found["target"],
                theirs.jobs,
            )


def site_table(compared: list[Beside]) -> str:
    """Write GBh / failures of each rule and of Jobsight, and the ratio of the waste."""
    return markdown(
        ("trace", "rule", "its GBh/failures", "Jobsight's", "at coverage", "jobs", "waste, ours over its"),
        [
            (
                one.trace,
                one.rule,
                f"{one.gbh:.0f}/{one.failures}",
                f"{one.ours_gbh:.0f}/{one.ours_failures}",
                f"{one.target:.4f}",
                f"{one.jobs}",
                f"{one.ours_gbh / one.gbh:.2f}" if one.gbh else "",
            )
            for one in compared
        ],
        2,
    )
