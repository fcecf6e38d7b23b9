"""The estimators that the paper compares, with their feedback."""

from __future__ import annotations

from jobsight_papers.overprovisioning.cluster.cases import VARIANTS, EstimatorVariant
from jobsight_papers.overprovisioning.estimators.last_instance import LastInstance
from jobsight_papers.overprovisioning.estimators.regression import Regression
from jobsight_papers.overprovisioning.estimators.reinforcement import Reinforcement
from jobsight_papers.overprovisioning.estimators.robust_search import RobustSearch

PAPER_VARIANTS: dict[str, EstimatorVariant] = {
    "none": VARIANTS["none"],
    "smallest-node": VARIANTS["smallest-node"],
    "successive-approximation": VARIANTS["successive-approximation"],
    "robust-search": EstimatorVariant(RobustSearch, has_fields=True),
    "last-instance": EstimatorVariant(LastInstance, explicit=True, has_fields=True),
    "reinforcement": EstimatorVariant(Reinforcement),
    "regression": EstimatorVariant(Regression, explicit=True),
    "jobsight": VARIANTS["jobsight"],
    "jobsight-implicit": VARIANTS["jobsight-implicit"],
    "oracle": VARIANTS["oracle"],
}
"""The choices of ``--estimators``, in the order of the document."""
