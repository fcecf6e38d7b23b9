"""Matches a batch: a ladder of solvers, each better and slower than the one before, within a deadline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .answer import Answer, Match, ObjectiveValue
from .check import faults
from .classes import job_classes
from .eligibility import Eligibility
from .heuristics import Heuristics, Incumbent, preferred
from .highs import Solved, solve
from .job_sets import JobSets
from .objectives import LinearForm
from .packing import Packing, Placement
from .problem import Problem
from .program import Program
from .stages import Stage, stages_of
from .why_not import Reserved, why_not

log = logging.getLogger(__name__)

DEADLINE_S = 1.0
RUNGS = ("greedy", "prices", "relaxation", "integer")

RELAXED_AT_MOST = 20_000
"""Columns of the largest program whose relaxation is solved."""

_SMALL = 2_000
"""Columns of the largest program whose relaxation is faster than prices and gives them too, and that sets suit."""

PRICED_AT_MOST = 20_000_000
"""Pairs of a dependency and a resource of its type that are priced; each takes a dozen bytes."""

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
    longer. ``rung`` is the highest step of the ladder to climb; one that fails is logged and named in the answer, which
    is then that of the others. The matches are checked against the records before they
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
    if wrong:
        for stage, outcome in zip(run.stages, outcomes, strict=True):
            outcome.value = stage.value(placed)
    unmatched = why_not(run.eligibility, run.candidates, placed, reserved)
    first = outcomes[0]
    warnings = problem.warnings + tuple(f"withdrawn: {job}: {fault}" for job, fault in wrong.items())
    warnings += tuple(f"failed: {rung}" for rung in run.failed)
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
        tuple(run.failed),
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
        self.failed: list[str] = []
        self._size = sum(map(len, self.candidates)) + len(problem.jobs)
        self._pairs = sum(of.needs.shape[0] * len(of.members) for of in self.eligibility.types.values())
        self._has_no_relations = not any(job.relations for job in problem.jobs)

    def climb(self) -> list[_Outcome]:
        """The stages in turn; what each reached."""
        outcomes: list[_Outcome] = []
        for index, stage in enumerate(self.stages):
            if index:
                self.best.value, self.best.bound = stage.value(self.best.placed), np.inf
            climb, share = (self._next if index else self._first), 1.0 / (len(self.stages) - index)
            self._try(stage.name, partial(climb, stage, share))
            outcomes.append(self._outcome(stage))
            self._kept.append((stage, outcomes[-1].value))
        for stage, outcome in zip(self.stages, outcomes, strict=True):
            outcome.value = stage.value(self.best.placed)
        return outcomes

    def _first(self, stage: Stage, share: float) -> None:
        until = self._part(share)
        form = stage.form
        if form is None or not form.is_max or form.s or form.f:
            idle = stage.value({})
            self.best = Incumbent({}, idle, "greedy", -idle if form is not None and form.costs_only else np.inf)
            self._try("integer", lambda: self._integer(stage, until))
            return
        ladder = Heuristics(self.eligibility, self.candidates, form, self._clock, until)
        for name, climb in self._rungs(stage, form, ladder, until):
            self._try(name, climb)
            if self._is_proven(stage) or ladder.is_due():
                break

    def _rungs(
        self, stage: Stage, form: LinearForm, ladder: Heuristics, until: float
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        """What is tried, in this order, for an objective in Z and X that is maximised."""
        yield "greedy", lambda: self._take(ladder.greedy())
        is_integer = self._rung == 3 and self._size <= INTEGER_AT_MOST
        if (self._rung == 1 or (self._rung > 1 and self._size > _SMALL)) and self._pairs <= PRICED_AT_MOST:
            yield "prices", lambda: self._price(ladder)
        if self._rung > 1 and self._size <= RELAXED_AT_MOST:
            yield "relaxation", lambda: self._relax(stage, ladder, until)
        if self._rung == 3 and self._size <= _SMALL and form.x is None and self._has_no_relations:
            yield "sets", lambda: self._by_sets(stage, form, until)
        if self._rung == 3:
            pause = self._clock() + (_SEARCH_FIRST if is_integer else 1.0) * (until - self._clock())
            yield "search", lambda: self._take(ladder.searched(self.best, self._target(stage), pause, self._rng))
        if is_integer:
            # Started from what search found, HiGHS takes six times as long to prove it (docs/matching.md).
            yield "integer", lambda: self._integer(stage, until, is_started=False)

    def _try(self, rung: str, climb: Callable[[], None]) -> None:
        """If a rung fails, for want of memory or by a fault of ours or of a solver, the best so far stays."""
        try:
            climb()
        except Exception as error:
            log.warning("matching %d jobs: rung %s failed", len(self._problem.jobs), rung, exc_info=True)
            self.failed.append(f"{rung}: {type(error).__name__}: {error}")

    def _take(self, best: Incumbent) -> None:
        self.best = best

    def _price(self, ladder: Heuristics) -> None:
        self.best = ladder.by_prices(self.best)
        self.prices = ladder.priced.prices if ladder.priced is not None else {}

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

    def _by_sets(self, stage: Stage, form: LinearForm, until: float) -> None:
        """Tries the sets of jobs that could be worth more, where jobs alone make the value."""
        if not self.prices:
            return
        pause = self._clock() + _SETS * (until - self._clock())
        classes = self._built().classes
        sets = JobSets(self.eligibility, self.candidates, classes, form.z, self.prices, self._rng)
        placed, bound = sets.improve(self.best.value, stage.is_whole, lambda: self._clock() >= pause)
        if placed is not None:
            self.best = Incumbent(placed, stage.value(placed), "sets", self.best.bound)
        self.best.bound = min(self.best.bound, bound)

    def _part(self, share: float) -> float:
        """The end of this share of the time that is left."""
        now = self._clock()
        return now + share * (self._until - now)

    def _next(self, stage: Stage, share: float) -> None:
        until = self._part(share)
        self._try("moves", lambda: self._move(stage))
        self._try("integer", lambda: self._integer(stage, until))

    def _move(self, stage: Stage) -> None:
        """Moves single jobs to where they add more to an objective in X, as long as no objective before it is worse."""
        if stage.form is None or stage.form.x is None:
            return
        packing = Packing(self.eligibility, self.candidates)
        for job, placement in self.best.placed.items():
            packing.put(job, placement)
        score = preferred(stage.form, self.candidates)
        for job in list(packing.placed):
            before = packing.remove(job)
            if not packing.place(job, score):
                packing.put(job, before)
        value = stage.value(packing.placed)
        if self._sign(stage) * (value - self.best.value) > 0.0 and self._keeps(packing):
            self.best.placed, self.best.value = dict(packing.placed), value

    def _integer(self, stage: Stage, until: float, is_started: bool = True) -> None:
        """HiGHS, where the program is small enough; what it finds replaces the best only if it is better."""
        if self._rung < 3 or self._size > INTEGER_AT_MOST or self._clock() >= until:
            return
        program = self._built()
        start = program.values(self.best.placed) if is_started else None
        costs, sign = stage.costs(program), self._sign(stage)
        found = solve(program, costs, stage.is_max, self._clock, until, start)
        packing = self._packed(program, found)
        if packing is None and found.values is not None:  # one that holds within 1e-6 only
            found = solve(program, costs, stage.is_max, self._clock, until, start, is_strict=True)
            packing = self._packed(program, found)
        if found.bound is not None:
            self.best.bound = min(self.best.bound, sign * (found.bound + stage.constant))
        value = self.best.value if packing is None else stage.value(packing.placed)
        if packing is not None and sign * value > sign * self.best.value + 1e-12:
            self.best = Incumbent(packing.placed, value, "integer", self.best.bound)
        if packing is not None and found.is_optimal and stage.is_no_worse(self.best.value, value):
            self.best.rung = "integer"

    def _packed(self, program: Program, found: Solved) -> Packing | None:
        """What was found as placements; None if it exceeds a capacity, or misses an objective that is kept."""
        if found.values is None:
            return None
        packing = Packing(self.eligibility, self.candidates)
        whole = all(packing.put(job, placed) for job, placed in program.placements(found.values).items())
        return packing if whole and self._keeps(packing) else None

    def _keeps(self, packing: Packing) -> bool:
        """Whether no objective before is worse."""
        return all(stage.is_no_worse(stage.value(packing.placed), value) for stage, value in self._kept)

    @staticmethod
    def _sign(stage: Stage) -> float:
        return 1.0 if stage.is_max else -1.0

    def _built(self) -> Program:
        if self._program is None:
            classes = job_classes(self._problem)
            forms = [stage.form for stage in self.stages if stage.form is not None]
            self._program = Program(self.eligibility, self.candidates, classes, forms)
        for stage, value in self._kept[self._kept_in_program :]:
            slack = 1e-9 * max(1.0, abs(value))
            rest = value - stage.constant
            lower, upper = (rest - slack, np.inf) if stage.is_max else (-np.inf, rest + slack)
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
        return self._sign(stage) * self.best.value >= self._target(stage)

    def _outcome(self, stage: Stage) -> _Outcome:
        value, bound = self.best.value, self.best.bound
        if not np.isfinite(bound):
            return _Outcome(stage.name, value, None, False)
        if self._is_proven(stage):
            return _Outcome(stage.name, value, value, True)
        whole = float(np.floor(bound + 1e-6)) if stage.is_whole else bound
        return _Outcome(stage.name, value, self._sign(stage) * whole, False)


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
