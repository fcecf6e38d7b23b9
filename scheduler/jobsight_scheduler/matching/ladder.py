"""Matches a batch within a deadline, by a ladder of solvers, each better and slower than the one before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from jobsight_predictor.arrays import Floats, Integers
from jobsight_scheduler.matching.check import STATUSES, Answer, Match, ObjectiveValue, Status, faults
from jobsight_scheduler.matching.eligibility import Eligibility, job_classes
from jobsight_scheduler.matching.heuristics import Heuristics, Incumbent, preferred
from jobsight_scheduler.matching.highs import DUAL_TOLERANCE, Clock, Solved
from jobsight_scheduler.matching.objectives import LinearForm, linear_form
from jobsight_scheduler.matching.packing import Packing, Placement
from jobsight_scheduler.matching.problem import Problem
from jobsight_scheduler.matching.program import Program
from jobsight_scheduler.matching.why_not import why_not

log = logging.getLogger(__name__)

DEADLINE_S = 1.0
RUNGS = ("greedy", "relaxation", "search", "integer")

RELAXED_FIRST = 12_000  # columns; beyond, the relaxation with all resources of a type as one comes first

RELAXED_AT_MOST = 40_000  # columns of the relaxation with each resource

SMALL = 2_000  # columns of the largest program for HiGHS, which comes before search then

_ASKED = 250  # columns, up to which HiGHS must reach greedy matching's value: it is faster, but harder to interrupt

_SOLVING = 0.85  # of the deadline; the rest is for check and reasons

PROVEN = 1e-6  # a value this close to its bound, as a share of it, is good enough where values have no step

DOUBT = 1e-9  # error of a bound, as a share of it, since solvers compute in floating point

_PROVING = 0.9  # of the time left, for HiGHS before search


def match(problem: Problem, *, clock: Clock, deadline_s: float = DEADLINE_S, rungs: Sequence[str] = RUNGS) -> Answer:
    """Match each job of ``problem`` wholly or not at all.

    ``clock`` returns the seconds spent, like ``time.process_time`` or ``time.monotonic``; after ``deadline_s`` the
    answer is the best matches so far. Greedy matching always completes, so a batch of thousands may take longer.
    ``rungs`` are the steps of the ladder to climb after ``greedy``; the log and the answer name a failed one, and the
    others answer. All matches are checked against the records.
    """
    start = clock()
    run = _Climb(problem, clock, start + _SOLVING * deadline_s, rungs)
    bounds = run.climb()
    matches = matches_of(run.eligibility, run.best.placed)
    wrong = faults(run.eligibility, matches)
    placed = {job: chosen for job, chosen in run.best.placed.items() if problem.jobs[job].name not in wrong}
    judged = [run.judged(form, bound, placed) for form, bound in zip(run.forms, bounds, strict=True)]
    objectives, statuses = tuple(one for one, _ in judged), {status for _, status in judged}
    warnings = [f"withdrawn: {job}: {fault}" for job, fault in wrong.items()]
    return Answer(
        next(status for status in STATUSES if status in statuses),
        run.best.rung,
        objectives[0].value,
        objectives[0].bound,
        objectives[0].gap,
        clock() - start,
        tuple(one for one in matches if one.job not in wrong),
        why_not(run.eligibility, run.candidates, placed),
        run.rows,
        run.columns,
        objectives,
        (*warnings, *(f"failed: {rung}" for rung in run.failed)),
        tuple(run.failed),
    )


class _Climb:
    """One climb of the ladder."""

    def __init__(self, problem: Problem, clock: Clock, until: float, rungs: Sequence[str]) -> None:
        self._problem, self._clock, self._until = problem, clock, until
        self._rng = np.random.default_rng(0)
        self.eligibility = Eligibility(problem)
        self.candidates = self.eligibility.eligible()
        self.forms = [
            linear_form(one, self.eligibility, self.candidates).scaled(self.eligibility, self.candidates)
            for one in problem.objectives
        ]
        self.best = Incumbent({}, 0.0, "greedy", np.inf)
        """Best placements for the present objective; the bound is that of a maximum."""
        self.rows = self.columns = 0
        self._program: Program | None = None
        self._kept: list[tuple[LinearForm, float]] = []
        self._kept_in_program = 0
        self.failed: list[str] = []
        numbers = self.eligibility.numbers
        self._classes = job_classes(problem)
        self._size = len(self._classes) + sum(
            len(self.candidates[number]) for jobs in self._classes for number in numbers[jobs[0]]
        )
        self._most = len(numbers) + sum(at.of.count for at in self.eligibility.dependencies)
        """Jobs and instances: the largest sum of the columns."""
        self._rungs = {*rungs} - ({"integer"} if self._size > SMALL else set())

    def climb(self) -> list[float]:
        """Optimise one objective after the other; return the bound of each."""
        bounds: list[float] = []
        for index, form in enumerate(self.forms):
            self.best = replace(self.best, value=self._value(form), bound=np.inf)
            climb, share = (self._next if index else self._first), 1.0 / (len(self.forms) - index)
            self._try(form.name, partial(climb, form, share))
            bounds.append(self.best.bound)
            self._kept.append((form, self.best.value))
        return bounds

    def _value(self, form: LinearForm, placed: Mapping[int, Placement] | None = None) -> float:
        return form.value(self.eligibility, self.candidates, self.best.placed if placed is None else placed)

    def _first(self, form: LinearForm, share: float) -> None:
        until = self._part(share, self._until)
        if not form.is_max:
            self._try("integer", lambda: self._integer(form, until))
            return
        ladder = Heuristics(self.eligibility, self.candidates, form, self._clock, until)
        steps: dict[str, Callable[[], None]] = {
            "greedy": lambda: self._take(ladder.greedy()),
            # From the result of greedy matching, HiGHS takes longer to prove it.
            "integer": lambda: self._integer(form, self._part(_PROVING, until), is_started=False),
            "relaxation": lambda: self._relax(form, ladder, until),
            "search": lambda: self._take(ladder.searched(self.best, self._target(form), until, self._rng)),
        }
        for name, climb in steps.items():
            if name == "greedy" or name in self._rungs:
                self._try(name, climb)
            if self.best.value >= self._target(form) or self._clock() >= until:
                break

    def _try(self, rung: str, climb: Callable[[], None]) -> None:
        """Climb a rung; if it fails, by lack of memory or a bug of ours or of a solver, keep the best so far."""
        try:
            climb()
        except Exception as error:
            log.warning("matching %d jobs: rung %s failed", len(self._problem.jobs), rung, exc_info=True)
            self.failed.append(f"{rung}: {type(error).__name__}: {error}")

    def _take(self, best: Incumbent) -> None:
        self.best = best

    def _relax(self, form: LinearForm, ladder: Heuristics, until: float) -> None:
        """Match by a relaxation: with all resources of a type as one if it is large, then with each resource."""
        if self._size > RELAXED_FIRST:
            self.best = ladder.by_types(self.best, self._classes)
        if self._size > RELAXED_AT_MOST or self.best.value >= self._target(form):
            return
        program = self._built()
        relaxed = program.solve(program.costs(form), True, self._clock, until, is_relaxed=True)
        if relaxed.values is None or relaxed.bound is None:
            return
        self.best = replace(self.best, bound=min(self.best.bound, relaxed.bound))
        matched, chosen = program.spread(relaxed.values)

        def score(number: int, resources: Integers) -> Floats:
            return -chosen[number][np.searchsorted(self.candidates[number], resources)]

        self.best = ladder.relaxed(self.best, matched, score)

    def _part(self, share: float, until: float) -> float:
        """Return the end of this share of the time until then."""
        now = self._clock()
        return now + share * (until - now)

    def _next(self, form: LinearForm, share: float) -> None:
        until = self._part(share, self._until)
        self._try("moves", lambda: self._move(form))
        self._try("integer", lambda: self._integer(form, until))

    def _move(self, form: LinearForm) -> None:
        """Move single jobs to where they add more to an objective in X, unless an objective before it gets worse."""
        if form.x is None:
            return
        packing = Packing(self.eligibility, self.candidates, self.best.placed)
        score = preferred(form, self.candidates)
        for job in list(packing.placed):
            before = packing.remove(job)
            if not packing.place(job, score):
                packing.put(job, before)
        value = self._value(form, packing.placed)
        if form.sign * (value - self.best.value) > 0.0 and self._keeps(packing.placed):
            self.best = replace(self.best, placed=packing.placed, value=value)

    def _integer(self, form: LinearForm, until: float, is_started: bool = True) -> None:
        """Run HiGHS if the program is small enough; its result replaces the best only if it is better."""
        if "integer" not in self._rungs or self._clock() >= until:
            return
        program, sign = self._built(), form.sign
        solve = partial(program.solve, program.costs(form), form.is_max, self._clock, until, step=form.step)
        start = program.values(self.best.placed) if is_started else None
        if not is_started and self._size <= _ASKED:
            program.keep(program.costs(form), self.best.value - self._error(self.best.bound), np.inf)
        found = solve(start)
        placed = self._placed(program, found)
        while placed is None and found.values is not None and program.exclude(found.values):
            found = solve(start)
            placed = self._placed(program, found)
        if found.bound is not None:
            self.best = replace(self.best, bound=min(self.best.bound, sign * found.bound))
        if placed is None:
            return
        value = self._value(form, placed)
        if sign * value > sign * self.best.value + 1e-12:
            self.best = Incumbent(placed, value, "integer", self.best.bound)
        elif found.is_optimal and form.is_kept(self.best.value, value):
            self.best = replace(self.best, rung="integer")

    def _placed(self, program: Program, found: Solved) -> dict[int, Placement] | None:
        """Convert a solution to placements; None if it exceeds a capacity, or misses a kept objective."""
        if found.values is None:
            return None
        placed = program.placements(found.values)
        is_valid = not faults(self.eligibility, matches_of(self.eligibility, placed))
        return placed if is_valid and self._keeps(placed) else None

    def _keeps(self, placed: Mapping[int, Placement]) -> bool:
        """Return whether no objective before gets worse."""
        return all(form.is_kept(self._value(form, placed), value) for form, value in self._kept)

    def _built(self) -> Program:
        if self._program is None:
            self._program = Program(self.eligibility, self.candidates, self._classes)
        for form, value in self._kept[self._kept_in_program :]:
            slack = 1e-9 * max(1.0, abs(value))
            lower, upper = (value - slack, np.inf) if form.is_max else (-np.inf, value + slack)
            self._program.keep(self._program.costs(form), lower, upper)
        self._kept_in_program = len(self._kept)
        self.rows, self.columns = self._program.rows, self._program.columns
        return self._program

    def judged(self, form: LinearForm, bound: float, placed: Mapping[int, Placement]) -> tuple[ObjectiveValue, Status]:
        """Return the value of an objective with its bound, that of a maximum, and how far it is reached."""
        value = self._value(form, placed)
        most, reached = self._highest(form, bound), form.sign * value
        if not np.isfinite(most):
            return ObjectiveValue(form.name, value * form.unit, None, None), "feasible"
        if self._has_step(form, bound) and reached >= most - form.step / 2.0:
            most, status = reached, STATUSES[-1]
        else:
            is_close = most - reached <= PROVEN * abs(most)
            most, status = max(most, reached), "within 1e-6" if is_close else "feasible"
        gap = (most - reached) / max(abs(most), abs(reached), 1e-300)
        return ObjectiveValue(form.name, value * form.unit, form.sign * most * form.unit, gap), status

    def _error(self, bound: float) -> float:
        """Return the error that a bound may have, since solvers compute in floating point."""
        return DOUBT * max(1.0, abs(bound)) + DUAL_TOLERANCE * self._most

    def _has_step(self, form: LinearForm, bound: float) -> bool:
        """Return whether values differ by more than the error of the bound."""
        return self._error(bound) < form.step / 2.0

    def _highest(self, form: LinearForm, bound: float) -> float:
        """Return the highest value that a bound leaves possible, as of a maximum."""
        highest = bound + self._error(bound)
        return form.step * float(np.floor(highest / form.step)) if self._has_step(form, bound) else highest

    def _target(self, form: LinearForm) -> float:
        """Return the value at which there is nothing left to find, as of a maximum."""
        highest = self._highest(form, self.best.bound)
        if self._has_step(form, self.best.bound):
            return highest - form.step / 2.0
        return highest - (2.0 * self._error(highest) if form.step else PROVEN * abs(highest))


def matches_of(eligibility: Eligibility, placed: Mapping[int, Placement]) -> tuple[Match, ...]:
    """Return placed jobs by name, in the order of the batch."""
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
