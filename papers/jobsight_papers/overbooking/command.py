"""The command of the overbooking experiment, on traces."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import floor
from pathlib import Path
from typing import Any

from jobsight_papers.overbooking.jobs import (
    LAST_JOBS,
    LOW_LOAD_ARRIVAL_H,
    PUBLISHED_TRACES,
    OverbookingSource,
    arrival_of,
    nodes_of,
    overbooking_jobs,
)
from jobsight_papers.overbooking.report import show
from jobsight_papers.overbooking.results import (
    CONTROLS,
    PUBLISHED_RESULTS,
    VARIED,
    accuracy_curves,
    gains,
    jobs_note,
    seeds_row,
)
from jobsight_papers.overbooking.runs import OverbookingCase, run_overbooking
from jobsight_papers.overbooking.strategies import RISK_FORMS, STRATEGIES
from jobsight_papers.runner import add_outcome_arguments, add_run_arguments, give_out, refuse_out_of_range, run_all
from jobsight_papers.traces import known_traces, named_trace
from jobsight_server.command_line.trace_argument import add_part
from jobsight_server.ground.errors import UserError

Task = tuple[OverbookingCase, OverbookingSource]

PMAX = ".05:1:.05"
MOST_PMAX, MOST_SEEDS, MOST_JOBS = 1000, 1000, 1_000_000
MOST_HOURS = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--trace",
        nargs="+",
        metavar="TRACE",
        help="Standard Workload Format: files, or names in the directory JOBSIGHT_TRACES, such as SDSC-SP2, or "
        f"Jobsight databases (file or URL) (default: those of {', '.join(sorted(PUBLISHED_TRACES))} that are there)",
    )
    add_part(parser)
    add(
        "--strategy",
        nargs="+",
        choices=tuple(STRATEGIES),
        metavar="NAME",
        help=f"some of {', '.join(STRATEGIES)} (default: all)",
    )
    add(
        "--pmax",
        default=PMAX,
        metavar="RANGE",
        help=f"highest probability of failure: FROM:TO:STEP or values with commas (default: {PMAX})",
    )
    add("--seeds", type=int, default=5, metavar="N", help="runs with different draws (5)")
    add(
        "--last",
        type=int,
        default=LAST_JOBS,
        metavar="JOBS",
        help=f"last jobs to offer; earlier ones train ({LAST_JOBS})",
    )
    add("--nodes", type=int, metavar="N", help="nodes (default: as published, or MaxProcs of the header)")
    add("--arrival", type=float, metavar="HOURS", help="mean time between submissions (default: as published, or .5)")
    add("--low-load", action="store_true", help=f"{LOW_LOAD_ARRIVAL_H:g} h between submissions")
    add("--arrival-factor", nargs="+", type=float, default=[1.0], metavar="X", help="stretch that time, e.g. .5 1 2 5")
    add("--penalty", nargs="+", type=float, default=[1.0], metavar="RATIO", help="penalty / charge, e.g. .5 1 2 5 (1)")
    add("--risk", choices=tuple(RISK_FORMS), default="exact", help="how PoS is computed (exact)")
    add_run_arguments(parser)
    add_outcome_arguments(parser)


def run(args: argparse.Namespace) -> int:
    pmax = parse_range(args.pmax)
    _check(args)
    sources = [OverbookingSource(file, args.last) for file in _files(args)]
    try:
        published = [(source, overbooking_jobs(source).published) for source in sources]
        sources += [replace(source, per_node=of.per_node) for source, of in published if of and of.per_node > 1]
        for source in sources:
            nodes_of(overbooking_jobs(source), args.nodes)
            arrival_of(overbooking_jobs(source), args.arrival)
    except ValueError as error:
        raise UserError(str(error)) from error
    groups = _groups(args, sources, pmax)
    distinct = {(case.without_pmax, source) for source, case in groups}
    chosen = [(replace(case, seed=seed), source) for case, source in distinct for seed in range(args.seeds)]
    tasks = sorted(chosen, key=lambda task: (str(task[1].file), task[0].strategy, task[0].pmax, repr(task[0])))
    finished = run_all("overbooking", task, tasks, args)

    account = _account(args, sources, groups, finished)
    give_out(account, args, "jobsight_papers.overbooking.plot", show)
    return 0


def task(of: Task) -> dict[str, Any]:
    """Do one run; worker processes call it."""
    return run_overbooking(*of)


def parse_range(text: str) -> list[float]:
    """Parse ``FROM:TO:STEP``, both ends included, or values with commas.

    Raises:
        UserError: neither of these, or a value is not a probability.
    """
    try:
        numbers = [float(part) for part in text.split(":" if ":" in text else ",")]
        if ":" in text:
            low, high, step = numbers
            steps = floor((high - low) / step + 1e-9)
            if not (step > 0.0 and 0 <= steps < MOST_PMAX):
                raise ValueError(f"{steps + 1:,} values")
            numbers = [round(low + i * step, 12) for i in range(steps + 1)]
        if not all(0.0 <= number <= 1.0 for number in numbers):
            raise ValueError("not a probability")
    except (ValueError, ArithmeticError) as error:
        raise UserError(
            f"--pmax {text!r}: {error}; give FROM:TO:STEP within 0..1, such as {PMAX}, or values such as .05,.1"
        ) from error
    return list(dict.fromkeys(numbers))


def _groups(
    args: argparse.Namespace, sources: Sequence[OverbookingSource], pmax: Sequence[float]
) -> list[tuple[OverbookingSource, OverbookingCase]]:
    """Return a source and a run for each row."""
    base = OverbookingCase(
        nodes=args.nodes,
        arrival_h=LOW_LOAD_ARRIVAL_H if args.low_load else args.arrival,
        form=args.risk,
    )
    varied = product(sources, args.penalty, args.arrival_factor, args.strategy or STRATEGIES, pmax)
    return [
        (source, replace(base, penalty_ratio=penalty, arrival_factor=factor, strategy=strategy, pmax=p))
        for source, penalty, factor, strategy, p in varied
    ]


def _account(
    args: argparse.Namespace,
    sources: Sequence[OverbookingSource],
    groups: Sequence[tuple[OverbookingSource, OverbookingCase]],
    finished: dict[Task, dict[str, Any]],
) -> dict[str, Any]:
    def runs(source: OverbookingSource, case: OverbookingCase) -> list[dict[str, Any]]:
        return [finished[replace(case, seed=seed).without_pmax, source] for seed in range(args.seeds)]

    rows, compared = [], []
    chosen = args.strategy or list(STRATEGIES)
    for source, case in groups:
        names = {"trace": overbooking_jobs(source).name, "strategy": case.strategy, "pmax": case.pmax}
        names |= {name: getattr(case, name) for name in VARIED if getattr(case, name) != getattr(PUBLISHED_CASE, name)}
        own = runs(source, case)
        rows.append(seeds_row(names, own))
        controls = {
            name: runs(source, replace(case, strategy=name))
            for name in CONTROLS
            if name in chosen and name != case.strategy
        }
        compared.append(gains(names, own, controls))
    return {
        "rows": rows,
        "gains": compared,
        "jobs": [jobs_note(source) for source in sources],
        "published": {name: PUBLISHED_RESULTS[name] for name in {row["trace"] for row in rows} & {*PUBLISHED_RESULTS}},
        "accuracy": {overbooking_jobs(source).name: accuracy_curves(source) for source in sources},
    }


PUBLISHED_CASE = OverbookingCase()


def _check(args: argparse.Namespace) -> None:
    refuse_out_of_range(
        ("--seeds", args.seeds, 1 <= args.seeds <= MOST_SEEDS),
        ("--last", args.last, 1 <= args.last <= MOST_JOBS),
        ("--nodes", args.nodes, args.nodes is None or args.nodes >= 1),
        ("--penalty", args.penalty, all(0.0 <= ratio <= MOST_HOURS for ratio in args.penalty)),
        ("--arrival-factor", args.arrival_factor, all(1e-3 <= x <= 1e3 for x in args.arrival_factor)),
        ("--arrival", args.arrival, args.arrival is None or 1e-3 <= args.arrival <= MOST_HOURS),
    )
    if args.low_load and args.arrival is not None:
        raise UserError(f"--low-load sets --arrival, which is also given ({args.arrival:g}); give one of them")


def _files(args: argparse.Namespace) -> list[Path]:
    if args.trace is not None:
        return list(dict.fromkeys(named_trace(name, args) for name in args.trace))
    found = [file for file in known_traces() if any(name in file.name.upper() for name in PUBLISHED_TRACES)]
    if not found:
        raise UserError("no trace: give --trace, or set JOBSIGHT_TRACES to a directory that has SDSC-SP2 or KTH-SP2")
    return found
