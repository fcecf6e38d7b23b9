"""One round of continuous matching: ageing weights, and a reservation for the job that was passed over too often.

Fairness is ours; the paper leaves it out. A job of age ``a`` (rounds since its submission) weighs ``P (1 + a / 5)``.
From age 10 on, jobs are served in the order of age: each that fits now is matched. The first that does not fit now, but
will before the present matches have ended, gets a reservation (reservations.py); matches of this round cannot delay a
job that waits for longer holds. So the oldest job that could run is never delayed, every job becomes the oldest, and no
job that could ever run starves. Jobs that do not fit now keep no other one out of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import asdict, replace

from jobsight_scheduler.matching.check import Match, Unmatched, faults
from jobsight_scheduler.matching.eligibility import Eligibility, job_classes
from jobsight_scheduler.matching.ladder import DEADLINE_S, RUNGS, match
from jobsight_scheduler.matching.packing import Packing
from jobsight_scheduler.matching.problem import AgedJob, MatchJob, Objective, Problem, Resource
from jobsight_scheduler.matching.reservations import Reservation, at_time, served, with_matches, without_reserved
from jobsight_scheduler.matching.why_not import fits_beside, is_gang, why_alone, why_not

AGEING_ROUNDS = 5.0
RESERVE_AFTER_ROUNDS = 10
HOLD_S = 900.0
"""Duration of a match whose job has none."""

WINDOW = 120
"""Jobs to match together, the oldest of those that fit now: four times the number that starts a round."""


JOBS_AT_ONCE = 500
PAIRS_AT_ONCE = 1_000_000
"""Dependencies times resources of a part of the queue to examine together, which bounds memory."""


@dataclass(frozen=True, slots=True)
class JobInRounds:
    """A job that waits, and its age in rounds; ``is_explained``: its reason stays valid while it does not fit."""

    job: MatchJob
    age: int = 0
    is_explained: bool = False


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """The answer to all jobs that wait: a match or a reason for each that was not explained before.

    ``failed`` are rungs that failed, with the error.
    """

    matches: tuple[Match, ...]
    unmatched: tuple[Unmatched, ...]
    failed: tuple[str, ...]
    reservation: Reservation | None


def match_round(
    resources: Sequence[Resource],
    waiting: Sequence[JobInRounds],
    *,
    now_s: float,
    clock: Callable[[], float],
    deadline_s: float = DEADLINE_S,
    objectives: Sequence[Objective] = (Objective("throughput"),),
    hour: float | None = None,
    rungs: Sequence[str] = RUNGS,
) -> RoundAnswer:
    """Match ``waiting`` at ``now_s``, the oldest first.

    ``resources`` have their ``holds`` with end times, on which reservations depend.
    """
    start = clock()
    by_age = sorted(waiting, key=lambda one: -one.age)
    jobs = [AgedJob(**asdict(one.job), aged=1.0 + one.age / AGEING_ROUNDS) for one in by_age]
    by_name: dict[str, MatchJob] = {job.name: job for job in jobs}
    first = [Objective("priority")] if objectives[0].name == "throughput" else []
    kept = {"throughput", *(one.name for one in first)}
    problem = Problem(tuple(resources), (), (*first, *(one for one in objectives if one.name not in kept)), hour, now_s)
    reasons: dict[str, Unmatched | None] = {one.job.name: None for one in by_age if one.is_explained}
    fitting = list(_openings(problem, jobs, reasons))
    overdue = [job for job, one in zip(jobs, by_age, strict=True) if one.age >= RESERVE_AFTER_ROUNDS]
    # Matches of this round have ended by then, so they delay no job that waits for longer holds.
    latest_end_s = max((_end_s(job, now_s) for job in fitting), default=now_s)
    later = replace(problem, resources=at_time(resources, latest_end_s))
    never = dict.fromkeys(job.name for job in overdue)
    found, reservation = served(problem, islice(_openings(later, overdue, never), WINDOW))
    matches = list(found)
    blocked: dict[str, Unmatched | None] = {}
    looked: set[str] = set()
    failed: list[str] = []

    def rest(asked: Sequence[MatchJob], on: tuple[Resource, ...], share: float) -> None:
        taken = {one.job for one in matches} | ({reservation.job} if reservation else set())
        left = replace(problem, resources=on)
        chosen = tuple(islice(_openings(left, [job for job in asked if job.name not in taken], blocked), WINDOW))
        looked.update(job.name for job in chosen)
        seconds = max(1e-3, share * (deadline_s - (clock() - start)))
        answer = match(replace(left, jobs=chosen), clock=clock, deadline_s=seconds, rungs=rungs)
        matches.extend(answer.matches)
        failed.extend(answer.failed)

    left = with_matches(problem.resources, jobs, matches)
    if reservation is None:
        rest(fitting, left, 1.0)
    else:
        rest(fitting, without_reserved(left, by_name[reservation.job], reservation), 0.7)
        left = with_matches(problem.resources, jobs, matches)
        rest([job for job in fitting if _end_s(job, now_s) <= reservation.start_s], left, 1.0)
        looked.add(reservation.job)
    looked |= {*blocked, *(one.job for one in matches)}
    joined = replace(problem, jobs=tuple(job for name, job in by_name.items() if name in looked))
    whole, why = _checked(joined, matches, reservation)
    reasons |= why
    turn = f"it fits; {len(looked)} that wait longer were matched or tried first in this round"
    done = {one.job for one in whole}
    waits = (reasons.get(job.name, Unmatched(job.name, "turn", turn)) for job in jobs if job.name not in done)
    return RoundAnswer(whole, tuple(one for one in waits if one is not None), tuple(failed), reservation)


def _end_s(job: MatchJob, now_s: float) -> float:
    return now_s + (HOLD_S if job.duration_s is None else job.duration_s)


def _checked(
    problem: Problem, matches: Sequence[Match], reservation: Reservation | None
) -> tuple[tuple[Match, ...], dict[str, Unmatched]]:
    """Check the matches of all phases of a round as a whole; return them with the reasons of the other jobs."""
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    wrong = faults(eligibility, matches)
    whole = tuple(one for one in matches if one.job not in wrong)
    numbers = {job.name: index for index, job in enumerate(problem.jobs)}
    placed = {numbers[one.job]: eligibility.placement(numbers[one.job], one.resources) for one in whole}
    why = {one.job: one for one in why_not(eligibility, candidates, placed)}
    if reservation is not None:
        packing, in_s = Packing(eligibility, candidates, placed), reservation.start_s - problem.now_s
        of = why[reservation.job]
        why[of.job] = replace(of, reason=f"{of.reason}; reserved to start in {in_s:,.0f} s")
        until = (
            f"it would end after {in_s:,.0f} s, when {of.job}, which was passed over too often, starts on resources it "
            "would hold"
        )
        for job in why.keys() - {of.job}:
            if fits_beside(packing, numbers[job]):
                why[job] = Unmatched(job, "reserved", until)
    return whole, why


def _openings(problem: Problem, jobs: Sequence[MatchJob], reasons: dict[str, Unmatched | None]) -> Iterator[MatchJob]:
    """Return the ``jobs`` that fit on the free resources of ``problem``, in their order.

    The others get an entry in ``reasons``, unless they have one. Identical jobs are examined once.
    """
    waiting = iter(jobs)
    at_once = max(1, min(JOBS_AT_ONCE, PAIRS_AT_ONCE // (2 * max(1, len(problem.resources)))))
    while part := tuple(islice(waiting, at_once)):
        eligibility = Eligibility(replace(problem, jobs=part))
        packing = Packing(eligibility, eligibility.eligible())
        classes = job_classes(eligibility.problem, is_counted=False)
        fitting = {job for alike in classes if _fits(packing, alike[0]) for job in alike}
        for alike in classes:
            asked = [part[job].name for job in alike if job not in fitting and part[job].name not in reasons]
            if asked and (why := why_alone(eligibility, packing, alike[0])) is not None:
                reasons.update((name, replace(why, job=name)) for name in asked)
        yield from (part[job] for job in sorted(fitting))


def _fits(packing: Packing, job: int) -> bool:
    """Return whether a job fits by itself; if dependencies share resources, by a short search."""
    eligibility = packing.eligibility
    numbers = eligibility.numbers[job]
    if any(len(packing.candidates[number]) < eligibility.dependencies[number].of.count for number in numbers):
        return False
    return not is_gang(eligibility.problem.jobs[job]) or fits_beside(packing, job)
