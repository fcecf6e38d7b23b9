"""The command of the overbooking experiment, on traces."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import isfinite, prod
from pathlib import Path
from typing import Any, get_args

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
    accuracy_curves,
    gains,
    jobs_note,
    seeds_row,
)
from jobsight_papers.overbooking.runs import OverbookingCase, run_overbooking
from jobsight_papers.overbooking.strategies import RISK_FORMS, STRATEGIES
from jobsight_papers.runner import add_outcome_arguments, add_run_arguments, check_outcome, check_run, give_out, run_all
from jobsight_papers.traces import trace_file
from jobsight_scheduler.overbooking.plan import Choice
from jobsight_server.command_line.trace_argument import add_part
from jobsight_server.ground.errors import UserError

Task = tuple[OverbookingCase, OverbookingSource]

PMAX = ".05:1:.05"
MOST_PMAX, MOST_SEEDS, MOST_JOBS, MOST_RUNS = 1000, 1000, 1_000_000, 100_000
MOST_HOURS = 1e6
VARIED = ("penalty_ratio", "arrival_factor")
"""Options shown in rows if they differ from the published set-up."""


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
    add("--release", type=float, default=12.0, metavar="HOURS", help="mean delay from submission to release (12)")
    add("--deadline", type=float, default=5.0, metavar="X", help="requested times from release to deadline (5)")
    add(
        "--mtbf", type=float, metavar="HOURS", help="mean time between a node's failures (default: as published, 14505)"
    )
    add("--mttr", type=float, default=12.0, metavar="HOURS", help="mean time to repair a node (12)")
    add("--place", choices=get_args(Choice), help="which free processors a job gets (default: strict, ours full-first)")
    add("--exact-estimates", action="store_true", help="run times as requested: nothing to gain")
    add("--risk", choices=tuple(RISK_FORMS), default="exact", help="how PoS is computed (exact)")
    add_run_arguments(parser)
    add_outcome_arguments(parser)


def run(args: argparse.Namespace) -> int:
    pmax = parse_range(args.pmax)
    _check(args)
    sources = [OverbookingSource(file, args.last, args.exact_estimates) for file in _files(args)]
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
    _check_count(len(distinct) * args.seeds, "runs")
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
    problem = UserError(f"--pmax {text!r}: give FROM:TO:STEP within 0..1, such as {PMAX}, or values such as .05,.1")
    try:
        numbers = [float(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError as error:
        raise problem from error
    if not all(0.0 <= number <= 1.0 for number in numbers):
        raise problem
    if ":" not in text:
        return list(dict.fromkeys(numbers))
    if len(numbers) != 3 or numbers[2] <= 0.0 or numbers[0] > numbers[1]:
        raise problem
    low, high, step = numbers
    count = int((high - low) / step + 1e-9) + 1 if (high - low) / step < MOST_PMAX else MOST_PMAX + 1
    if count > MOST_PMAX:
        raise UserError(f"--pmax {text!r}: more than {MOST_PMAX:,} values; give a larger step")
    return [round(low + i * step, 12) for i in range(count)]


def _check_count(count: int, what: str) -> None:
    if count > MOST_RUNS:
        raise UserError(f"{count:,} {what}; at most {MOST_RUNS:,}: give fewer seeds, values of --pmax or strategies")


def _groups(
    args: argparse.Namespace, sources: Sequence[OverbookingSource], pmax: Sequence[float]
) -> list[tuple[OverbookingSource, OverbookingCase]]:
    """Return a source and a run for each row."""
    base = OverbookingCase(
        nodes=args.nodes,
        arrival_h=LOW_LOAD_ARRIVAL_H if args.low_load else args.arrival,
        repairs_per_h=1.0 / args.mttr,
        release_mean_h=args.release,
        deadline_factor=args.deadline,
        place=args.place,
        form=args.risk,
    )
    if args.mtbf is not None:
        base = replace(base, failures_per_h=1.0 / args.mtbf)
    lists = (sources, args.penalty, args.arrival_factor, args.strategy or STRATEGIES, pmax)
    _check_count(prod(map(len, lists)), "rows")
    varied = product(args.penalty, args.arrival_factor, args.strategy or STRATEGIES, pmax)
    return [
        (
            source,
            replace(base, penalty_ratio=penalty, arrival_factor=factor, strategy=strategy, pmax=p),
        )
        for source, (penalty, factor, strategy, p) in product(sources, list(varied))
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
    for flag, values, good in (
        ("--seeds", [args.seeds], 1 <= args.seeds <= MOST_SEEDS),
        ("--last", [args.last], 1 <= args.last <= MOST_JOBS),
        ("--nodes", [args.nodes], args.nodes is None or args.nodes >= 1),
        ("--penalty", args.penalty, all(0.0 <= ratio <= MOST_HOURS for ratio in args.penalty)),
        ("--arrival-factor", args.arrival_factor, all(1e-3 <= x <= 1e3 for x in args.arrival_factor)),
        ("--arrival", [args.arrival], args.arrival is None or 1e-3 <= args.arrival <= MOST_HOURS),
        ("--release", [args.release], 0.0 <= args.release <= MOST_HOURS),
        ("--deadline", [args.deadline], 0.01 <= args.deadline <= 1e4),
        ("--mtbf", [args.mtbf], args.mtbf is None or (isfinite(args.mtbf) and args.mtbf >= 1.0)),
        ("--mttr", [args.mttr], 0.01 <= args.mttr <= MOST_HOURS),
    ):
        if not good:
            raise UserError(f"{flag} {' '.join(map(str, values))}: out of range; see --help for an example")
    if args.low_load and args.arrival is not None:
        raise UserError(f"--low-load sets --arrival, which is also given ({args.arrival:g}); give one of them")
    check_run(args)
    check_outcome(args)


def _files(args: argparse.Namespace) -> list[Path]:
    directory = Path(os.environ["JOBSIGHT_TRACES"]) if "JOBSIGHT_TRACES" in os.environ else None
    known = sorted(directory.glob("*.swf*")) if directory is not None and directory.is_dir() else []
    if args.trace is None:
        found = [file for file in known if any(name in file.name.upper() for name in PUBLISHED_TRACES)]
        if not found:
            raise UserError(
                "no trace: give --trace, or set JOBSIGHT_TRACES to a directory that has SDSC-SP2 or KTH-SP2"
            )
        return found
    return list(dict.fromkeys(_file(name, known, args) for name in args.trace))


def _file(name: str, known: Sequence[Path], args: argparse.Namespace) -> Path:
    if "\0" in name:
        raise UserError(f"--trace {name!r}: a file name cannot contain NUL")
    if "://" in name or Path(name).is_file():
        return trace_file(name, args)
    found = [file for file in known if name and file.name.upper().startswith(name.upper())]
    if len(found) == 1:
        return found[0].resolve()
    if found:
        raise UserError(f"--trace {name}: several traces begin with this: {', '.join(file.name for file in found)}")
    raise UserError(f"--trace {name}: no such file or trace in JOBSIGHT_TRACES; give a workload file")
