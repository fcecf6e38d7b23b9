"""One round of continuous matching: ageing weights, and a reservation for the job that was passed over too often.

Fairness is ours; the paper leaves it out. A job of age ``a`` (rounds since it was submitted) weighs ``P (1 + a / 5)``.
From age 10 on, jobs are served in the order of age: each that fits now is matched, and the first that does not gets a
reservation (reservations.py). So nothing delays the oldest job that could run, every job becomes the oldest, and none
that could ever run starves. Jobs that could not be matched now keep no other one out of a round (openings.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from itertools import islice

import numpy as np
from msgspec.structs import asdict, replace

from .answer import Answer, Match, Unmatched
from .check import faults
from .eligibility import Eligibility
from .ladder import DEADLINE_S, RUNGS, match
from .openings import openings
from .packing import Packing
from .problem import AgedJob, MatchJob, Objective, Problem, Resource
from .reservations import Reservation, at_time, served, with_matches, without_reserved
from .why_not import why_not

AGEING_ROUNDS = 5.0
RESERVE_AFTER_ROUNDS = 10
HOLD_S = 900.0
"""How long a match holds what it has if the duration of its job is unknown."""

WINDOW = 120
"""Jobs that are matched together, the oldest of those that fit now: four times those that make a round due."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits, and for how many rounds; ``is_explained``: the reason that it has need not be looked for again
    if it still does not fit.
    """

    job: MatchJob
    age: int = 0
    is_explained: bool = False


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """The answer to all jobs that wait: a match or a reason for each that was not explained before."""

    answer: Answer
    reservation: Reservation | None


def match_round(
    resources: Sequence[Resource],
    waiting: Sequence[WaitingJob],
    *,
    now_s: float,
    clock: Callable[[], float],
    deadline_s: float = DEADLINE_S,
    objectives: Sequence[Objective] = (Objective("throughput"),),
    hour: float | None = None,
    rung: str = RUNGS[-1],
    seed: int = 0,
) -> RoundAnswer:
    """Matches ``waiting`` at ``now_s``, the oldest first.

    ``resources`` have their ``holds`` with the times at which these end: a reservation is as good as they are.
    """
    start = clock()
    by_age = sorted(waiting, key=lambda one: -one.age)
    jobs = [AgedJob(**asdict(one.job), aged=1.0 + one.age / AGEING_ROUNDS) for one in by_age]
    first = [Objective("priority")] if objectives[0].name == "throughput" else []
    kept = {"throughput", *(one.name for one in first)}
    problem = Problem(tuple(resources), (), (*first, *(one for one in objectives if one.name not in kept)), hour, now_s)
    reasons: dict[str, Unmatched | None] = {one.job.name: None for one in by_age if one.is_explained}
    fitting = list(openings(problem, jobs, reasons))
    overdue = [job for job, one in zip(jobs, by_age, strict=True) if one.age >= RESERVE_AFTER_ROUNDS]
    idle = replace(problem, resources=at_time(resources, np.inf))
    never = dict.fromkeys(job.name for job in overdue)
    matches, reservation = served(problem, islice(openings(idle, overdue, never), WINDOW))
    by_name = {job.name: job for job in jobs}
    taken = {one.job for one in matches}
    if reservation is not None:
        taken.add(reservation.job)
    blocked: dict[str, Unmatched | None] = {}
    looked: dict[str, MatchJob] = {}

    def rest(asked: Sequence[MatchJob], on: tuple[Resource, ...], share: float) -> Answer:
        left = replace(problem, resources=on)
        chosen = tuple(islice(openings(left, [job for job in asked if job.name not in taken], blocked), WINDOW))
        looked.update((job.name, job) for job in chosen)
        seconds = max(1e-3, share * (deadline_s - (clock() - start)))
        answer = match(replace(left, jobs=chosen), clock=clock, deadline_s=seconds, rung=rung, seed=seed)
        taken.update(one.job for one in answer.matches)
        return answer

    left = with_matches(problem.resources, jobs, matches)
    if reservation is None:
        answers = [rest(fitting, left, 1.0)]
    else:
        job = by_name[reservation.job]
        answers = [rest(fitting, without_reserved(left, job, reservation), 0.7)]
        left = with_matches(left, jobs, answers[0].matches)
        answers.append(rest([job for job in fitting if _end_s(job, now_s) <= reservation.start_s], left, 1.0))
    matches += tuple(one for answer in answers for one in answer.matches)
    looked |= {name: by_name[name] for name in (*blocked, *(one.job for one in matches), *taken)}
    found = _joined(replace(problem, jobs=tuple(looked.values())), matches, answers, reservation, clock() - start)
    reasons |= {one.job: one for one in found.unmatched}
    done = {one.job for one in found.matches}
    turn = f"it fits; {len(looked)} that wait longer were matched or tried first in this round"
    waits = (reasons.get(job.name, Unmatched(job.name, "turn", turn)) for job in jobs if job.name not in done)
    unmatched = tuple(_waits(one, reservation, now_s) for one in waits if one is not None)
    return RoundAnswer(changed(found, unmatched=unmatched), reservation)


def _end_s(job: MatchJob, now_s: float) -> float:
    return now_s + (HOLD_S if job.duration_s is None else job.duration_s)


def _joined(
    problem: Problem,
    matches: tuple[Match, ...],
    answers: Sequence[Answer],
    reservation: Reservation | None,
    cpu_s: float,
) -> Answer:
    """One answer for all phases of a round, checked as a whole, with the reasons of those that still wait."""
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    wrong = faults(problem, matches, eligibility)
    whole = tuple(one for one in matches if one.job not in wrong)
    packing = Packing(eligibility, candidates)
    position = {
        problem.resources[member].name: index
        for of in eligibility.types.values()
        for index, member in enumerate(of.members.tolist())
    }
    numbers = {job.name: index for index, job in enumerate(problem.jobs)}
    for one in whole:
        job = numbers[one.job]
        packing.put(
            job,
            tuple(
                np.array([position[name] for name in one.resources[dependency.name]], dtype=np.int64)
                for dependency in problem.jobs[job].dependencies
            ),
        )
    reserved: dict[str, str] = {}
    if reservation is not None:
        for job, of in enumerate(problem.jobs):
            if job not in packing.placed and of.name != reservation.job and packing.place(job, None):
                packing.remove(job)
                reserved[of.name] = (
                    f"it would end after {reservation.start_s - problem.now_s:,.0f} s, when {reservation.job} starts, "
                    "which was passed over too often, on what it would hold"
                )
    first = answers[0]
    is_single = reservation is None and len(whole) == len(first.matches)
    value = float(sum(problem.jobs[job].weight for job in packing.placed))
    return changed(
        first,
        status=first.status if is_single else "feasible",
        objective=first.objective if is_single else value,
        bound=first.bound if is_single else None,
        gap=first.gap if is_single else None,
        objectives=first.objectives if is_single else (),
        cpu_s=cpu_s,
        matches=whole,
        unmatched=why_not(eligibility, candidates, packing.placed, reserved),
        failed=tuple(rung for answer in answers for rung in answer.failed),
    )


def _waits(one: Unmatched, reservation: Reservation | None, now_s: float) -> Unmatched:
    if reservation is None or one.job != reservation.job:
        return one
    return changed(one, reason=f"{one.reason}; reserved to start in {reservation.start_s - now_s:,.0f} s")
