"""The results of the co-allocation experiment: policies compared with ``none``, paired by seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from statsmodels.stats.weightstats import DescrStatsW

from .coallocation_runs import VARIANTS, ExperimentCase

RunsByPolicy = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Figures of each seed, by policy."""

SHOWN = ("saturated", "spread", "mean_stretch", "mean_bounded_slowdown", "mean_turnaround_s", "useful_utilisation")
WITHIN_POINTS = 1.5
SATURATED_AT_MOST = 0.04


def account(finished: Iterable[tuple[ExperimentCase, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """One row for each trace, uplink, load and policy that was run together with ``none``.

    ``turnaround_percent``: mean over seeds of how much longer jobs took from submission to end than with ``none``,
    and its 95 % confidence interval (Student, paired by seed; None for a single seed); ``oracle_points``: that of the
    policy minus that of ``aware oracle``, if present. The others are means over seeds.
    """
    none: dict[tuple[str, float], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    others: dict[tuple[str, float, float], dict[str, dict[int, Mapping[str, Any]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for case, found in finished:
        if case.policy == "none":
            none[case.trace, case.load][case.seed] = found
        else:
            others[case.trace, case.uplink_mbps, case.load][case.policy][case.seed] = found
    rows: list[dict[str, Any]] = []
    for (trace, uplink, load), runs in sorted(others.items()):
        beside: RunsByPolicy = {"none": none[trace, load], **runs}
        of = {"trace": trace, "uplink_mbps": uplink, "load": load}
        rows += [of | {"policy": policy} | row for policy in VARIANTS if (row := _row(beside, policy))]
    return rows


def _row(runs: RunsByPolicy, policy: str) -> dict[str, Any] | None:
    ours, none, oracle = runs.get(policy, {}), runs["none"], runs.get("aware oracle", {})
    seeds = sorted(ours.keys() & none.keys())
    if not seeds:
        return None
    row: dict[str, Any] = {"seeds": len(seeds), "turnaround_percent": _interval(_percent(ours, none, seeds))}
    if both := [seed for seed in seeds if seed in oracle]:
        row["oracle_points"] = _interval(_percent(ours, none, both) - _percent(oracle, none, both))
    return row | {name: float(np.mean([ours[seed][name] for seed in seeds])) for name in SHOWN}


def _percent(ours: Mapping[int, Any], none: Mapping[int, Any], seeds: list[int]) -> Any:
    name = "mean_turnaround_s"
    return np.array([100.0 * (ours[seed][name] / none[seed][name] - 1.0) for seed in seeds])


def _interval(values: Any) -> list[float | None]:
    """Mean, and lower and upper end of its confidence interval."""
    mean = float(values.mean())
    if len(values) < 2:
        return [mean, None, None]
    if not np.ptp(values):
        return [mean, mean, mean]
    low, high = DescrStatsW(values).tconfint_mean(0.05)
    return [mean, float(low), float(high)]


def claims(rows: Iterable[Mapping[str, Any]], policy: str = "aware predicted") -> list[dict[str, Any]]:
    """Whether ``policy`` is better than ``none`` with confidence, close to the oracle, and sparing with links:

    a row for each trace, uplink and load.
    """
    found = []
    for row in rows:
        if row["policy"] == policy and "oracle_points" in row:
            mean, _, high = row["turnaround_percent"]
            held = {
                "better": high is not None and high < 0.0,
                "near_oracle": row["oracle_points"][0] <= WITHIN_POINTS,
                "links_free": row["saturated"] < SATURATED_AT_MOST,
            }
            names = {name: row[name] for name in ("trace", "uplink_mbps", "load", "seeds")}
            found.append(names | {"turnaround_percent": mean} | held)
    return found
