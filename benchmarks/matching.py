"""How good matches are within a deadline: every rung of the ladder beside OR-tools CP-SAT, SCIP and scipy's milp.

python benchmarks/matching.py [--sizes 100x100 500x200 1000x500 5000x2000] [--deadline 1] [--peers-s 30] [--json]

All get the same batch of the generator of the paper on matching, at load 1.3. Jobsight's time is processor
time from the records of the batch to the checked answer; that of a peer is what its solver takes, on one thread,
without building its model. A peer that is not installed is named. Every answer, theirs as well, goes through the check
of Jobsight.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import highspy
import numpy as np

from jobsight_papers.matching.workload import MatchingWorkload, instances_of, matching_file
from jobsight_scheduler.matching import Problem, match, read_problem
from jobsight_scheduler.matching.check import faults
from jobsight_scheduler.matching.eligibility import Eligibility, job_classes
from jobsight_scheduler.matching.ladder import RUNGS, matches_of
from jobsight_scheduler.matching.objectives import linear_forms
from jobsight_scheduler.matching.program import Program

SIZES = ("100x100", "500x200", "1000x500", "5000x2000")
COLUMNS_AT_MOST = 300_000
"""Larger programs are not given to peers: building them takes minutes and gigabytes."""

Values = np.ndarray[Any, np.dtype[np.float64]]
Peer = Callable[[Program, Values, float], tuple[Values | None, float]]


def milp(program: Program, costs: Values, seconds: float) -> tuple[Values | None, float]:
    """scipy.optimize.milp, which is HiGHS as scipy ships it."""
    from scipy.optimize import Bounds, LinearConstraint
    from scipy.optimize import milp as solve

    lp = program.highs.getLp()
    start = time.process_time()
    found = solve(
        -costs,
        integrality=np.ones(program.columns),
        bounds=Bounds(lp.col_lower_, lp.col_upper_),
        constraints=LinearConstraint(_matrix(program), lp.row_lower_, lp.row_upper_),
        options={"time_limit": seconds},
    )
    return found.x, time.process_time() - start


def cp_sat(program: Program, costs: Values, seconds: float) -> tuple[Values | None, float]:
    """CP-SAT of OR-tools: coefficients as whole numbers, shares of a capacity in millionths, rounded up."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    lp = program.highs.getLp()
    lower, upper = lp.col_lower_, lp.col_upper_
    variables = [model.new_int_var(int(low), int(high), "") for low, high in zip(lower, upper, strict=True)]
    for columns, values, low, high in _rows(program):
        terms = [variables[column] for column in columns]
        if low == high:
            model.add(cp_model.LinearExpr.weighted_sum(terms, [round(value) for value in values]) == round(low))
        else:
            scaled = [int(np.ceil(value * 1e6 - 1e-6)) for value in values]
            model.add(cp_model.LinearExpr.weighted_sum(terms, scaled) <= round(high * 1e6))
    chosen = np.flatnonzero(costs).tolist()
    model.maximize(
        cp_model.LinearExpr.weighted_sum([variables[column] for column in chosen], [round(costs[c]) for c in chosen])
    )
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    start = time.process_time()
    status = solver.solve(model)
    spent = time.process_time() - start
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, spent
    return np.array([solver.value(variable) for variable in variables], dtype=float), spent


def scip(program: Program, costs: Values, seconds: float) -> tuple[Values | None, float]:
    """SCIP through pyscipopt."""
    from pyscipopt import Model, quicksum

    model = Model()
    model.hideOutput()
    lp = program.highs.getLp()
    lower, upper = lp.col_lower_, lp.col_upper_
    variables = [model.addVar(vtype="I", lb=low, ub=high) for low, high in zip(lower, upper, strict=True)]
    for columns, values, low, high in _rows(program):
        total = quicksum(value * variables[column] for column, value in zip(columns, values, strict=True))
        model.addCons(total == low if low == high else total <= high)
    chosen = np.flatnonzero(costs).tolist()
    model.setObjective(quicksum(costs[column] * variables[column] for column in chosen), "maximize")
    model.setParam("limits/time", seconds)
    start = time.process_time()
    model.optimize()
    spent = time.process_time() - start
    if not model.getNSols():
        return None, spent
    best = model.getBestSol()
    return np.array([model.getSolVal(best, variable) for variable in variables]), spent


PEERS: dict[str, tuple[str, Peer]] = {
    "scipy milp": ("scipy", milp),
    "OR-tools CP-SAT": ("ortools", cp_sat),
    "SCIP": ("pyscipopt", scip),
}


def compared(size: str, deadline_s: float, peers_s: float, objective: str, seed: int) -> dict[str, Any]:
    """All rungs and all peers on one batch."""
    jobs, resources = map(int, size.split("x"))
    workload = MatchingWorkload(jobs=jobs, instances=instances_of(resources), jobs_at_load=None, seed=seed)
    problem = read_problem(matching_file(workload, objective=objective))
    rows: list[dict[str, Any]] = []
    bound = np.inf
    for rung in RUNGS:
        answer = match(problem, clock=time.process_time, deadline_s=deadline_s, rung=rung)
        bound = min(bound, np.inf if answer.bound is None else answer.bound)
        rows.append({"by": f"Jobsight, {rung}", "value": answer.objective, "cpu_s": answer.cpu_s, "found": answer.rung})
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    columns = sum(map(len, candidates)) + jobs
    for name, (_, peer) in PEERS.items():
        if columns > COLUMNS_AT_MOST:
            rows.append({"by": name, "value": None, "note": f"not asked: {columns:,} columns"})
            continue
        rows += [_asked(name, peer, problem, seconds) for seconds in (deadline_s, peers_s)]
    known = [row["value"] for row in rows if row["value"] is not None]
    for row in rows:
        if row["value"] is not None:
            row["of_best"], row["of_bound"] = row["value"] / max(known), row["value"] / bound
    return {"size": size, "objective": objective, "bound": bound, "best_known": max(known), "rows": rows}


def _asked(name: str, peer: Peer, problem: Problem, seconds: float) -> dict[str, Any]:
    row: dict[str, Any] = {"by": f"{name}, {seconds:g} s", "value": None}
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    form = linear_forms(problem.objectives[0], eligibility, candidates)[0]
    program = Program(eligibility, candidates, job_classes(problem), [form])
    try:
        values, row["cpu_s"] = peer(program, program.costs(form), seconds)
    except ImportError as error:
        return row | {"note": f"not installed: {error.name}"}
    if values is None:
        return row | {"note": "found nothing"}
    placed = program.placements(values)
    wrong = faults(eligibility, matches_of(eligibility, placed))
    return row | {"value": form.value(eligibility, candidates, placed), "note": f"{len(wrong)} faults" if wrong else ""}


def _matrix(program: Program) -> Any:
    """The coefficients, sparse by row; all columns of throughput and priority are whole."""
    from scipy.sparse import csc_matrix, csr_matrix

    lp = program.highs.getLp()
    of, shape = lp.a_matrix_, (program.rows, program.columns)
    kind = csc_matrix if of.format_ == highspy.MatrixFormat.kColwise else csr_matrix
    return kind((of.value_, of.index_, of.start_), shape=shape).tocsr()


def _rows(program: Program) -> list[tuple[list[int], list[float], float, float]]:
    matrix, lp = _matrix(program), program.highs.getLp()
    return [
        (matrix.indices[start:end].tolist(), matrix.data[start:end].tolist(), lp.row_lower_[row], lp.row_upper_[row])
        for row, (start, end) in enumerate(pairwise(matrix.indptr.tolist()))
    ]


def main() -> int:
    """Prints a table for each size, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), metavar="JOBSxRESOURCES")
    parser.add_argument("--deadline", type=float, default=1.0, metavar="S")
    parser.add_argument("--peers-s", type=float, default=30.0, metavar="S", help="second try of each peer")
    parser.add_argument("--objective", default="throughput", choices=("throughput", "priority"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for size in args.sizes:
        found = compared(size, args.deadline, args.peers_s, args.objective, args.seed)
        if args.json:
            print(json.dumps(found), flush=True)
            continue
        print(f"\n{found['size']}, {found['objective']}: bound {found['bound']:g}, best known {found['best_known']:g}")
        for row in found["rows"]:
            if row["value"] is None:
                print(f"  {row['by']:26} {row['note']}", flush=True)
                continue
            print(
                f"  {row['by']:26} {row['value']:8g} {row['of_best']:7.1%} of best {row['of_bound']:7.1%} of bound "
                f"{row['cpu_s']:8.2f} s  {row.get('found', '')}{row.get('note', '')}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
