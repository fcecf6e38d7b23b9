"""The policies of the co-allocation experiment, and the ways in which their knowledge is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_predictor.forecasters import FIVE
from jobsight_scheduler.coallocation.bandwidth_sources import NO_ERROR, EstimateError
from jobsight_scheduler.coallocation.baselines import CONSTANT_BPS
from jobsight_scheduler.coallocation.labels import RIGHT, LabelFaults
from jobsight_scheduler.workload.communication import Habits

HABITS = Habits()
NO_HABITS = Habits(applications=100_000, loyalty=0.0)
"""Every job is of an application never seen before: nothing can be forecast."""


@dataclass(frozen=True, slots=True)
class CoallocationVariant:
    """A policy (where jobs are placed, by whose bandwidths, how links are shared), the habits of the jobs' users, and
    the names that jobs carry.
    """

    placement: str
    bandwidth: str = "oracle"
    sharing: str = "proportional"
    error: EstimateError = NO_ERROR
    by_mean: bool = False
    constant_bps: float = CONSTANT_BPS
    habits: Habits = HABITS
    labels: LabelFaults = RIGHT


COMPARED: dict[str, CoallocationVariant] = {
    "none": CoallocationVariant("none"),
    "naive": CoallocationVariant("naive"),
    "naive max-min": CoallocationVariant("naive", sharing="max-min"),
    "reactive": CoallocationVariant("reactive"),
    "constant": CoallocationVariant("aware", "constant"),
    "aware user": CoallocationVariant("aware", "user"),
    "application means": CoallocationVariant("aware", "application-means"),
    "aware predicted": CoallocationVariant("aware", "predicted"),
    "aware oracle": CoallocationVariant("aware", "oracle"),
}
"""Naive max-min tests whether a network that shares fairly would make all this needless."""

BIASES = (0.1, 0.2, 0.5, 2.0, 5.0, 10.0)
NOISES = (0.5, 1.0, 2.0)
SILENT = (0.25, 0.5, 0.75)
CONSTANTS_MBPS = (10, 20, 80, 160)
USERS = {"x0.1": EstimateError(bias=0.1), "silent": EstimateError(silent=1.0)}
SPREADS = (0.3, 0.6)
"""Beside that of ``Habits``, 0.1."""
WRONG_LABELS: dict[str, LabelFaults] = {
    "names wrong 30 %": LabelFaults(wrong=0.3),
    "no names": LabelFaults(missing=1.0),
    "names unique": LabelFaults(unique=1.0),
}

ERRORS: dict[str, CoallocationVariant] = {
    **{f"bias x{bias:g}": CoallocationVariant("aware", "oracle", error=EstimateError(bias=bias)) for bias in BIASES},
    **{
        f"noise {noise:g}": CoallocationVariant("aware", "oracle", error=EstimateError(noise=noise)) for noise in NOISES
    },
    **{
        f"silent {share:.0%}": CoallocationVariant("aware", "oracle", error=EstimateError(silent=share))
        for share in SILENT
    },
    **{f"user {name}": CoallocationVariant("aware", "user", error=error) for name, error in USERS.items()},
    **{
        f"application means, user {name}": CoallocationVariant("aware", "application-means", error=error)
        for name, error in USERS.items()
    },
    **{
        f"predicted, user {name}": CoallocationVariant("aware", "predicted", error=error)
        for name, error in USERS.items()
        if name != "silent"
    },
}
"""The truth with errors; and users' statements with them, which the others use where they have learned nothing yet."""

CONSTANTS: dict[str, CoallocationVariant] = {
    f"constant {rate}": CoallocationVariant("aware", "constant", constant_bps=1e6 * rate) for rate in CONSTANTS_MBPS
}

LEARNERS: dict[str, CoallocationVariant] = {
    **{name: CoallocationVariant("aware", name) for name in FIVE},
    "predicted by means": CoallocationVariant("aware", "predicted", by_mean=True),
    "predicted new jobs": CoallocationVariant("aware", "predicted", habits=NO_HABITS),
}
"""Each of the five forecasters per user; Jobsight trained on bandwidths that others reduced, and with nothing to learn
from."""

SPREAD_HABITS = {spread: Habits(job_spread=spread) for spread in SPREADS}
LIKENESS: dict[str, CoallocationVariant] = {
    **{
        f"{policy}, spread {spread:g}": CoallocationVariant("aware", COMPARED[policy].bandwidth, habits=habits)
        for spread, habits in SPREAD_HABITS.items()
        for policy in ("constant", "application means", "aware predicted", "aware oracle")
    },
    **{
        f"{policy}, {name}": CoallocationVariant("aware", COMPARED[policy].bandwidth, labels=labels)
        for name, labels in WRONG_LABELS.items()
        for policy in ("application means", "aware predicted")
    },
}
"""Jobs of one application that differ more, and names that say less about a job."""

SENSITIVITY = ERRORS | CONSTANTS | LEARNERS | LIKENESS
VARIANTS = COMPARED | SENSITIVITY
