"""Reasons of jobs without a match: for each the first that applies, in tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count as steps

import numpy as np

from jobsight_predictor.arrays import Booleans, Integers
from jobsight_scheduler.matching.check import Tier, Unmatched
from jobsight_scheduler.matching.columns import bound_to
from jobsight_scheduler.matching.eligibility import DependencyAt, Eligibility
from jobsight_scheduler.matching.objectives import LinearForm
from jobsight_scheduler.matching.packing import Packing, Placement
from jobsight_scheduler.matching.predicates import Operation, names_in, text_of
from jobsight_scheduler.matching.problem import MatchJob
from jobsight_scheduler.matching.program import Program

HARDEST: tuple[Tier, ...] = ("type", "predicate", "never-fits", "policy", "held")
"""The tiers, longest wait first."""

_LISTED = 3
_KINDS_LISTED = 10
_LOOKS = 10_000
"""Readings of the clock by HiGHS, to decide whether one job fits by itself."""


def why_not(
    eligibility: Eligibility, candidates: list[Integers], placed: Mapping[int, Placement]
) -> tuple[Unmatched, ...]:
    """Return a reason for each job that is not ``placed``."""
    empty, full = Packing(eligibility, candidates), Packing(eligibility, candidates, placed)
    return tuple(
        why_alone(eligibility, empty, job, is_exact=True) or _beside(eligibility, full, job)
        for job in range(len(eligibility.problem.jobs))
        if job not in placed
    )


def why_alone(eligibility: Eligibility, empty: Packing, job: int, is_exact: bool = False) -> Unmatched | None:
    """Return why ``job`` does not even fit by itself: the hardest reason of its dependencies; None if it fits.

    Dependencies that share resources are tried together; with ``is_exact``, the result is exact.
    """
    of = eligibility.problem.jobs[job]
    found = [
        Unmatched(of.name, *_alone(eligibility, of, eligibility.dependencies[number]))
        for number in eligibility.numbers[job]
        if len(empty.candidates[number]) < eligibility.dependencies[number].of.count
    ]
    if found:
        return min(found, key=lambda one: HARDEST.index(one.tier))
    if not is_gang(of) or fits_beside(empty, job) or (is_exact and _fits_exactly(eligibility, empty.candidates, job)):
        return None
    return Unmatched(of.name, "gang", _apart(eligibility, empty, job))


def is_gang(job: MatchJob) -> bool:
    """Return whether dependencies of a job share resources, so that one may fit without the others."""
    return len({dependency.type for dependency in job.dependencies}) < len(job.dependencies)


def fits_beside(packing: Packing, job: int) -> bool:
    """Return whether ``job`` fits beside those of ``packing``, by a short search."""
    if packing.place(job, None):
        packing.remove(job)
        return True
    return False


def _fits_exactly(eligibility: Eligibility, candidates: list[Integers], job: int) -> bool:
    """Return whether ``job`` fits on the free resources; True if HiGHS does not decide it."""
    form = LinearForm("throughput", True, np.ones(len(eligibility.problem.jobs)))
    program = Program(eligibility, candidates, [[job]])
    looks = steps(1)
    solved = program.solve(program.costs(form), True, lambda: float(next(looks)), float(_LOOKS))
    return not solved.is_optimal or (solved.values is not None and solved.values[0] > 0.5)


def _beside(eligibility: Eligibility, full: Packing, job: int) -> Unmatched:
    """Return why a job that fits by itself is not matched beside those of ``full``."""
    name = eligibility.problem.jobs[job].name
    for number in eligibility.numbers[job]:
        at = eligibility.dependencies[number]
        if len(full.open_to(number)) < at.of.count:
            eligible = f"any of {len(full.candidates[number])} eligible {at.of.type}"
            worth = "is worth at least as much to other jobs of the batch"
            return Unmatched(name, "outpriced", f"{at.of.name}: the capacity for {_amounts(at)} on {eligible} {worth}")
    if fits_beside(full, job):
        return Unmatched(name, "outpriced", "it fits, but matching it would add nothing to the objectives")
    return Unmatched(name, "outpriced", "each dependency fits, but all together only in place of other jobs")


def _alone(eligibility: Eligibility, job: MatchJob, at: DependencyAt) -> tuple[Tier, str]:
    """Return why too few resources are eligible for one dependency: the first tier that leaves fewer than it needs."""
    of, count, name = eligibility.types[at.of.type], at.of.count, at.of.name
    if not len(of.members):
        return "type", f"{name}: there is no resource of type {of.name!r}"
    if len(of.members) < count:
        return "type", f"{name}: there are {len(of.members)}, it needs {count}"
    satisfying = eligibility.satisfying(at.of, job)
    if int(satisfying.sum()) < count:
        kind = f"{count} distinct {of.name}" if count > 1 else of.name
        return "predicate", f"{name}: needs {kind}; {_removed(eligibility, job, at, satisfying)}"
    idle = satisfying & eligibility.fitting(at, is_idle=True)
    if int(idle.sum()) < count:
        return "never-fits", f"{name}: {_too_small(eligibility, at, satisfying, idle)}"
    allowed, _ = eligibility.verdicts(of.name, job.job_class)
    if int((idle & allowed).sum()) < count:
        denied, usable = _denied(eligibility, at, idle & ~allowed, job), satisfying & allowed
        if int(usable.sum()) >= count:
            too_small = _too_small(eligibility, at, usable, idle & allowed)
            denied = f"{too_small}; it would fit on others, but not now ({denied})"
        return "policy", f"{name}: {denied}"
    return "held", f"{name}: {_holders(eligibility, at, idle & allowed & ~eligibility.fitting(at))}"


def _removed(eligibility: Eligibility, job: MatchJob, at: DependencyAt, satisfying: Booleans) -> str:
    """Return how many resources each part of the predicate removes, the largest number first."""
    of, where = eligibility.types[at.of.type], at.of.predicate
    removes = []
    for part in where.operands if isinstance(where, Operation) and where.operator == "and" else (where,):
        if part is not None and (gone := int((~of.columns.satisfied(bound_to(part, job))).sum())):
            unknown = sorted(n for n in names_in(part) if not n.startswith("job.") and not of.columns.has(n))
            lacks = f" (no {of.name} has {', '.join(unknown[:_LISTED])})" if unknown else ""
            removes.append((gone, f"{text_of(part)} removes {gone}{lacks}"))
    removes.sort(key=lambda entry: -entry[0])
    shown = "; ".join(text for _, text in removes[:_LISTED])
    return f"of {len(of.members)}, {shown}; {int(satisfying.sum())} left"


def _denied(eligibility: Eligibility, at: DependencyAt, denied: Booleans, job: MatchJob) -> str:
    of = eligibility.types[at.of.type]
    resources = [eligibility.problem.resources[of.members[position]] for position in np.flatnonzero(denied)]
    stale = [f"{one.name}: {one.unavailable}" for one in resources if one.unavailable is not None]
    parts = stale[:_LISTED]
    if by_policy := len(resources) - len(stale):
        of_class = f"class {job.job_class!r}" if job.job_class else "jobs without a class"
        parts.append(f"policies of {by_policy} {of.name} deny {of_class} now")
    return _listed(parts, len(stale))


def _too_small(eligibility: Eligibility, at: DependencyAt, usable: Booleans, idle: Booleans) -> str:
    """Return which amount exceeds even an idle resource, or which capacity none has."""
    of, largest = eligibility.types[at.of.type], ""
    for column, kind in enumerate(of.kinds):
        amount, has = at.of.amounts.get(kind, 0.0), of.idle[:, column] >= 0
        if amount and not has.any():
            others = sorted({name for one in of.members for name in eligibility.problem.resources[one].capacities})
            return f"no {of.name} has {kind} (it has {', '.join(others[:_KINDS_LISTED]) or 'no capacities'})"
        most = float(of.total[usable & has, column].max(initial=0.0))
        if amount > most and not largest:
            largest = f" (the largest has {kind} {most:g})" if (usable & has).any() else f" (none of these has {kind})"
    needed = f"; {at.of.count} are needed" if at.of.count > 1 else ""
    fits = f"{_amounts(at)} fits on {int(idle.sum())} of {int(usable.sum())} eligible {of.name} even when idle"
    return fits + largest + needed


def _holders(eligibility: Eligibility, at: DependencyAt, held: Booleans) -> str:
    """Return the resources that have the amounts when idle, with their holders and the ends of the holds."""
    of, now = eligibility.types[at.of.type], eligibility.problem.now_s
    texts = []
    for position in np.flatnonzero(held)[:_LISTED]:
        resource = eligibility.problem.resources[of.members[position]]
        has = resource.capacities
        kinds = [kind for kind, amount in at.of.amounts.items() if amount and amount > has[kind].free]
        text = ", ".join(f"{kind} {has[kind].free:g} of {has[kind].total:g} free" for kind in kinds)
        holds = [hold for hold in resource.holds if any(hold.amounts.get(kind, 0.0) for kind in kinds)]
        by = ", ".join(
            f"{hold.job}{f' of {hold.user}' if hold.user else ''} for another {max(0.0, hold.until_s - now):,.0f} s"
            for hold in sorted(holds, key=lambda hold: hold.until_s)[:_LISTED]
        )
        texts.append(f"{resource.name} has {text}" + (f", held by {by}" if by else ""))
    return f"{_amounts(at)} does not fit now: {_listed(texts, int(held.sum()))}"


def _apart(eligibility: Eligibility, empty: Packing, job: int) -> str:
    """Return which dependencies do not fit together though each does."""
    of = eligibility.problem.jobs[job]
    names = [dependency.name for dependency in of.dependencies]
    packing, failing = Packing(eligibility, empty.candidates), names[-1]
    for name, number in zip(names, eligibility.numbers[job], strict=True):
        fits, count = packing.open_to(number), eligibility.dependencies[number].of.count
        if len(fits) < count:
            failing = name
            break
        packing.take(number, fits[:count])
    return f"{failing} does not fit beside {', '.join(name for name in names if name != failing)} on what is free"


def _listed(texts: Sequence[str], of: int) -> str:
    return "; ".join(texts) + (f"; and {of - _LISTED} more" if of > _LISTED else "")


def _amounts(at: DependencyAt) -> str:
    return ", ".join(f"{kind} {amount:g}" for kind, amount in at.of.amounts.items()) or "it"
