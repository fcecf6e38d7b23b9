"""Matches a batch: a ladder of solvers, each better and slower than the one before, within a deadline."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .answer import Answer, Match, Unmatched
from .check import faults
from .eligibility import Eligibility
from .greedy import best_fit, by_density, greedy
from .packing import Packing
from .problem import Problem

DEADLINE_S = 1.0

Clock = Callable[[], float]


def match(problem: Problem, *, clock: Clock, deadline_s: float = DEADLINE_S) -> Answer:
    """Matches each job of ``problem`` wholly or not at all.

    ``clock`` tells the seconds spent, as ``time.process_time`` or ``time.monotonic`` does; after ``deadline_s`` of it
    the best matches so far are the answer. They are checked against the records before they leave.
    """
    start = clock()
    eligibility = Eligibility(problem)
    packing = Packing(eligibility, [eligibility.eligible(at) for at in eligibility.dependencies])
    greedy(packing, by_density(eligibility, np.ones(len(problem.jobs))), best_fit(packing))
    matches = matches_of(packing)
    wrong = faults(problem, matches, eligibility)
    matches = tuple(match for match in matches if match.job not in wrong)
    matched = {match.job for match in matches}
    unmatched = tuple(Unmatched(job.name, "outpriced", "") for job in problem.jobs if job.name not in matched)
    return Answer(
        "feasible",
        "greedy",
        float(len(matches)),
        None,
        None,
        clock() - start,
        matches,
        unmatched,
        warnings=problem.warnings,
    )


def matches_of(packing: Packing) -> tuple[Match, ...]:
    """The placed jobs by name, in the order of the batch."""
    problem, types = packing.eligibility.problem, packing.eligibility.types
    return tuple(
        Match(
            problem.jobs[job].name,
            {
                dependency.name: tuple(
                    problem.resources[types[dependency.type].members[position]].name for position in chosen.tolist()
                )
                for dependency, chosen in zip(problem.jobs[job].dependencies, packing.placed[job], strict=True)
            },
        )
        for job in sorted(packing.placed)
    )
