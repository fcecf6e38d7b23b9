"""What each part of matching is worth: one part off at a time, on the same batches, with a deadline of a second each.

python benchmarks/matching_parts.py [--sizes 30 40x80 100x100 500x200] [--parts none sets ...]

The batches are those of the paper on matching: 30 jobs on the published 19 resources, or JOBSxRESOURCES at
load 1.3. Times are processor time from the records of a batch to the checked answer; lines are of code with comments.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from jobsight_papers.matching.workload import MatchingWorkload, instances_of, matching_file
from jobsight_scheduler.matching import (
    Problem,
    exact_fit,
    job_sets,
    ladder,
    match,
    prices,
    read_problem,
    search,
)
from jobsight_scheduler.matching.heuristics import Heuristics
from jobsight_scheduler.matching.job_sets import JobSets
from jobsight_scheduler.matching.ladder import _Run
from jobsight_scheduler.matching.program import Program
from jobsight_scheduler.matching.search import Relocation

Part = ModuleType | Callable[..., Any]

PUBLISHED_SEEDS = (0, 7, 20)
BATCHES = {"40x80": 6, "100x100": 4, "500x200": 2, "1000x500": 1}
PARTS: dict[str, tuple[list[Part], tuple[Any, str, Any] | None]] = {
    "none": ([], None),
    "sets": ([job_sets, exact_fit, _Run._by_sets], (JobSets, "improve", lambda self, *_: (None, self.bound))),
    "relaxation": ([_Run._relax, Program.spread, Program.prices], (ladder, "RELAXED_AT_MOST", 0)),
    "search": ([search, Heuristics.searched], (Heuristics, "searched", lambda self, best, *_: best)),
    "relocation": ([search], (Relocation, "_move_for", lambda *_: None)),
    "prices": ([prices, Heuristics.by_prices], (ladder, "PRICED_AT_MOST", -1)),
    "HiGHS in integers": ([_Run._integer, _Run._placed], (_Run, "_integer", lambda *_, **__: None)),
}
"""For each part its code, and what is put in the place of what."""


def lines_of(parts: list[Part]) -> int:
    """Lines of modules and functions."""
    return sum(len(inspect.getsource(part).splitlines()) for part in parts)  # type: ignore[arg-type]


@contextmanager
def without(part: str) -> Iterator[None]:
    """With this part off."""
    _, change = PARTS[part]
    if change is None:
        yield
        return
    of, name, instead = change
    before = getattr(of, name)
    setattr(of, name, instead)
    try:
        yield
    finally:
        setattr(of, name, before)


def problems(size: str) -> list[Problem]:
    """The batches of one size."""
    if size == "30":
        files = [matching_file(MatchingWorkload(seed=seed), n) for seed in PUBLISHED_SEEDS for n in range(10)]
    else:
        jobs, resources = map(int, size.split("x"))
        seeds = range(BATCHES.get(size, 1))
        of = [MatchingWorkload(jobs=jobs, instances=instances_of(resources), jobs_at_load=None, seed=s) for s in seeds]
        files = list(map(matching_file, of))
    return [read_problem(file) for file in files]


def main() -> None:
    """Prints a line for each part and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["30", *list(BATCHES)[:3]])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    args = parser.parse_args()
    batches = {size: problems(size) for size in args.sizes}
    for part in args.parts:
        print(f"{part}, {lines_of(PARTS[part][0])} lines")
        for size, found in batches.items():
            times, answers = [], []
            with without(part):
                for problem in found:
                    begin = time.process_time()
                    answers.append(match(problem, clock=time.process_time))
                    times.append(time.process_time() - begin)
            proven = sum(answer.status == "optimal" for answer in answers)
            matched = np.mean([len(answer.matches) for answer in answers])
            print(
                f"  {size}: mean {np.mean(times) * 1e3:.0f} ms, longest {max(times) * 1e3:.0f}, "
                f"proven {proven} of {len(answers)}, matched {matched:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
