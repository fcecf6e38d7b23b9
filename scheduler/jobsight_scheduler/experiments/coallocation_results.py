"""The results of the co-allocation experiment: policies compared with ``none``, paired by block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .coallocation_runs import ExperimentCase
from .coallocation_variants import VARIANTS
from .paired_blocks import Floats, changes, holm, interval, p_value

RunsByPolicy = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Figures of each seed, by policy."""

CHANGES = {
    "turnaround_percent": "mean_turnaround_s",
    "wait_percent": "mean_wait_s",
    "throughput_percent": "jobs_per_hour",
    "makespan_percent": "makespan_s",
}
"""Compared with ``none``, and the figure that each is of."""

SHOWN = (
    *("saturated", "spread", "mean_stretch", "mean_bounded_slowdown", "mean_turnaround_s", "mean_wait_s"),
    *("jobs_per_hour", "makespan_s", "useful_utilisation", "jobs"),
)
WITHIN_POINTS = 1.5
SATURATED_AT_MOST = 0.04
SIGNIFICANT = 0.05


def account(finished: Iterable[tuple[ExperimentCase, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """One row for each trace, uplink, load and policy that was run together with ``none``.

    ``turnaround_percent``: mean over seeds of how much longer jobs took from submission to end than with ``none``,
    and its 95 % confidence interval (Student, paired by seed; None for a single seed); likewise queue wait, throughput
    and makespan. ``p`` is the p-value of the turnaround, ``p_holm`` the same corrected for all rows of that policy
    (Holm 1979). ``oracle_points``: the turnaround of the policy minus that of ``aware oracle``, if present. The others
    are means over seeds.
    """
    rows: list[dict[str, Any]] = []
    for of, runs in by_cell(finished):
        rows += [of | {"policy": policy} | row for policy in VARIANTS if (row := _row(runs, policy))]
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = [row for row in rows if row["policy"] == policy]
        for row, corrected in zip(mine, holm([row["p"] for row in mine]), strict=True):
            row["p_holm"] = corrected
    return rows


def by_cell(
    finished: Iterable[tuple[ExperimentCase, Mapping[str, Any]]],
) -> list[tuple[dict[str, Any], RunsByPolicy]]:
    """The runs of each trace, uplink and load, with those of ``none``."""
    none: dict[tuple[str, float], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    others: dict[tuple[str, float, float], dict[str, dict[int, Mapping[str, Any]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for case, found in finished:
        if case.policy == "none":
            none[case.trace, case.load][case.seed] = found
        else:
            others[case.trace, case.uplink_mbps, case.load][case.policy][case.seed] = found
    return [
        ({"trace": trace, "uplink_mbps": uplink, "load": load}, {"none": none[trace, load], **runs})
        for (trace, uplink, load), runs in sorted(others.items(), key=lambda item: item[0])
    ]


def turnaround_changes(runs: RunsByPolicy, policy: str, seeds: list[int]) -> Floats:
    """Per cent by which jobs took longer than with ``none``, by seed."""
    return changes(runs[policy], runs["none"], "mean_turnaround_s", seeds)


def _row(runs: RunsByPolicy, policy: str) -> dict[str, Any] | None:
    ours, none, oracle = runs.get(policy, {}), runs["none"], runs.get("aware oracle", {})
    seeds = sorted(ours.keys() & none.keys())
    if not seeds:
        return None
    row: dict[str, Any] = {"seeds": len(seeds)}
    row |= {name: interval(changes(ours, none, figure, seeds)) for name, figure in CHANGES.items()}
    row["p"] = p_value(turnaround_changes(runs, policy, seeds))
    if both := [seed for seed in seeds if seed in oracle]:
        behind = turnaround_changes(runs, policy, both) - turnaround_changes(runs, "aware oracle", both)
        row["oracle_points"] = interval(behind)
    return row | {name: float(np.mean([ours[seed][name] for seed in seeds])) for name in SHOWN}


def claims(rows: Iterable[Mapping[str, Any]], policy: str = "aware predicted") -> list[dict[str, Any]]:
    """Whether ``policy`` is better than ``none`` (95 % confidence, corrected for all rows here), close to the oracle,
    and sparing with links: a row for each trace, uplink and load.
    """
    found = []
    for row in rows:
        if row["policy"] == policy and "oracle_points" in row:
            mean = row["turnaround_percent"][0]
            held = {
                "better": row["p_holm"] is not None and row["p_holm"] < SIGNIFICANT and mean < 0.0,
                "near_oracle": row["oracle_points"][0] <= WITHIN_POINTS,
                "links_free": row["saturated"] < SATURATED_AT_MOST,
            }
            names = {name: row[name] for name in ("trace", "uplink_mbps", "load", "seeds")}
            found.append(names | {"turnaround_percent": mean, "p_holm": row["p_holm"]} | held)
    return found
