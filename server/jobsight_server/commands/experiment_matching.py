"""``jobsight experiment matching``: the published experiment on matching, and what it left out."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import msgspec
from rich.console import Console

from jobsight_scheduler.experiments.matching_runs import cases, matching_account, run_case
from jobsight_scheduler.matching import DEADLINE_S
from jobsight_server.errors import UserError
from jobsight_server.experiments.progress import watched
from jobsight_server.reports.matching_experiment import show

BATCHES, BATCHES_AT_MOST = 20, 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batches", type=int, default=BATCHES, metavar="N", help=f"of each setting ({BATCHES})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the jobs and resources (0)")
    parser.add_argument(
        "--deadline", type=float, default=DEADLINE_S, metavar="S", help=f"processor time per batch ({DEADLINE_S:g})"
    )
    parser.add_argument(
        "--service", action="store_true", help="also through HTTP with state in SQLite: batches, and Poisson arrivals"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw plots to this directory")


def run(args: argparse.Namespace) -> int:
    _check(args)
    tasks = list(cases(args.batches, args.seed))
    runs = ((case, run_case(case, time.process_time, args.deadline)) for case in tasks)
    account = matching_account([row for _, row in watched("matching", runs, len(tasks))])
    if args.service:
        from jobsight_server.experiments.matching_service import measure_service  # starts servers: seldom asked for

        service = measure_service(args.batches, seed=args.seed, progress=_say)
        account["service"] = msgspec.to_builtins(service)
    if args.plot is not None:
        from jobsight_server.plots.matching import draw  # takes half a second to load

        draw(account, args.plot)
        print(f"jobsight experiment: plots written to {args.plot}", file=sys.stderr)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show(account, Console())
    return 0


def _say(text: str) -> None:
    print(f"jobsight experiment: {text}", file=sys.stderr, flush=True)


def _check(args: argparse.Namespace) -> None:
    for flag, value, good in (
        ("--batches", args.batches, 1 <= args.batches <= BATCHES_AT_MOST),
        ("--seed", args.seed, 0 <= args.seed < 2**63),
        ("--deadline", args.deadline, 0.0 < args.deadline <= 3_600.0),
    ):
        if not good:
            raise UserError(f"{flag} {value}: out of range; see --help")
    if args.plot is not None and args.plot.exists() and not args.plot.is_dir():
        raise UserError(f"--plot {args.plot}: is a file; name a directory")
