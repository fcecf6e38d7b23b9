"""``jobsight experiment matching-service``: the published matching experiment through HTTP, on a server of its own."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from jobsight_server.errors import UserError
from jobsight_server.experiments.matching_service import BATCHES, RATES_PER_MINUTE, measure_service
from jobsight_server.reports.matching_service import service_account, show_service

_BATCHES_AT_MOST, _RATE_AT_MOST = 10_000, 10**6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batches",
        type=int,
        default=BATCHES,
        metavar="N",
        help=f"of each size and way of reading the state ({BATCHES})",
    )
    rates = " ".join(map(str, RATES_PER_MINUTE))
    parser.add_argument(
        "--rates", type=int, nargs="*", default=RATES_PER_MINUTE, metavar="N", help=f"arrivals a minute ({rates})"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the jobs and resources (0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw plots to this directory")


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.batches <= _BATCHES_AT_MOST:
        raise UserError(f"--batches {args.batches}: give 1 to {_BATCHES_AT_MOST}")
    if any(not 1 <= rate <= _RATE_AT_MOST for rate in args.rates):
        raise UserError(f"--rates {args.rates}: give numbers from 1 to {_RATE_AT_MOST}")
    if not 0 <= args.seed < 2**63:
        raise UserError(f"--seed {args.seed}: give a number from 0 to 2^63 - 1")
    if args.plot is not None and args.plot.exists() and not args.plot.is_dir():
        raise UserError(f"--plot {args.plot}: is a file; name a directory")
    results = measure_service(
        args.batches, args.rates, args.seed, lambda text: print(f"jobsight experiment: {text}", file=sys.stderr)
    )
    account = service_account(results)
    if args.plot is not None:
        from jobsight_server.plots.matching_service import draw_service  # takes half a second to load

        draw_service(account, args.plot)
        print(f"jobsight experiment: plots written to {args.plot}", file=sys.stderr)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show_service(account, Console())
    return 0
