"""The results of the ranking experiment: means over seeds with their intervals, and the published table beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jobsight_papers.intervals import interval
from jobsight_papers.ranking.job_sets import SETS
from jobsight_papers.ranking.runs import HALVES, LOAD, THIRDS, RankingCase

Figures = Mapping[str, Any]
RunsBySeed = Mapping[int, Figures]


def by_seed(finished: Iterable[tuple[RankingCase, Figures]]) -> dict[RankingCase, dict[int, Figures]]:
    """Group the figures of each case by seed."""
    found: dict[RankingCase, dict[int, Figures]] = defaultdict(dict)
    for case, figures in finished:
        found[case.of_seed][case.seed] = figures
    return dict(found)


def row(case: RankingCase, runs: RunsBySeed) -> dict[str, Any]:
    """Return means over seeds; ``completed_share`` with its 95 % confidence interval (Student)."""
    return {
        "set": case.set,
        "rank": case.rank,
        "weights": [round(weight, 2) for weight in case.weights],
        "load": case.load,
        "seeds": len(runs),
        "completed_share": interval([run["completed_share"] for run in runs.values()]),
    } | {
        name: float(np.mean([run[name] for run in runs.values()]))
        for name in ("makespan_s", "lost_cpu_h", "mean_wait_s")
    }


def gains(found: Mapping[RankingCase, RunsBySeed]) -> list[dict[str, Any]]:
    """Return for each set, load and kind of owners GRV less first come, and survival less every other rank.

    Differences of completed shares, paired by seed, with their 95 % confidence intervals.
    """
    gained = []
    for case, runs in found.items():
        if case.rank not in ("grv", "survival") or case.weights != THIRDS:
            continue
        others = {one.rank: beside for one, beside in found.items() if one == replace(case, rank=one.rank)}
        for other, beside in others.items():
            if other == case.rank or (case.rank == "grv" and other != "first-come"):
                continue
            differences = [runs[seed]["completed_share"] - beside[seed]["completed_share"] for seed in runs]
            gained.append(
                {"set": case.set, "rank": case.rank, "over": other, "load": case.load, "seeds": len(runs)}
                | {"gain": interval(differences)}
            )
    return gained


def published(rows: Iterable[Figures]) -> list[dict[str, Any]]:
    """Return the published table, in %, as printed and from its counts, beside ours."""
    ours = {
        (row["set"], row["rank"], tuple(row["weights"])): 100.0 * row["completed_share"]["mean"]
        for row in rows
        if row["load"] == LOAD
    }
    thirds, halves = (tuple(round(weight, 2) for weight in weights) for weights in (THIRDS, HALVES))
    return [
        {
            "set": number,
            "jobs": of.jobs,
            "first_come": {"printed": of.first_come.printed, "counted": of.counted(of.first_come)}
            | {"ours": ours.get((number, "first-come", thirds))},
            "grv": {"printed": of.grv.printed, "counted": of.counted(of.grv), "ours": ours.get((number, "grv", thirds))}
            | {"ours_without_speed": ours.get((number, "grv", halves))},
            "survival": {"ours": ours.get((number, "survival", thirds))},
        }
        for number, of in SETS.items()
    ]
