"""Variations of the co-allocation experiment: sites that run jobs, and policies that place them."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_scheduler.coallocation.communication import Habits

PROCESSORS, LOAD = (32,) * 4, 0.8
HALF_BPS = 25e6
"""Bandwidth per processor of a job that communicates half of its time, if that share rises with bandwidth."""


HABITS = Habits()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A site: its uplinks (Mb/s, one for each cluster), its jobs' communication, and its users' statements.

    ``stated``: users state this many times what they would by their habits. Without ``has_names`` no job carries the
    name of its application.
    """

    uplinks_mbps: tuple[float, ...]
    habits: Habits = HABITS
    stated: float = 1.0
    has_names: bool = True


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
    "heavy tails, 100 Mb/s": Scenario(SLOW, habits=Habits(application_spread=2.0)),
    "heavy tails, 300 Mb/s": Scenario(MEDIUM, habits=Habits(application_spread=2.0)),
    "jobs differ": Scenario(SLOW, habits=Habits(job_spread=0.6)),
    "no names": Scenario(SLOW, has_names=False),
    "users state a tenth": Scenario(SLOW, stated=0.1),
}


@dataclass(frozen=True, slots=True)
class PlacingPolicy:
    """Placement of jobs, and source of bandwidths, or ``constant_mbps`` for every job."""

    placement: str
    bandwidth: str = "oracle"
    constant_mbps: float = 0.0


CONSTANTS = {f"constant {rate:g}": PlacingPolicy("aware", "constant", rate) for rate in (20.0, 40.0, 80.0, 160.0)}

POLICIES: dict[str, PlacingPolicy] = {
    "none": PlacingPolicy("none"),
    "naive": PlacingPolicy("naive"),
    "reactive": PlacingPolicy("reactive"),
    **CONSTANTS,
    "aware user": PlacingPolicy("aware", "user"),
    "aware means": PlacingPolicy("aware", "application-means"),
    "aware oracle": PlacingPolicy("aware", "oracle"),
}

BEST_CONSTANT = "best constant"
"""The one of ``CONSTANTS`` with the least turnaround in hindsight, by trace and scenario."""
