"""Matches a batch: a ladder of solvers, each better and slower than the one before, within a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .answer import Answer, Match, ObjectiveValue
from .check import faults
from .classes import job_classes
from .eligibility import Eligibility
from .heuristics import Heuristics, Incumbent
from .highs import Solved, solve
from .job_sets import JobSets
from .objectives import LinearForm
from .packing import Packing, Placement
from .polish import polish
from .problem import Problem
from .program import Program
from .stages import Stage, stages_of
from .why_not import Reserved, why_not

DEADLINE_S = 1.0
RUNGS = ("greedy", "prices", "relaxation", "integer")

RELAXED_AT_MOST = 20_000
"""Columns of the largest program whose relaxation is solved."""

_SMALL = 2_000
"""Columns of the largest program whose relaxation is faster than prices and gives them too, and that sets suit."""

INTEGER_AT_MOST = 6_000
"""Columns of the largest program that is solved in integers."""

_SOLVING = 0.85
"""Share of the deadline for solving; the rest is for the check of the answer and the reasons."""

PROVEN = 1e-6
"""A value this close to its bound, as a share of it, is proven; HiGHS leaves as much."""

_SETS = 0.4
"""Share of the time left for sets of jobs that are tried exactly."""

_SEARCH_FIRST = 0.08
"""Share of the time left for search before HiGHS is asked to prove or improve what it found."""

_PROOF = 0.95
"""Share of the time then left for HiGHS; the rest is for search again, which often finds what HiGHS does not."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Clock = Callable[[], float]


def match(
    problem: Problem,
    *,
    clock: Clock,
    deadline_s: float = DEADLINE_S,
    rung: str = RUNGS[-1],
    seed: int = 0,
    reserved: Reserved | None = None,
) -> Answer:
    """Matches each job of ``problem`` wholly or not at all.

    ``clock`` gives the seconds spent, as ``time.process_time`` or ``time.monotonic`` does; after ``deadline_s`` of it
    the best matches so far are the answer. Greedy matching is always completed, so a batch of thousands may take
    longer. ``rung`` is the highest step of the ladder to climb. The matches are checked against the records before they
    leave. ``reserved`` explains what reservations keep from jobs.

    Raises:
        ValueError: there is no such rung.
    """
    if rung not in RUNGS:
        raise ValueError(f"unknown rung {rung!r}; known: {', '.join(RUNGS)}")
    start = clock()
    run = _Run(problem, clock, start + _SOLVING * deadline_s, RUNGS.index(rung), seed)
    outcomes = run.climb()
    matches = matches_of(run.eligibility, run.best.placed)
    wrong = faults(problem, matches, run.eligibility)
    if wrong:
        matches = tuple(one for one in matches if one.job not in wrong)
    matched = {one.job for one in matches}
    placed = {job: placement for job, placement in run.best.placed.items() if problem.jobs[job].name in matched}
    unmatched = why_not(run.eligibility, run.candidates, placed, reserved)
    first = outcomes[0]
    warnings = problem.warnings + tuple(f"withdrawn: {job}: {fault}" for job, fault in wrong.items())
    return Answer(
        "optimal" if all(outcome.is_optimal for outcome in outcomes) and not wrong else "feasible",
        run.best.rung,
        first.value,
        first.bound,
        gap_of(first.value, first.bound),
        clock() - start,
        matches,
        unmatched,
        run.rows,
        run.columns,
        tuple(
            ObjectiveValue(outcome.name, outcome.value, outcome.bound, gap_of(outcome.value, outcome.bound))
            for outcome in outcomes
        ),
        _named(run.eligibility, run.prices),
        warnings,
    )


def gap_of(value: float, bound: float | None) -> float | None:
    """The difference over the larger magnitude; None without a bound."""
    if bound is None:
        return None
    largest = max(abs(value), abs(bound))
    return abs(bound - value) / largest if largest > 0.0 else 0.0


@dataclass(slots=True)
class _Outcome:
    name: str
    value: float
    bound: float | None
    is_optimal: bool


class _Run:
    """One climb of the ladder."""

    def __init__(self, problem: Problem, clock: Clock, until: float, rung: int, seed: int) -> None:
        self._problem, self._clock, self._until, self._rung = problem, clock, until, rung
        self._rng = np.random.default_rng(seed)
        self.eligibility = Eligibility(problem)
        self.candidates = self.eligibility.eligible()
        self.stages = stages_of(problem.objectives, self.eligibility, self.candidates)
        self.best = Incumbent({}, 0.0, "greedy", np.inf)
        self.prices: dict[str, Floats] = {}
        self.rows = self.columns = 0
        self._program: Program | None = None
        self._kept: list[tuple[Stage, float]] = []
        self._kept_in_program = 0
        self._size = sum(map(len, self.candidates)) + len(problem.jobs)

    def climb(self) -> list[_Outcome]:
        """The stages in turn; what each reached."""
        outcomes: list[_Outcome] = []
        for index, stage in enumerate(self.stages):
            until = self._clock() + (self._until - self._clock()) / (len(self.stages) - index)
            outcome = self._first(stage, until) if index == 0 else self._next(stage, until)
            outcomes.append(outcome)
            self._kept.append((stage, outcome.value))
        for stage, outcome in zip(self.stages, outcomes, strict=True):
            outcome.value = stage.value(self.best.placed)
        return outcomes

    def _first(self, stage: Stage, until: float) -> _Outcome:
        form = stage.form
        if form is None or not form.is_max or form.s or form.f:
            idle = stage.value({})
            self.best = Incumbent({}, idle, "greedy", -idle if form is not None and form.costs_only else np.inf)
            return self._integer(stage, until, None)
        ladder = Heuristics(self.eligibility, self.candidates, form, self._clock, until)
        self.best = ladder.greedy()
        if self._is_proven(stage) or self._rung == 0 or ladder.is_due():
            return self._outcome(stage)
        if self._rung == 1 or self._size > _SMALL:
            self.best = ladder.by_prices(self.best)
            self.prices = ladder.priced.prices if ladder.priced is not None else {}
            if self._is_proven(stage) or self._rung == 1 or ladder.is_due():
                return self._outcome(stage)
        if self._size <= RELAXED_AT_MOST:
            self._relax(stage, ladder, until)
            if self._is_proven(stage) or self._rung == 2:
                return self._outcome(stage)
        is_small = self._size <= INTEGER_AT_MOST and self._rung == 3
        if self._rung == 3 and self._size <= _SMALL and self._by_sets(stage, form, until):
            return self._outcome(stage)
        pause = until if not is_small else self._clock() + _SEARCH_FIRST * (until - self._clock())
        self.best = ladder.searched(self.best, self._target(stage), pause, self._rng)
        if self._is_proven(stage) or not is_small:
            return self._outcome(stage)
        return self._integer(stage, until, ladder)

    def _relax(self, stage: Stage, ladder: Heuristics, until: float) -> None:
        program = self._built()
        relaxed = solve(program, stage.costs(program), True, self._clock, until, is_relaxed=True)
        if relaxed.values is None or relaxed.bound is None:
            return
        self.best.bound = min(self.best.bound, relaxed.bound)
        if relaxed.duals is not None:
            self.prices = program.prices(relaxed.duals)
        matched, chosen = program.spread(relaxed.values)
        margins = ladder.priced.margins if ladder.priced is not None else np.zeros(len(matched))
        finite = np.where(np.isfinite(margins), margins, 0.0)
        order = matched + 1e-3 * finite / max(1.0, float(np.abs(finite).max(initial=0.0)))

        def score(number: int, resources: Integers) -> Floats:
            return -chosen[number][np.searchsorted(self.candidates[number], resources)]

        self.best = ladder.by_relaxation(self.best, order, score)

    def _by_sets(self, stage: Stage, form: LinearForm, until: float) -> bool:
        """Tries the sets of jobs that could be worth more, where jobs alone make the value; whether that proves it."""
        if form.x is not None or not self.prices or any(job.relations for job in self._problem.jobs):
            return False
        pause = self._clock() + _SETS * (until - self._clock())
        classes = self._built().classes
        sets = JobSets(self.eligibility, self.candidates, classes, form.z, self.prices, self._rng)
        placed, bound = sets.improve(self.best.value, stage.is_whole, lambda: self._clock() >= pause)
        if placed is not None:
            self.best = Incumbent(placed, stage.value(placed), "sets", self.best.bound)
        self.best.bound = min(self.best.bound, bound)
        return self._is_proven(stage)

    def _next(self, stage: Stage, until: float) -> _Outcome:
        placed = self.best.placed
        self.best.placed = polish(self.eligibility, self.candidates, placed, stage, self._kept, self._clock, until)
        self.best.value, self.best.bound = stage.value(self.best.placed), np.inf
        return self._integer(stage, until, None)

    def _integer(self, stage: Stage, until: float, ladder: Heuristics | None) -> _Outcome:
        """HiGHS, where the program is small enough; what it finds replaces the best only if it is better."""
        if self._rung < 3 or self._size > INTEGER_AT_MOST or self._clock() >= until:
            return self._outcome(stage)
        program = self._built()
        pause = until if ladder is None else self._clock() + _PROOF * (until - self._clock())
        # Started from what search found, HiGHS takes six times as long to prove the first objective (docs/matching.md).
        start = program.values(self.best.placed) if ladder is None else None
        costs, sign = stage.costs(program), 1.0 if stage.is_max else -1.0
        found = solve(program, costs, stage.is_max, self._clock, pause, start)
        packing = self._packed(program, found)
        if packing is None and found.values is not None:  # one that holds within 1e-6 only
            found = solve(program, costs, stage.is_max, self._clock, pause, start, is_strict=True)
            packing = self._packed(program, found)
        if found.bound is not None:
            self.best.bound = min(self.best.bound, sign * found.bound)
        value = self.best.value if packing is None else stage.value(packing.placed)
        if packing is not None and sign * value > sign * self.best.value + 1e-12:
            self.best = Incumbent(packing.placed, value, "integer", self.best.bound)
        if packing is not None and found.is_optimal and stage.is_no_worse(self.best.value, value):
            self.best.rung = "integer"
        if ladder is not None and not found.is_optimal and not self._is_proven(stage) and not ladder.is_due():
            self.best = ladder.searched(self.best, self._target(stage), until, self._rng)
        return self._outcome(stage)

    def _packed(self, program: Program, found: Solved) -> Packing | None:
        """What was found as placements; None if it exceeds a capacity, or misses an objective that is kept."""
        if found.values is None:
            return None
        packing = Packing(self.eligibility, self.candidates)
        whole = all(packing.put(job, placed) for job, placed in program.placements(found.values).items())
        kept = all(stage.is_no_worse(stage.value(packing.placed), value) for stage, value in self._kept)
        return packing if whole and kept else None

    def _built(self) -> Program:
        if self._program is None:
            weights = tuple(job.priority for job in self._problem.jobs)
            classes = job_classes(self._problem, weights)
            forms = [stage.form for stage in self.stages if stage.form is not None]
            self._program = Program(self.eligibility, self.candidates, classes, forms)
        for stage, value in self._kept[self._kept_in_program :]:
            slack = 1e-9 * max(1.0, abs(value))
            lower, upper = (value - slack, np.inf) if stage.is_max else (-np.inf, value + slack)
            self._program.keep(stage.costs(self._program), lower, upper)
        self._kept_in_program = len(self._kept)
        self.rows, self.columns = self._program.rows, self._program.columns
        return self._program

    def _target(self, stage: Stage) -> float:
        """The value at which the best is proven, in the sense of a maximum."""
        bound = self.best.bound
        if not np.isfinite(bound):
            return np.inf
        if stage.is_whole:  # one less is another value, however large they are
            bound = np.floor(bound + 1e-6)
            return float(bound - min(PROVEN * max(1.0, abs(bound)), 0.5))
        return float(bound - PROVEN * max(1.0, abs(bound)))

    def _is_proven(self, stage: Stage) -> bool:
        sign = 1.0 if stage.is_max else -1.0
        return sign * self.best.value >= self._target(stage)

    def _outcome(self, stage: Stage) -> _Outcome:
        sign = 1.0 if stage.is_max else -1.0
        value, bound = self.best.value, self.best.bound
        if not np.isfinite(bound):
            return _Outcome(stage.name, value, None, False)
        if self._is_proven(stage):
            return _Outcome(stage.name, value, value, True)
        whole = float(np.floor(bound + 1e-6)) if stage.is_whole else bound
        return _Outcome(stage.name, value, sign * whole, False)


def matches_of(eligibility: Eligibility, placed: Mapping[int, Placement]) -> tuple[Match, ...]:
    """Placed jobs by name, in the order of the batch."""
    problem, types = eligibility.problem, eligibility.types
    return tuple(
        Match(
            problem.jobs[job].name,
            {
                dependency.name: tuple(
                    problem.resources[types[dependency.type].members[position]].name for position in chosen.tolist()
                )
                for dependency, chosen in zip(problem.jobs[job].dependencies, placed[job], strict=True)
            },
        )
        for job in sorted(placed)
    )


def _named(eligibility: Eligibility, prices: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    resources = eligibility.problem.resources
    return {
        resources[member].name: {
            kind: float(price) for kind, price in zip(of.kinds, prices[name][position], strict=True) if price > 1e-9
        }
        for name, of in eligibility.types.items()
        if name in prices
        for position, member in enumerate(of.members.tolist())
        if (prices[name][position] > 1e-9).any()
    }
