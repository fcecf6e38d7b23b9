"""``jobsight backtest``: Jobsight's forecasts for a recorded workload, and their accuracy."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from jobsight_predictor.evaluation.backtest import run_backtest
from jobsight_predictor.evaluation.jobs import PROTOCOLS
from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.help_text import fraction
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.command_line.trace_argument import add_trace, part_of, read_jobs
from jobsight_server.commands.backtest_report import show
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.named_files import check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace(parser)
    parser.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default="completion",
        help="forecast each job when it is submitted and learn it when it ends (completion, default); ask again when "
        "it starts (start); or learn in the order of submission (submission)",
    )
    parser.add_argument(
        "--group",
        choices=("user", "template"),
        default="user",
        help="jobs that a single forecaster learns from: the user's (default), or its group by the first job group",
    )
    parser.add_argument(
        "--forecaster",
        nargs="+",
        choices=tuple(FORECASTERS),
        default=FIVE,
        metavar="NAME",
        help=f"forecasters to compare with Jobsight (default: the published five; available: {', '.join(FORECASTERS)})",
    )
    parser.add_argument(
        "--coverage",
        type=fraction,
        default=0.95,
        metavar="FRACTION",
        help="target fraction of jobs that stay within their bound (default: 0.95)",
    )
    parser.add_argument(
        "--baselines",
        action="store_true",
        help="compare with each baseline at that baseline's number of failures; slower",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw a plot to this file")


def run(args: argparse.Namespace) -> int:
    if args.plot is not None:
        _check_plot(args.plot)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task(f"reading {args.trace}", total=1.0)
        try:
            account = run_backtest(
                read_jobs(args.trace, args.metric, part_of(args)),
                protocol=args.protocol,
                group=args.group,
                forecasters=tuple(dict.fromkeys(args.forecaster)),
                coverage=args.coverage,
                baselines=args.baselines,
                progress=lambda step, done: progress.update(task, description=f"replaying {step}", completed=done),
            )
        except KeyboardInterrupt:
            step = progress.tasks[0]
            print(
                f"jobsight backtest: interrupted at {step.percentage:.0f} % ({step.description}); nothing was written",
                file=sys.stderr,
            )
            return 130
    if args.plot is not None:
        from jobsight_server.commands.backtest_plot import draw_backtest

        draw_backtest(account, args.plot)
        print(f"jobsight backtest: plot written to {args.plot}", file=sys.stderr)
    print_account(args, account, show)
    return 0


def _check_plot(file: Path) -> None:
    """Check now what would otherwise fail after minutes."""
    if file.suffix != ".svg":
        raise UserError(f"--plot {file}: plots are SVG; name it {file.with_suffix('.svg').name}")
    check_output(file, "--plot")
