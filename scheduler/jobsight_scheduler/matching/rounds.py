"""One round of continuous matching: ageing weights, and a reservation for the job that was passed over too often.

Fairness is ours; the paper leaves it out. A job of age ``a`` (rounds since it was submitted) weighs ``P (1 + a / 5)``.
From age 10 on, jobs are served in the order of age: each that fits now is matched, and for the first that does not, the
earliest time at which its whole gang fits is reserved. Others may then take of the reserved instances only what they
give back before that time (backfilling; D. A. Lifka, The ANL/IBM SP scheduling system, 1995). So nothing delays the
oldest job, every job becomes the oldest, and none that could ever run starves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .answer import Answer, Match, Unmatched
from .check import faults
from .eligibility import Eligibility
from .ladder import DEADLINE_S, RUNGS, match, matches_of
from .packing import Packing
from .problem import Capacity, MatchJob, Objective, Problem, Resource, shipped
from .why_not import why_not

AGEING_ROUNDS = 5.0
RESERVE_AFTER_ROUNDS = 10
HOLD_S = 900.0
"""How long a match holds what it has if the duration of its job is unknown."""

_WINDOW = 120
"""Jobs that one round looks at, the oldest: four times those that make a round due."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits, and for how many rounds."""

    job: MatchJob
    age: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """From ``start_s`` on, ``job`` gets these instances."""

    job: str
    start_s: float
    resources: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """The answer to the jobs of a round; ``unseen`` is how many younger jobs wait for the next one."""

    answer: Answer
    reservation: Reservation | None
    unseen: int
    matched: tuple[str, ...] = field(default=())


def match_round(
    resources: Sequence[Resource],
    waiting: Sequence[WaitingJob],
    *,
    now_s: float,
    clock: Callable[[], float],
    deadline_s: float = DEADLINE_S,
    objectives: Sequence[Objective] = (shipped("throughput"),),
    hour: float | None = None,
    rung: str = RUNGS[-1],
    seed: int = 0,
) -> RoundAnswer:
    """Matches the oldest of ``waiting`` at ``now_s``.

    ``resources`` have their ``holds`` with the times at which these end: a reservation is as good as they are.
    """
    start = clock()
    oldest = sorted(waiting, key=lambda one: -one.age)[:_WINDOW]
    jobs = [replace(one.job, priority=weight(one.job.priority, one.age)) for one in oldest]
    first = [shipped("priority")] if objectives[0].kind == "throughput" else []
    problem = Problem(
        tuple(resources),
        tuple(jobs),
        (*first, *(one for one in objectives if one.kind not in {"throughput", *(own.kind for own in first)})),
        hour,
        now_s,
    )
    overdue = [job for job, one in zip(jobs, oldest, strict=True) if one.age >= RESERVE_AFTER_ROUNDS]
    matches, reservation = _served(problem, overdue)
    left = with_matches(problem.resources, jobs, matches)
    late = set() if reservation is None else {job.name for job in jobs if _end_s(job, now_s) > reservation.start_s}
    taken = {one.job for one in matches}

    def rest(names: Callable[[MatchJob], bool], on: tuple[Resource, ...], share: float) -> Answer:
        asked = tuple(job for job in jobs if job.name not in taken and names(job))
        seconds = max(1e-3, share * (deadline_s - (clock() - start)))
        return match(replace(problem, resources=on, jobs=asked), clock=clock, deadline_s=seconds, rung=rung, seed=seed)

    answer = rest(
        lambda job: reservation is None or job.name != reservation.job,
        left if reservation is None else _without_reserved(left, problem, reservation),
        1.0 if reservation is None else 0.7,
    )
    answers = [answer]
    matches += answer.matches
    taken.update(one.job for one in answer.matches)
    if reservation is not None:
        left = with_matches(problem.resources, jobs, matches)
        answers.append(rest(lambda job: job.name not in late and job.name != reservation.job, left, 1.0))
        matches += answers[1].matches
    return RoundAnswer(
        _joined(problem, matches, answers, reservation, clock() - start),
        reservation,
        len(waiting) - len(oldest),
        tuple(one.job for one in matches),
    )


def weight(priority: float, age: int) -> float:
    """What a job counts after ``age`` rounds."""
    return priority * (1.0 + age / AGEING_ROUNDS)


def with_matches(
    resources: Sequence[Resource], jobs: Sequence[MatchJob], matches: Sequence[Match]
) -> tuple[Resource, ...]:
    """``resources`` with what ``matches`` take of them in use."""
    by_name = {job.name: job for job in jobs}
    used: dict[tuple[str, str], float] = {}
    for one in matches:
        for dependency in by_name[one.job].dependencies:
            for name in one.resources[dependency.name]:
                for kind, amount in dependency.amounts.items():
                    used[name, kind] = used.get((name, kind), 0.0) + amount
    chosen = {name for one in matches for names in one.resources.values() for name in names}
    return tuple(
        resource
        if resource.name not in chosen
        else replace(
            resource,
            is_held=True,
            capacities={
                kind: Capacity(capacity.total, capacity.used + used.get((resource.name, kind), 0.0))
                for kind, capacity in resource.capacities.items()
            },
        )
        for resource in resources
    )


def at_time(resources: Sequence[Resource], time_s: float) -> tuple[Resource, ...]:
    """``resources`` without the holds that end by ``time_s``."""
    return tuple(
        resource
        if not any(hold.until_s <= time_s for hold in resource.holds)
        else replace(
            resource,
            capacities={
                kind: Capacity(
                    capacity.total,
                    max(
                        0.0,
                        capacity.used
                        - sum(hold.amounts.get(kind, 0.0) for hold in resource.holds if hold.until_s <= time_s),
                    ),
                )
                for kind, capacity in resource.capacities.items()
            },
            holds=tuple(hold for hold in resource.holds if hold.until_s > time_s),
        )
        for resource in resources
    )


def earliest(problem: Problem, job: MatchJob) -> Reservation | None:
    """The earliest time at which ``job`` fits if nothing more is matched; None if it never does.

    What is free only grows as holds end, so the time is found by bisection.
    """
    ends = sorted({hold.until_s for resource in problem.resources for hold in resource.holds} | {problem.now_s})
    ends = [end for end in ends if end >= problem.now_s]
    low, high = 0, len(ends) - 1
    found = _placed(problem, job, ends[high])
    if found is None:
        return None
    while low < high:
        middle = (low + high) // 2
        earlier = _placed(problem, job, ends[middle])
        if earlier is None:
            low = middle + 1
        else:
            high, found = middle, earlier
    return Reservation(job.name, ends[high], found.resources)


def _served(problem: Problem, overdue: Sequence[MatchJob]) -> tuple[tuple[Match, ...], Reservation | None]:
    """Matches for the oldest jobs as long as they fit, and a reservation for the first that could but does not."""
    matches: tuple[Match, ...] = ()
    resources = problem.resources
    for job in overdue:
        found = earliest(replace(problem, resources=resources), job)
        if found is None:
            continue
        if found.start_s > problem.now_s:
            return matches, found
        matches = (*matches, Match(job.name, found.resources))
        resources = with_matches(resources, [job], matches[-1:])
    return matches, None


def _placed(problem: Problem, job: MatchJob, time_s: float) -> Match | None:
    eligibility = Eligibility(replace(problem, resources=at_time(problem.resources, time_s), jobs=(job,)))
    packing = Packing(eligibility, eligibility.eligible())
    return matches_of(eligibility, packing.placed)[0] if packing.place(0, None) else None


def _without_reserved(
    resources: Sequence[Resource], problem: Problem, reservation: Reservation
) -> tuple[Resource, ...]:
    """What jobs may take that end after the reservation starts: what is free now and will be left over then."""
    job = next(job for job in problem.jobs if job.name == reservation.job)
    later = at_time(resources, reservation.start_s)
    kept = with_matches(later, [job], [Match(job.name, reservation.resources)])
    return tuple(
        replace(
            now,
            capacities={
                kind: Capacity(capacity.total, max(capacity.used, then.capacities[kind].used))
                for kind, capacity in now.capacities.items()
            },
        )
        for now, then in zip(resources, kept, strict=True)
    )


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
    value = float(sum(problem.jobs[job].priority for job in packing.placed))
    unmatched = tuple(
        _waits(one, reservation, problem.now_s) for one in why_not(eligibility, candidates, packing.placed, reserved)
    )
    first = answers[0]
    is_single = reservation is None and len(whole) == len(first.matches)
    return replace(
        first,
        status=first.status if is_single else "feasible",
        objective=first.objective if is_single else value,
        bound=first.bound if is_single else None,
        gap=first.gap if is_single else None,
        objectives=first.objectives if is_single else (),
        cpu_s=cpu_s,
        matches=whole,
        unmatched=unmatched,
    )


def _waits(one: Unmatched, reservation: Reservation | None, now_s: float) -> Unmatched:
    if reservation is None or one.job != reservation.job:
        return one
    return replace(one, reason=f"{one.reason}; reserved to start in {reservation.start_s - now_s:,.0f} s")
