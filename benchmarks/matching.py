"""Matching against HiGHS alone, and without each rung of its ladder, on crowded, small and large batches.

    python benchmarks/matching.py [--batches N] [--deadline S] [--shapes NAME ...]

Crowded batches ask for many times what their nodes have: each job needs slots and memory of one node, a quarter of them
with a predicate. Those of ``site`` have gangs, GPUs, licences and file systems on 10 nodes, too. ``alone`` is HiGHS on
the plain program, a column for each job and node, with ten times the deadline.
Small batches are the published ones of 5 to 60 jobs; ``500on200`` is one of 500 on 200 resources. All times are
processor seconds.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from statistics import mean, median
from typing import Any

import numpy as np

from jobsight_papers.matching.workload import PUBLISHED, MatchingWorkload, matching_file
from jobsight_scheduler.matching import Problem, match, read_problem
from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.ladder import RUNGS
from jobsight_scheduler.matching.objectives import linear_form
from jobsight_scheduler.matching.program import Program

CROWDED = ((500, 10), (1_000, 10), (2_000, 10), (2_000, 50))
SITE = (500, 1_000)
SMALL = (5, 10, 20, 30, 40, 60)
PUBLISHED_LARGE = ((100, 100), (500, 200), (1_000, 500))
ALONE_TIMES = 10.0


def crowded(jobs: int, nodes: int, seed: int) -> dict[str, Any]:
    """Make a batch of which the nodes can take half or less."""
    rng = random.Random(seed)
    resources = [
        {
            "name": f"node-{index}",
            "type": "node",
            "attributes": {"speed": rng.randint(1, 9), "os": rng.choice(["a", "b"])},
            "capacities": {"slots": rng.choice([32, 64, 128]), "memory_gib": rng.choice([128, 256, 512])},
        }
        for index in range(nodes)
    ]
    wanted = [
        {
            "name": f"job-{index}",
            "priority": rng.randint(1, 9),
            "dependencies": [
                {
                    "name": "on",
                    "type": "node",
                    "where": rng.choice(["", "", "", f"speed >= {rng.randint(1, 6)}"]),
                    "amounts": {"slots": rng.randint(1, 16), "memory_gib": rng.randint(1, 64)},
                }
            ],
        }
        for index in range(jobs)
    ]
    return {"resources": resources, "jobs": wanted, "objectives": ["priority"]}


def at_site(jobs: int, nodes: int, seed: int) -> dict[str, Any]:
    """Make a crowded batch with what sites have: gangs of nodes, GPUs on some, licences, and file systems."""
    rng = random.Random(seed)
    batch = crowded(jobs, nodes, seed)
    for node in batch["resources"][: nodes // 3]:
        node["capacities"]["gpus"] = 4
    for kind, name, most in (("licence", "seats", 20), ("filesystem", "tib", 100)):
        batch["resources"] += [
            {"name": f"{kind}-{index}", "type": kind, "capacities": {name: rng.randint(most // 2, most)}}
            for index in range(3)
        ]
    for job in batch["jobs"]:
        on = job["dependencies"][0]
        if rng.random() < 0.2:
            on["count"] = rng.randint(2, 4)
        if rng.random() < 0.2:
            on["amounts"]["gpus"] = rng.randint(1, 4)
        if rng.random() < 0.3:
            where = f"name == 'licence-{rng.randrange(3)}'"
            job["dependencies"].append({"name": "tool", "type": "licence", "where": where, "amounts": {"seats": 1}})
        if rng.random() < 0.5:
            amounts = {"tib": round(rng.uniform(0.1, 10.0), 1)}
            job["dependencies"].append({"name": "scratch", "type": "filesystem", "amounts": amounts})
    return batch


def alone(problem: Problem, deadline_s: float) -> tuple[float, float, float | None]:
    """Return value, processor seconds and bound of HiGHS on the plain program."""
    begin = time.process_time()
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    form = linear_form(problem.objectives[0], eligibility, candidates)
    program = Program(eligibility, candidates, [[job] for job in range(len(problem.jobs))])
    program.highs.setOptionValue("mip_heuristic_run_feasibility_jump", True)  # ours has greedy's matches instead
    found = program.solve(program.costs(form), True, time.process_time, begin + deadline_s)
    value = 0.0 if found.values is None else float(np.rint(found.values[: len(problem.jobs)]) @ form.z)
    return value, time.process_time() - begin, found.bound


def shapes(chosen: list[str], batches: int) -> Iterator[tuple[str, list[Problem]]]:
    """Yield the batches of each chosen shape."""
    for jobs, nodes in CROWDED:
        if f"{jobs}x{nodes}" in chosen:
            yield f"{jobs}x{nodes}", [read_problem(crowded(jobs, nodes, seed)) for seed in range(batches)]
    for jobs in SITE:
        if f"site-{jobs}" in chosen:
            yield f"site-{jobs}", [read_problem(at_site(jobs, 10, seed)) for seed in range(batches)]
    for jobs in SMALL:
        if f"{jobs}" in chosen:
            workload = MatchingWorkload(jobs=jobs)
            yield f"{jobs}", [read_problem(matching_file(workload, number)) for number in range(10 * batches)]
    for jobs, resources in PUBLISHED_LARGE:
        if f"{jobs}on{resources}" in chosen:
            workload = MatchingWorkload(jobs, dict.fromkeys(PUBLISHED, resources // len(PUBLISHED)), jobs_at_load=None)
            yield f"{jobs}on{resources}", [read_problem(matching_file(workload, number)) for number in range(batches)]


def main() -> None:
    names = [*(f"{jobs}x{nodes}" for jobs, nodes in CROWDED), *(f"site-{jobs}" for jobs in SITE)]
    names += map(str, SMALL)
    names += [f"{jobs}on{resources}" for jobs, resources in PUBLISHED_LARGE]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=2, metavar="N", help="batches of each shape; small ones tenfold")
    parser.add_argument("--deadline", type=float, default=1.0, metavar="S")
    parser.add_argument("--shapes", nargs="+", default=names, choices=names, metavar="NAME")
    args = parser.parse_args()
    ladders = {"all": RUNGS} | {f"no {one}": tuple(r for r in RUNGS if r != one) for one in RUNGS[1:]} | {"greedy": ()}
    print(f"{'shape':>9} {'rungs':>13} {'value':>9} {'bound':>9} {'of alone':>9} {'median ms':>10} {'optimal':>8}")
    for name, problems in shapes(args.shapes, args.batches):
        found = [alone(problem, ALONE_TIMES * args.deadline) for problem in problems]
        best, bound = mean(one[0] for one in found), mean(one[2] or float("nan") for one in found)
        print(f"{name:>9} {'alone':>13} {best:9,.1f} {bound:9,.1f} {'':>9} {median(o[1] for o in found) * 1e3:10,.1f}")
        for label, rungs in ladders.items():
            rows = [match(p, clock=time.process_time, deadline_s=args.deadline, rungs=rungs) for p in problems]
            value = mean(row.objective for row in rows)
            bounds, spent = mean(row.bound or float("nan") for row in rows), median(row.cpu_s for row in rows)
            proven = sum(row.status == "optimal" for row in rows)
            head = f"{name:>9} {label:>13} {value:9,.1f} {bounds:9,.1f} {value / best:9.1%}"
            print(f"{head} {spent * 1e3:10,.1f} {proven:5}/{len(rows)}", flush=True)


if __name__ == "__main__":
    main()
