"""Which of the jobs that wait could be matched now, each by itself; the others have a reason at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace as changed
from itertools import islice

from msgspec.structs import replace

from .answer import Unmatched
from .classes import job_classes
from .eligibility import Eligibility
from .packing import Packing
from .problem import MatchJob, Problem
from .why_not import is_gang, why_alone

JOBS_AT_ONCE = 500
PAIRS_AT_ONCE = 1_000_000
"""Dependencies times resources of a part of the queue that is looked at together, which bounds memory."""


def openings(problem: Problem, jobs: Sequence[MatchJob], reasons: dict[str, Unmatched | None]) -> Iterator[MatchJob]:
    """Those of ``jobs`` that fit on what is free of the resources of ``problem``, in their order.

    Of the others, ``reasons`` gets why they do not, but for those with an entry. Identical jobs are looked at once.
    """
    waiting = iter(jobs)
    at_once = max(1, min(JOBS_AT_ONCE, PAIRS_AT_ONCE // (2 * max(1, len(problem.resources)))))
    while part := tuple(islice(waiting, at_once)):
        eligibility = Eligibility(replace(problem, jobs=part))
        packing = Packing(eligibility, eligibility.eligible())
        classes = job_classes(eligibility.problem, is_counted=False)
        fitting = {job for alike in classes if fits(packing, alike[0]) for job in alike}
        for alike in classes:
            asked = [part[job].name for job in alike if job not in fitting and part[job].name not in reasons]
            if asked and (why := why_alone(eligibility, packing, alike[0])) is not None:
                reasons.update((name, changed(why, job=name)) for name in asked)
        yield from (part[job] for job in sorted(fitting))


def fits(packing: Packing, job: int) -> bool:
    """Whether a job fits by itself; of dependencies that share resources, as far as a short search shows."""
    eligibility = packing.eligibility
    numbers = eligibility.numbers[job]
    if any(len(packing.candidates[number]) < eligibility.dependencies[number].of.count for number in numbers):
        return False
    if not is_gang(eligibility.problem.jobs[job]):
        return True
    found = packing.place(job, None)
    if found:
        packing.remove(job)
    return found
