"""What a process keeps in order to sell places."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobsight_server.systems.offers.config import PlanConfig
from jobsight_server.systems.offers.run_times import RunTimes
from jobsight_server.systems.offers.standing_plan import StandingPlans


@dataclass(frozen=True, slots=True)
class PlaceSeller:
    """The site's configuration, the plans as they stand, and how long jobs run."""

    config: PlanConfig
    plans: StandingPlans = field(default_factory=StandingPlans)
    run_times: RunTimes = field(default_factory=RunTimes)
