"""The strategies that the experiment compares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jobsight_papers.overbooking.exact_risk import ExactRisk
from jobsight_predictor.runtime.accuracy import GroupAccuracy, SimpleAccuracy, TimeSliceAccuracy
from jobsight_predictor.runtime.success import MachineFailure, machine_factors
from jobsight_scheduler.overbooking.accept import RULES, AcceptanceRule
from jobsight_scheduler.overbooking.plan import JobOffer
from jobsight_scheduler.overbooking.risk import FastRisk, PlanRisk

RiskForm = Literal["exact", "fast"]
RISK_FORMS: dict[RiskForm, type[PlanRisk[Any, Any]]] = {"exact": ExactRisk, "fast": FastRisk}

AccuracyHistory = SimpleAccuracy | TimeSliceAccuracy | GroupAccuracy
HistoryName = Literal["simple", "time-slice", "groups"]
HISTORIES: dict[HistoryName, type[AccuracyHistory]] = {
    "simple": SimpleAccuracy,
    "time-slice": TimeSliceAccuracy,
    "groups": GroupAccuracy,
}


@dataclass(frozen=True, slots=True)
class OverbookingStrategy:
    """``filters``: jobs are refused by the risk of node failures alone. ``resells``: time that a job does not use is
    free for others. ``recalibrates``: predictions are corrected by the outcomes of accepted jobs. ``learns``: run times
    are learned as jobs end; otherwise only those of the jobs before the simulation. ``rehearses``: recalibration begins
    with the state from a simulation of as many earlier jobs. ``form`` is the form of the risk.
    """

    rule: AcceptanceRule = field(default_factory=AcceptanceRule)
    history: HistoryName = "time-slice"
    filters: bool = False
    resells: bool = False
    recalibrates: bool = False
    learns: bool = False
    rehearses: bool = False
    form: RiskForm = "exact"

    def at(self, pmax: float) -> OverbookingStrategy:
        """Return the strategy with another P_max."""
        return replace(self, rule=replace(self.rule, pmax=pmax))

    @property
    def has_pmax(self) -> bool:
        """Return whether P_max makes a difference."""
        return self.rule.rule != "conservative" or self.filters

    def refuses(self, machine: MachineFailure, offer: JobOffer) -> bool:
        """Return whether the risk of node failures alone is too high."""
        available, survives = machine_factors(machine, offer.nodes, offer.requested_h)
        return self.filters and 1.0 - available * survives >= self.rule.pmax


STRATEGIES: dict[str, OverbookingStrategy] = {
    "conservative": OverbookingStrategy(RULES["release"]),
    "release": OverbookingStrategy(RULES["release"], resells=True),
    "filter-only": OverbookingStrategy(RULES["release"], filters=True),
    "release-filter": OverbookingStrategy(RULES["release"], filters=True, resells=True),
    "simple": OverbookingStrategy(history="simple"),
    "time-slice": OverbookingStrategy(),
    "jobsight": OverbookingStrategy(
        RULES["jobsight"],
        "groups",
        resells=True,
        recalibrates=True,
        learns=True,
        rehearses=True,
    ),
}
"""The choices of ``--strategy``."""
