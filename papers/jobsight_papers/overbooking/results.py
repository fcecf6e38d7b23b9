"""The results of the overbooking experiment: means over seeds with 95 % confidence, and gains over controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jobsight_papers.intervals import interval
from jobsight_papers.overbooking.jobs import OverbookingSource, learned_history, overbooking_jobs
from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import TimeSliceAccuracy

Figures = Mapping[str, Any]

MEASURED = (
    "net_jobs", "net_hours", "node_hours", "successful_jobs", "failed_jobs", "profit_hours", "penalty_hours",
)  # fmt: skip
COUNTED = ("killed_jobs", "node_failed_jobs", "overbooked_jobs")
VARIED = ("penalty_ratio", "arrival_factor")
"""Options shown in rows if they differ from the published set-up."""
CONTROLS = ("conservative", "release", "release-filter")

PUBLISHED_RESULTS: dict[str, dict[str, Any]] = {
    "SDSC": {"net_jobs": 570, "net_hours": 2600, "time_slice_gain": 0.30, "at_pmax": 0.1, "loses_from": 0.3},
    "KTH": {"net_jobs": 400, "net_hours": 2100, "time_slice_gain": 0.23, "at_pmax": 0.05, "loses_from": None},
    "BLUE": {"net_jobs": 330, "net_hours": 2500, "time_slice_gain": 0.55, "at_pmax": 0.25, "loses_from": 0.8},
    "CTC": {"net_jobs": 840, "net_hours": 7700, "time_slice_gain": 0.04, "at_pmax": 0.1, "loses_from": 0.3},
}
"""Published: backfilling, the largest gain of the time-slice strategy over it, and the P_max of gain and loss."""


def seeds_row(names: Figures, runs: Sequence[Figures]) -> dict[str, Any]:
    """Return the row of runs that differ only by seed; ``names`` begins it: trace, strategy, P_max and so on.

    ``predicted_failure`` and ``observed_failure`` are over all accepted jobs, ``overbooked`` over those whose gap is
    shorter than their requested time.
    """
    accepted = sum(run["accepted"] for run in runs)
    risky = sum(run["overbooked_jobs"] for run in runs)
    rejected: Counter[str] = Counter()
    for run in runs:
        rejected.update(run["rejected"])
    return {
        **names,
        "seeds": len(runs),
        "accepted": accepted / len(runs),
        **{name: interval([run[name] for run in runs]) for name in MEASURED},
        "predicted_failure": _share(sum(run["predicted_failure"] * run["accepted"] for run in runs), accepted),
        "observed_failure": _share(sum(run["failed_jobs"] for run in runs), accepted),
        "overbooked": {
            "jobs": risky / len(runs),
            "predicted_failure": _share(sum(run["overbooked_predicted"] for run in runs), risky),
            "observed_failure": _share(sum(run["overbooked_failed"] for run in runs), risky),
        },
        **{name: sum(run[name] for run in runs) / len(runs) for name in COUNTED},
        "rejected": {reason: count / len(runs) for reason, count in sorted(rejected.items())},
        "calibration": {
            part: [sum(values) for values in zip(*(run["calibration"][part] for run in runs), strict=True)]
            for part in ("jobs", "predicted", "failed")
        },
    }


def gains(names: Figures, runs: Sequence[Figures], controls: Mapping[str, Sequence[Figures]]) -> dict[str, Any]:
    """Return the gain over each control, seed by seed: the difference with its interval, and the ratio of means."""
    return {
        **names,
        **{
            control: {
                measure: interval([run[measure] - beside[measure] for run, beside in zip(runs, others, strict=True)])
                | {"ratio": _ratio(sum(run[measure] for run in runs), sum(beside[measure] for beside in others))}
                for measure in ("net_jobs", "net_hours", "node_hours")
            }
            for control, others in controls.items()
        },
    }


def accuracy_curves(source: OverbookingSource) -> dict[str, Any]:
    """Return figures 2 and 3: PDF and CDF of run / requested time of the earlier jobs, by class of requested time."""
    history = learned_history(source, "time-slice")
    if not isinstance(history, TimeSliceAccuracy):
        raise TypeError(f"{type(history).__name__} has no classes of requested time")
    nothing = Question()
    of_classes = {history.name(i): of.distribution(nothing) for i, of in enumerate(history.slices)}
    found = {"site": history.all_jobs.distribution(nothing)} | {name: of for name, of in of_classes.items() if of.jobs}
    return {
        "jobs": {name: of.jobs for name, of in found.items()},
        "pdf": np.diff(found["site"].cdf).tolist(),
        "cdf": {name: of.cdf.tolist() for name, of in found.items()},
    }


def jobs_note(source: OverbookingSource) -> dict[str, Any]:
    """Return the numbers of jobs, and of dropped ones by reason."""
    jobs = overbooking_jobs(source)
    return {"trace": jobs.name, "counts": dict(jobs.counts), "dropped": dict(jobs.dropped)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _ratio(one: float, other: float) -> float | None:
    return one / other if other > 0.0 else None


def setting_of(row: Figures) -> tuple[Any, ...]:
    """Return the trace of a row, and its values of ``VARIED``; None as published."""
    return row["trace"], *(row.get(name) for name in VARIED)
