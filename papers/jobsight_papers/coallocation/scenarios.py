"""Variations of the co-allocation experiment: sites that run jobs, and policies that place them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from jobsight_scheduler.coallocation.communication import Habits

HALF_BPS = 25e6
"""Bandwidth per processor of a job that communicates half of its time, if that share rises with bandwidth."""


HABITS = Habits()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A site: its uplinks (Mb/s, one for each cluster), its jobs' communication, and its users' statements.

    ``stated``: users state this many times what they would by their habits; infinite: nothing, so their jobs are not
    spread without a forecast. ``wrong_names`` and ``missing_names``: shares of jobs that carry the name of another
    application, or none. ``has_wide``: jobs larger than any cluster are run, rather than left out.
    """

    uplinks_mbps: tuple[float, ...]
    processors: tuple[int, ...] = (32, 32, 32, 32)
    load: float = 0.8
    habits: Habits = HABITS
    stated: float = 1.0
    wrong_names: float = 0.0
    missing_names: float = 0.0
    has_wide: bool = False


SLOW, MEDIUM, FAST = (100.0,) * 4, (300.0,) * 4, (1000.0,) * 4
_RISING = Habits(half_bps=HALF_BPS)

SCENARIOS: dict[str, Scenario] = {
    "100 Mb/s": Scenario(SLOW),
    "200 Mb/s": Scenario((200.0,) * 4),
    "300 Mb/s": Scenario(MEDIUM),
    "600 Mb/s": Scenario((600.0,) * 4),
    "1000 Mb/s": Scenario(FAST),
    "share rises, 100 Mb/s": Scenario(SLOW, habits=_RISING),
    "share rises, 300 Mb/s": Scenario(MEDIUM, habits=_RISING),
    "uplinks differ": Scenario((100.0, 100.0, 1000.0, 1000.0)),
    "heavy tails, 100 Mb/s": Scenario(SLOW, habits=Habits(application_spread=2.0)),
    "heavy tails, 300 Mb/s": Scenario(MEDIUM, habits=Habits(application_spread=2.0)),
    "load 0.9": Scenario(SLOW, load=0.9),
    "wide jobs too": Scenario(SLOW, load=0.6, has_wide=True),
    "jobs differ": Scenario(SLOW, habits=Habits(job_spread=0.6)),
    "names wrong 30 %": Scenario(SLOW, wrong_names=0.3),
    "no names": Scenario(SLOW, missing_names=1.0),
    "users state a tenth": Scenario(SLOW, stated=0.1),
    "users state nothing": Scenario(SLOW, stated=inf),
    "larger machine": Scenario(MEDIUM, (84, 84, 84, 84)),
}


@dataclass(frozen=True, slots=True)
class PlacingPolicy:
    """Placement of jobs, source of bandwidths, or ``constant_mbps`` for every job, and sharing of links."""

    placement: str
    bandwidth: str = "oracle"
    constant_mbps: float = 0.0
    sharing: str = "proportional"


CONSTANTS = {f"constant {rate:g}": PlacingPolicy("aware", "constant", rate) for rate in (20.0, 40.0, 80.0, 160.0)}

POLICIES: dict[str, PlacingPolicy] = {
    "none": PlacingPolicy("none"),
    "naive": PlacingPolicy("naive"),
    "naive max-min": PlacingPolicy("naive", sharing="max-min"),
    "reactive": PlacingPolicy("reactive"),
    **CONSTANTS,
    "aware user": PlacingPolicy("aware", "user"),
    "aware means": PlacingPolicy("aware", "application-means"),
    "aware oracle": PlacingPolicy("aware", "oracle"),
}
"""Naive max-min tests whether a network that shares fairly would make forecasts needless."""

BEST_CONSTANT = "best constant"
"""The one of ``CONSTANTS`` with the least turnaround in hindsight, by trace and scenario."""
