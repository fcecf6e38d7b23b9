"""Exact search for one type and over sets of jobs: against enumeration, and against HiGHS where that takes too long."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from jobsight_papers.matching.workload import MatchingWorkload, matching_file
from jobsight_scheduler.matching import match, read_problem
from jobsight_scheduler.matching.check import faults
from jobsight_scheduler.matching.eligibility import Eligibility, job_classes
from jobsight_scheduler.matching.job_sets import ExactFit, JobSets, UndecidedError
from jobsight_scheduler.matching.ladder import matches_of
from jobsight_scheduler.matching.objectives import linear_forms
from jobsight_scheduler.matching.program import Program

Batch = dict[str, Any]


def never() -> bool:
    return False


def one_type(rng: np.random.Generator, kinds: int, most: int) -> Batch:
    """Jobs with one dependency each on a few resources, of which about as much is asked as there is."""
    resources, jobs = int(rng.integers(2, 4)), int(rng.integers(3, 7))
    return {
        "resources": [
            {
                "name": f"r{index}",
                "type": "t",
                "attributes": {"speed": int(rng.integers(1, 4))},
                "capacities": {f"k{kind}": int(rng.integers(most // 2, 2 * most)) for kind in range(kinds)},
            }
            for index in range(resources)
        ],
        "jobs": [
            {
                "name": f"j{index}",
                "dependencies": [
                    {
                        "name": "d",
                        "type": "t",
                        "where": f"speed >= {rng.integers(0, 3)}",
                        "amounts": {f"k{kind}": int(rng.integers(0, most)) for kind in range(kinds)},
                        "count": int(rng.choice((1, 1, 2))),
                    }
                ],
            }
            for index in range(jobs)
        ],
    }


def fits_by_enumeration(eligibility: Eligibility, candidates: list[Any], rows: list[int]) -> bool:
    of = eligibility.types["t"]
    choices = [itertools.combinations(candidates[row], eligibility.dependencies[row].of.count) for row in rows]
    for placement in itertools.product(*choices):
        left = np.maximum(of.free, 0)
        for row, chosen in zip(rows, placement, strict=True):
            left[list(chosen)] -= of.needs[row]
        if (left >= 0).all():
            return True
    return False


@pytest.mark.parametrize(("kinds", "most"), [(0, 9), (1, 9), (2, 9), (3, 6), (2, 10_000_000)])
@pytest.mark.parametrize("seed", range(12))
def test_what_fits_is_what_enumeration_finds_at_any_prices(seed: int, kinds: int, most: int) -> None:
    rng = np.random.default_rng((seed, kinds, most))
    eligibility = Eligibility(read_problem(one_type(rng, kinds, most)))
    of, candidates = eligibility.types["t"], eligibility.eligible()
    counts = [at.of.count for at in eligibility.dependencies]
    prices = rng.uniform(0.0, 2.0, of.free.shape) * rng.integers(0, 2, of.free.shape)
    fit = ExactFit(of, candidates, counts, prices, rng)
    possible = [row for row, count in enumerate(counts) if len(candidates[row]) >= count]
    seen = set()
    for size in range(len(possible) + 1):
        for rows in itertools.combinations(possible, size):
            placed = fit.place(np.array(rows, dtype=np.int64), 100_000, never)
            seen.add(placed is not None)
            assert (placed is not None) == fits_by_enumeration(eligibility, candidates, list(rows)), rows
            if placed is None:
                assert fit.costs[list(rows)].sum() >= 0.0
                continue
            left = np.maximum(of.free, 0)
            for row in rows:
                assert len(set(placed[row].tolist())) == counts[row]
                assert set(placed[row].tolist()) <= set(candidates[row].tolist())
                left[placed[row]] -= of.needs[row]
            assert (left >= 0).all()
            assert fit.costs[list(rows)].sum() <= fit.worth + 1e-9
    assert True in seen


def test_a_search_without_steps_left_is_undecided() -> None:
    rng = np.random.default_rng(0)
    eligibility = Eligibility(read_problem(one_type(rng, 2, 9)))
    of, counts = eligibility.types["t"], [at.of.count for at in eligibility.dependencies]
    fit = ExactFit(of, eligibility.eligible(), counts, np.zeros(of.free.shape), rng)
    with pytest.raises(UndecidedError):
        fit.place(np.array([0]), 0, never)


@pytest.mark.parametrize("weights", ["alike", "whole", "fractions"])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_set_is_what_enumeration_finds_at_any_prices(
    seed: int, weights: str, random_batch: Any, every_matching: Any
) -> None:
    batch = random_batch(300 + seed, jobs=5, is_fractional=seed % 2 == 1, relations=False)
    for index, job in enumerate(batch["jobs"]):
        job["priority"] = {"alike": 1, "whole": job["priority"], "fractions": round(1.0 + 0.37 * index, 2)}[weights]
    problem = read_problem(batch)
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    rng = np.random.default_rng(seed)
    worth = np.array([job.priority for job in problem.jobs])
    prices = {name: rng.uniform(0.0, 1.0, of.free.shape) for name, of in eligibility.types.items()}
    sets = JobSets(eligibility, candidates, job_classes(problem), worth, prices, rng)
    placed, bound = sets.improve(0.0, weights != "fractions", never)
    optimum = max(float(sum(worth[list(found)])) for found in every_matching(batch))
    found = 0.0 if placed is None else float(worth[list(placed)].sum())
    assert found == pytest.approx(optimum, abs=1e-5)
    assert bound == pytest.approx(optimum, abs=1e-5)
    assert optimum <= sets.bound + 1e-6
    assert not faults(eligibility, matches_of(eligibility, placed or {}))


def optimum_by_highs(batch: Batch) -> float:
    """Of the integer program of the batch, without anything else of the ladder."""
    problem = read_problem(batch)
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    (form,) = linear_forms(problem.objectives[0], eligibility, candidates)
    program = Program(eligibility, candidates, job_classes(problem), [form])
    found = program.solve(program.costs(form), True, time.process_time, time.process_time() + 60.0, is_strict=True)
    assert found.is_optimal
    assert found.values is not None
    return form.value(eligibility, candidates, program.placements(found.values))


@pytest.mark.parametrize("objective", ["throughput", "priority"])
@pytest.mark.parametrize("seed", range(5))
def test_published_repositories_get_the_optimum_of_the_integer_program(seed: int, objective: str, referee: Any) -> None:
    """With capacity for fewer jobs than are asked for, so that most of the bounds are not reached by rounding."""
    workload = MatchingWorkload(jobs=20, jobs_at_load=16, seed=700 + seed)
    batch = matching_file(workload, objective=objective)
    answer = match(read_problem(batch), clock=time.process_time, deadline_s=60.0)
    assert answer.status == "optimal"
    assert answer.objective == answer.bound == optimum_by_highs(batch)
    referee(
        batch,
        {
            "matches": [{"job": one.job, "resources": one.resources} for one in answer.matches],
            "unmatched": [{"job": one.job} for one in answer.unmatched],
        },
    )


def test_many_identical_jobs_are_few_sets() -> None:
    """Two to the power of 24 sets, if it mattered which of the identical jobs are in them."""
    node = {"type": "node", "attributes": {}}
    batch = {
        "resources": [{"name": f"n{index}", **node, "capacities": {"slots": 10, "memory": 13}} for index in range(4)],
        "jobs": [
            {"name": f"{name}-{index}", "dependencies": [{"name": "n", "type": "node", "amounts": amounts}]}
            for name, amounts in (("a", {"slots": 3, "memory": 5}), ("b", {"slots": 4, "memory": 3}))
            for index in range(12)
        ],
    }
    answer = match(read_problem(batch), clock=time.process_time, deadline_s=60.0)
    assert (answer.status, answer.objective) == ("optimal", optimum_by_highs(batch))
