"""The published experiment on matching, in process and through HTTP."""

from __future__ import annotations

import argparse
import sys
import time

from jobsight_papers.matching.report import service_account, show
from jobsight_papers.matching.runs import cases, matching_account, run_case
from jobsight_papers.matching.service import RATES_PER_MINUTE, measure_service
from jobsight_papers.processes import watched
from jobsight_papers.runner import add_outcome_arguments, give_out, refuse_out_of_range
from jobsight_scheduler.matching import DEADLINE_S

BATCHES, BATCHES_AT_MOST = 20, 10_000
RATE_AT_MOST = 10**6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batches", type=int, default=BATCHES, metavar="N", help=f"batches per setting ({BATCHES})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the jobs and resources (0)")
    parser.add_argument(
        "--deadline", type=float, default=DEADLINE_S, metavar="S", help=f"processor time per batch ({DEADLINE_S:g})"
    )
    parser.add_argument("--no-service", action="store_true", help="in process only, not through HTTP")
    rates = " ".join(map(str, RATES_PER_MINUTE))
    parser.add_argument(
        "--rates",
        type=int,
        nargs="*",
        default=RATES_PER_MINUTE,
        metavar="N",
        help=f"Poisson arrivals a minute, through HTTP ({rates})",
    )
    add_outcome_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    tasks = list(cases(args.batches, args.seed))
    runs = ((case, run_case(case, time.process_time, args.deadline)) for case in tasks)
    account = matching_account([row for _, row in watched("matching", runs, len(tasks))])
    if not args.no_service:
        account["service"] = service_account(measure_service(args.batches, args.rates, args.seed, _say))
    give_out(account, args, "jobsight_papers.matching.plot", show)
    return 0


def _say(text: str) -> None:
    print(f"{text}", file=sys.stderr, flush=True)


def _check(args: argparse.Namespace) -> None:
    refuse_out_of_range(
        ("--batches", args.batches, 1 <= args.batches <= BATCHES_AT_MOST),
        ("--seed", args.seed, 0 <= args.seed < 2**63),
        ("--deadline", args.deadline, 0.0 < args.deadline <= 3_600.0),
        ("--rates", args.rates, all(1 <= rate <= RATE_AT_MOST for rate in args.rates)),
    )
