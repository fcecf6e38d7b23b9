"""The experiment on the choice of a machine of a campus grid for each job."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from jobsight_papers.ranking.draws import machines_of
from jobsight_papers.ranking.job_sets import SETS
from jobsight_papers.ranking.report import show
from jobsight_papers.ranking.results import by_seed, gains, published, row
from jobsight_papers.ranking.runs import (
    LOAD,
    RANKS,
    THIRDS,
    RankingCase,
    curve_cases,
    published_cases,
    run_case,
    variant_cases,
)
from jobsight_papers.runner import add_outcome_arguments, add_run_arguments, give_out, refuse_out_of_range, run_all
from jobsight_server.ground.errors import UserError

SEEDS = 10
SEEDS_AT_MOST = 1000
LOAD_AT_LEAST, LOAD_AT_MOST = 0.01, 2.0
WEIGHT_AT_MOST = 1e6
Task = tuple[str, RankingCase]
"""A run and its part of the account: ``rows`` or the name of a variant."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help=f"runs of each kind (default: {SEEDS})")
    parser.add_argument(
        "--sets",
        nargs="+",
        type=int,
        choices=tuple(SETS),
        metavar="SET",
        help="published job sets, 1 to 4 (default: all)",
    )
    parser.add_argument(
        "--ranks",
        nargs="+",
        choices=tuple(RANKS),
        metavar="NAME",
        help=f"choice of a machine: {', '.join(RANKS)} (default: all)",
    )
    parser.add_argument(
        "--weights",
        nargs=3,
        type=float,
        action="append",
        metavar=("W1", "W2", "W3"),
        help="weights of RA, JS and CA, for grv; can be repeated (default: 1/3 each, and 1/2 1/2 0)",
    )
    parser.add_argument(
        "--loads",
        nargs="+",
        type=float,
        metavar="LOAD",
        help=f"offered loads (default: {LOAD}, and .1 to 1.0 for three ranks)",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="event_trace.tab of the Failure Trace Archive, plain or .gz: its machines instead of the emulated campus",
    )
    add_run_arguments(parser)
    add_outcome_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    tasks = list(_tasks(args))
    finished = run_all("ranking", task, tasks, args)
    account = _account([(part, case, finished[part, case]) for part, case in tasks], args.trace)
    give_out(account, args, "jobsight_papers.ranking.plot", show)
    return 0


def task(of: Task) -> dict[str, Any]:
    """Do one run; called in worker processes."""
    _, case = of
    return run_case(case)


def _account(finished: Sequence[tuple[str, RankingCase, dict[str, Any]]], trace: Path | None) -> dict[str, Any]:
    found = by_seed((case, figures) for part, case, figures in finished if part == "rows")
    rows = [row(case, runs) for case, runs in found.items()]
    variants = []
    for name in dict.fromkeys(part for part, *_ in finished if part != "rows"):
        of_variant = by_seed((case, figures) for part, case, figures in finished if part == name)
        variants.append(
            {
                "variant": name,
                "rows": [row(case, runs) for case, runs in of_variant.items()],
                "gains": gains(of_variant),
            }
        )
    return {
        "rows": rows,
        "published": [] if trace else published(rows),
        "gains": gains(found),
        "variants": variants,
        "unfinished": sum(figures.get("unfinished", 0) for _, _, figures in finished),
    }


def _tasks(args: argparse.Namespace) -> Sequence[Task]:
    given = (args.sets, args.ranks, args.weights, args.loads, args.trace)
    if all(value is None for value in given):
        tasks = [("rows", case) for case in (*published_cases(args.seeds), *curve_cases(args.seeds))]
        return tasks + list(variant_cases(args.seeds))
    trace = None if args.trace is None else str(args.trace)
    weights = [
        (w1 / (w1 + w2 + w3), w2 / (w1 + w2 + w3), w3 / (w1 + w2 + w3)) for w1, w2, w3 in args.weights or [THIRDS]
    ]
    chosen = product(range(args.seeds), args.sets or SETS, args.loads or [LOAD], args.ranks or RANKS, weights)
    cases = [
        RankingCase(number, rank, each if rank.startswith("grv") else THIRDS, load, seed, trace=trace)
        for seed, number, load, rank, each in chosen
    ]
    return [("rows", case) for case in dict.fromkeys(cases)]


def _check(args: argparse.Namespace) -> None:
    refuse_out_of_range(
        ("--seeds", args.seeds, 1 <= args.seeds <= SEEDS_AT_MOST),
        ("--loads", args.loads, all(LOAD_AT_LEAST <= load <= LOAD_AT_MOST for load in args.loads or ())),
        (
            "--weights",
            args.weights,
            all(all(0.0 <= w <= WEIGHT_AT_MOST for w in each) and any(each) for each in args.weights or ()),
        ),
    )
    if args.trace is not None:
        _check_trace(args)


def _check_trace(args: argparse.Namespace) -> None:
    try:
        found = machines_of(str(args.trace))
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"--trace {args.trace}: {error}") from error
    span = (found.availability.to_s - found.availability.from_s) / 86_400.0
    print(f"{len(found)} machines, {span:.0f} days", file=sys.stderr)
    for reason, count in found.skipped.items():
        print(f"{count:>10}  skipped: {reason}", file=sys.stderr)
