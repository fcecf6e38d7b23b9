"""The strategies that are compared, by the name used in rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from jobsight_predictor.runtime.accuracy import AccuracyHistory, GroupAccuracy, SimpleAccuracy, TimeSliceAccuracy

from .accept import AcceptanceRule

HistoryName = Literal["simple", "time-slice", "groups"]
HISTORIES: dict[HistoryName, type[AccuracyHistory]] = {
    "simple": SimpleAccuracy,
    "time-slice": TimeSliceAccuracy,
    "groups": GroupAccuracy,
}


@dataclass(frozen=True, slots=True)
class OverbookingStrategy:
    """``resells``: time that a job does not use is free for others. ``recalibrates``: predictions are corrected by what

    became of accepted jobs. ``learns``: run times of ended jobs are learned as they end; otherwise only those of the
    jobs before the simulation. ``rehearses``: recalibration begins with what a simulation of as many earlier
    jobs taught.
    """

    rule: AcceptanceRule = field(default_factory=AcceptanceRule)
    history: HistoryName = "time-slice"
    resells: bool = False
    recalibrates: bool = False
    learns: bool = False
    rehearses: bool = False

    def at(self, pmax: float) -> OverbookingStrategy:
        """The same with another P_max."""
        return replace(self, rule=replace(self.rule, pmax=pmax))

    @property
    def has_pmax(self) -> bool:
        """Whether P_max makes a difference."""
        return self.rule.rule != "conservative" or self.rule.filters_machine


STRATEGIES: dict[str, OverbookingStrategy] = {
    "conservative": OverbookingStrategy(AcceptanceRule("conservative")),
    "release": OverbookingStrategy(AcceptanceRule("conservative"), resells=True),
    "filter-only": OverbookingStrategy(AcceptanceRule("conservative", filters_machine=True)),
    "release-filter": OverbookingStrategy(AcceptanceRule("conservative", filters_machine=True), resells=True),
    "simple": OverbookingStrategy(history="simple"),
    "time-slice": OverbookingStrategy(),
    "jobsight": OverbookingStrategy(
        AcceptanceRule("highest-pos", choice="full-first", guards=True, expects_run=True, limits_machine=False),
        "groups",
        resells=True,
        recalibrates=True,
        learns=True,
        rehearses=True,
    ),
}
"""The choices of ``--strategy``."""
