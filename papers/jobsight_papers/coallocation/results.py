"""The results of the co-allocation experiment: policies compared with ``none`` and with one another, paired by seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jobsight_papers.coallocation.runs import ExperimentCase
from jobsight_papers.coallocation.scenarios import BEST_CONSTANT, CONSTANTS, POLICIES
from jobsight_papers.intervals import changes, holm, p_value
from jobsight_predictor.arrays import Floats
from jobsight_scheduler.figures import interval

RunsByPolicy = dict[str, dict[int, Mapping[str, Any]]]
"""Figures of each seed, by policy."""

CHANGES = {
    "turnaround_percent": "mean_turnaround_s",
    "wait_percent": "mean_wait_s",
    "throughput_percent": "jobs_per_hour",
    "makespan_percent": "makespan_s",
}
"""Figures compared with ``none``, and the source of each."""

SHOWN = (
    *("saturated", "spread", "mean_stretch", "mean_bounded_slowdown", "mean_turnaround_s", "mean_wait_s"),
    *("jobs_per_hour", "makespan_s", "useful_utilisation", "jobs"),
)
OURS = "aware means"
RIVALS = (BEST_CONSTANT, "reactive", "aware user", "aware oracle")
SIGNIFICANT = 0.05


def account(finished: Iterable[tuple[ExperimentCase, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return one row for each trace, scenario and policy that was run together with ``none``.

    ``turnaround_percent``: mean over seeds of the turnaround's increase over ``none``,
    and its 95 % confidence interval (Student, paired by seed; None for a single seed); likewise queue wait, throughput
    and makespan. The others are means over seeds.
    """
    return [
        of | {"policy": policy} | row
        for of, runs in _by_cell(finished)
        for policy in POLICIES
        if (row := _row(runs, policy))
    ]


def worth(finished: Iterable[tuple[ExperimentCase, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return a row for each trace, scenario and rival of ``aware means``, named ``against``.

    ``points``: its turnaround (``none`` is 100) minus the rival's, below 0 if knowing the means is better; mean and
    95 % confidence interval over seeds. ``p_holm``: p-value, corrected for all rows (Holm 1979). ``verdict``:
    ``better``, ``worse``, or ``no difference`` found at 5 %. ``constant``: the best one in hindsight.
    """
    rows: list[dict[str, Any]] = []
    for of, runs in _by_cell(finished):
        best = _best_constant(runs)
        for rival in RIVALS:
            other = best if rival == BEST_CONSTANT else rival
            seeds = sorted(runs["none"].keys() & runs.get(OURS, {}).keys() & runs.get(other or "", {}).keys())
            if seeds and other is not None:
                points: Floats = _turnaround(runs, OURS, seeds) - _turnaround(runs, other, seeds)
                row: dict[str, Any] = {"against": rival, "points": interval(points), "p": p_value(points)}
                rows.append(of | row | ({"constant": other} if rival == BEST_CONSTANT else {}))
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        sure = corrected is not None and corrected < SIGNIFICANT
        verdict = ("better" if row["points"][0] < 0.0 else "worse") if sure else "no difference"
        row |= {"p_holm": corrected, "verdict": verdict}
    return rows


def _by_cell(
    finished: Iterable[tuple[ExperimentCase, Mapping[str, Any]]],
) -> list[tuple[dict[str, Any], RunsByPolicy]]:
    """Return the runs of each trace and scenario that have runs of ``none``."""
    found: dict[tuple[str, str], RunsByPolicy] = defaultdict(lambda: defaultdict(dict))
    for case, run in finished:
        found[case.trace, case.scenario][case.policy][case.seed] = run
    return [
        ({"trace": trace, "scenario": scenario}, runs) for (trace, scenario), runs in found.items() if "none" in runs
    ]


def _best_constant(runs: RunsByPolicy) -> str | None:
    means = {
        name: float(np.mean([run["mean_turnaround_s"] for run in runs[name].values()]))
        for name in CONSTANTS
        if name in runs
    }
    return min(means, key=means.__getitem__, default=None)


def _turnaround(runs: RunsByPolicy, policy: str, seeds: list[int]) -> Floats:
    """Return the per cent by which jobs took longer than with ``none``, by seed."""
    return changes(runs[policy], runs["none"], "mean_turnaround_s", seeds)


def _row(runs: RunsByPolicy, policy: str) -> dict[str, Any] | None:
    ours, none = runs.get(policy, {}), runs["none"]
    seeds = sorted(ours.keys() & none.keys())
    if not seeds:
        return None
    row: dict[str, Any] = {"seeds": len(seeds)}
    row |= {name: interval(changes(ours, none, figure, seeds)) for name, figure in CHANGES.items()}
    return row | {name: float(np.mean([ours[seed][name] for seed in seeds])) for name in SHOWN}
