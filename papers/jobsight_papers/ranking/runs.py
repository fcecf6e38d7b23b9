"""Runs of the ranking experiment: the choice of machines whose owners do not evict the jobs.

A run draws machines, owners and the jobs of one published set from its seed, and simulates one rank on them; ranks are
compared on the same draws, pair by pair. No rank knows how they were drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobsight_papers.ranking.choosers import (
    AvailabilityOracle,
    Chooser,
    Figure,
    FirstCome,
    GridView,
    HistoryRank,
    Observed,
    fewest_evictions,
    longest_mean,
    new_view,
)
from jobsight_papers.ranking.draws import Drawn, Owners, draw, draw_on_trace, observed
from jobsight_papers.ranking.grid import CampusGrid, OnEviction
from jobsight_papers.ranking.job_sets import SETS
from jobsight_papers.ranking.model_choosers import ResourceVectorRank, SurvivalRank
from jobsight_papers.ranking.owners import HOUR_S

LOAD = 0.3
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
THIRDS = (1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
HALVES = (0.5, 0.5, 0.0)
COMPARED = ("first-come", "grv", "fewest-evictions", "survival")
CURVE_SEEDS = 4

EXCHANGED_WORK_H = 5.2
"""Mean work of set 4 if its rows were exchanged in print: fitted to the 67.58 % that first come then has."""


@dataclass(frozen=True, slots=True)
class RankingCase:
    """One run. ``mean_work_h`` of None is the set's; ``trace``: a file of the Failure Trace Archive."""

    set: int
    rank: str
    weights: tuple[float, float, float] = THIRDS
    load: float = LOAD
    seed: int = 0
    owners: Owners = "departments"
    on_eviction: OnEviction = "restart"
    mean_work_h: float | None = None
    trace: str | None = None

    @property
    def of_seed(self) -> RankingCase:
        """Return the case with seed 0, equal for all seeds."""
        return replace(self, seed=0)


MakeChooser = Callable[[GridView, Drawn, RankingCase], Chooser]


def _vector(raw: bool = False) -> MakeChooser:
    return lambda view, _, case: ResourceVectorRank(view, case.weights, raw)


def _seen(drawn: Drawn) -> Observed:
    return observed(drawn.availability, float(drawn.jobs.submit_s[0]))


def _history(figure: Figure) -> MakeChooser:
    return lambda view, drawn, _: HistoryRank(view, figure, _seen(drawn))


def _survival(by_age: bool) -> MakeChooser:
    return lambda view, drawn, _: SurvivalRank(
        view, by_age, drawn.jobs.predicted_s, _seen(drawn), float(drawn.jobs.submit_s[0])
    )


RANKS: dict[str, MakeChooser] = {
    "first-come": lambda view, *_: FirstCome(view),
    "grv": _vector(),
    "grv-raw": _vector(raw=True),
    "fewest-evictions": _history(fewest_evictions),
    "longest-mean": _history(longest_mean),
    "survival": _survival(by_age=True),
    "survival-no-age": _survival(by_age=False),
    "oracle": lambda view, drawn, _: AvailabilityOracle(view, drawn.availability.ends, drawn.jobs.work_s),
}
"""The choices of ``--ranks``, with their constructors."""


def published_cases(seeds: int) -> Iterator[RankingCase]:
    """Yield all ranks on the four sets at the published load, GRV with both published weights, seed by seed."""
    for seed in range(seeds):
        for number in SETS:
            for rank in RANKS:
                if rank != "grv-raw":
                    yield RankingCase(number, rank, seed=seed)
            yield RankingCase(number, "grv", HALVES, seed=seed)


def curve_cases(seeds: int) -> Iterator[RankingCase]:
    """Yield first come, GRV, fewest evictions and survival at the other loads."""
    for seed in range(min(seeds, CURVE_SEEDS)):
        for number in SETS:
            for load in LOADS:
                if load != LOAD:
                    for rank in COMPARED:
                        yield RankingCase(number, rank, load=load, seed=seed)


def variant_cases(seeds: int) -> Iterator[tuple[str, RankingCase]]:
    """Yield the open questions: both readings of set 4's row, other owners, and checkpoints."""
    for seed in range(seeds):
        for rank in COMPARED:
            yield "set 4, rows exchanged", RankingCase(4, rank, seed=seed, mean_work_h=EXCHANGED_WORK_H)
        for rank in ("first-come", "grv-raw", "survival"):
            yield "set 4, owners prefer fast machines, raw CA", RankingCase(4, rank, seed=seed, owners="prefer-fast")
        for number in (2, 3):
            for rank in (*COMPARED, "survival-no-age"):
                yield "sessions that end early or last", RankingCase(number, rank, seed=seed, owners="fickle")
            for rank in COMPARED:
                yield "hourly checkpoints", RankingCase(number, rank, seed=seed, on_eviction="checkpoint")


def run_case(case: RankingCase) -> dict[str, Any]:
    """Return the figures of one run."""
    if case.trace is None:
        drawn = draw(case.set, case.mean_work_h, case.load, case.seed, case.owners)
    else:
        drawn = draw_on_trace(case.trace, case.set, case.load, case.seed)
    grid = simulate(case, drawn)
    begin_s, is_done = float(drawn.jobs.submit_s[0]), np.isfinite(grid.end_s)
    last_s = float(grid.end_s.max()) if is_done.all() else drawn.availability.to_s
    return {
        "completed_share": float((is_done & (grid.evictions == 0)).mean()),
        "makespan_s": last_s - begin_s,
        "lost_cpu_h": float(grid.lost_s.sum()) / HOUR_S,
        "mean_wait_s": float(grid.waited_s.mean()),
        "evictions": int(grid.evictions.sum()),
        "unfinished": int((~is_done).sum()),
    }


def simulate(case: RankingCase, drawn: Drawn) -> CampusGrid:
    """Run the grid, and return it."""
    view = new_view(drawn.machines.speed)
    chooser = RANKS[case.rank](view, drawn, case)
    grid = CampusGrid(drawn.jobs, drawn.availability, chooser, view, case.on_eviction)
    grid.run()
    return grid
