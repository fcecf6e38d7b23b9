"""The in-process part of the matching experiment: objectives, sizes, shapes and greedy orders on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jobsight_papers.matching.workload import PUBLISHED, MatchingWorkload, matching_file
from jobsight_scheduler.matching import Answer, Problem, match, read_problem
from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.heuristics import aligned, by_density, greedy
from jobsight_scheduler.matching.objectives import linear_form
from jobsight_scheduler.matching.packing import Packing
from jobsight_scheduler.matching.problem import Objective

OBJECTIVE_LISTS = (
    ("throughput",),
    ("priority",),
    ("throughput", "preferences"),
    ("throughput", "utilisation"),
    ("preferences",),
    ("best-to-priority",),
    ("utilisation",),
)
SIZES = (1, 2, 5, 10, 15, 20, 30, 40, 50, 60)
DEPENDENCIES = (1, 2, 4, 8, 16)
PREDICATES = (1, 5, 20)
GREEDY_ORDERS = ("as submitted", "smallest first", "largest first", "highest priority first")
_SHAPE_BATCHES = 3
_MEASURES = ("throughput", "priority", "preferences", "utilisation")

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class MatchingCase:
    """One batch of the experiment. ``part`` is objectives, sizes, shapes or greedy."""

    part: str
    workload: MatchingWorkload
    number: int
    objectives: tuple[str, ...] = ("throughput",)


def cases(batches: int, seed: int) -> Iterator[MatchingCase]:
    """Yield all batches of the experiment."""
    for objectives in OBJECTIVE_LISTS:
        for number in range(batches):
            yield MatchingCase("objectives", MatchingWorkload(seed=seed), number, objectives)
    for size in SIZES:
        for number in range(batches):
            yield MatchingCase("sizes", MatchingWorkload(jobs=size, seed=seed), number)
    for dependencies in DEPENDENCIES:
        for predicates in PREDICATES:
            for number in range(min(_SHAPE_BATCHES, batches)):
                shape = MatchingWorkload(dependencies=dependencies, predicates=predicates, seed=seed)
                yield MatchingCase("shapes", shape, number)
    for number in range(batches):
        yield MatchingCase("greedy", MatchingWorkload(seed=seed), number)


def run_case(case: MatchingCase, clock: Clock, deadline_s: float) -> dict[str, Any]:
    """Match one batch; return its figures. Times are by ``clock``, from the records to the checked answer."""
    file = matching_file(case.workload, case.number) | {"objectives": list(case.objectives)}
    problem = read_problem(file)
    answer = match(problem, clock=clock, deadline_s=deadline_s)
    row: dict[str, Any] = {
        "part": case.part,
        "number": case.number,
        "jobs": case.workload.jobs,
        "is_optimal": answer.status == "optimal",
        "solve_s": answer.cpu_s,
        "rows": answer.rows,
        "columns": answer.columns,
        "matched": len(answer.matches),
    }
    if case.part == "objectives":
        row |= {"objectives": case.objectives, **measured(problem, answer)}
    elif case.part == "shapes":
        row |= {"dependencies": case.workload.dependencies, "predicates": case.workload.predicates}
    elif case.part == "greedy":
        row |= {"greedy": {order: greedily(problem, order) for order in GREEDY_ORDERS}}
    return row


def measured(problem: Problem, answer: Answer) -> dict[str, float]:
    """Return the value of every objective for the matches of ``answer``."""
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    numbers = {job.name: index for index, job in enumerate(problem.jobs)}
    placed = {numbers[one.job]: eligibility.placement(numbers[one.job], one.resources) for one in answer.matches}
    objectives = [Objective(name) for name in _MEASURES]
    return {
        objective.name: linear_form(objective, eligibility, candidates).value(eligibility, candidates, placed)
        for objective in objectives
    }


def greedily(problem: Problem, order: str) -> int:
    """Return the number of jobs that greedy matching in this order matches."""
    eligibility = Eligibility(problem)
    packing = Packing(eligibility, eligibility.eligible())
    density = by_density(eligibility, np.ones(len(problem.jobs)))
    orders = {
        "as submitted": list(range(len(problem.jobs))),
        "smallest first": density,
        "largest first": density[::-1],
        "highest priority first": sorted(range(len(problem.jobs)), key=lambda job: -problem.jobs[job].priority),
    }
    greedy(packing, orders[order], aligned(packing))
    return len(packing.placed)


_SUMMARY = {
    "batches": ("number", "size"),
    "optimal": ("is_optimal", "sum"),
    "median_s": ("solve_s", "median"),
    "longest_s": ("solve_s", "max"),
    "matched": ("matched", "mean"),
    "rows": ("rows", "max"),
    "columns": ("columns", "max"),
}


def matching_account(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the results by part: means and medians over the batches of each setting."""
    import pandas as pd  # takes half a second to load

    def by(part: str, *fields: str, **means: tuple[str, str]) -> list[dict[Any, Any]]:
        table = pd.DataFrame([row for row in rows if row["part"] == part])
        return table.groupby(list(fields), sort=False, as_index=False).agg(**_SUMMARY, **means).to_dict("records")

    greedy = [row for row in rows if row["part"] == "greedy"]
    shares = pd.DataFrame([row["greedy"] for row in greedy]).div([row["matched"] for row in greedy], axis=0)
    return {
        "repository": dict(PUBLISHED),
        "workload": asdict(MatchingWorkload()),
        "objectives": by("objectives", "objectives", **{name: (name, "mean") for name in _MEASURES}),
        "sizes": by("sizes", "jobs"),
        "shapes": by("shapes", "dependencies", "predicates"),
        "greedy": [{"order": order, "of_optimum": of.mean(), "worst": of.min()} for order, of in shares.items()],
    }
