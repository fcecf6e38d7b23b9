"""``jobsight simulate``: what a scheduling policy would have made of a recorded workload."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from jobsight_scheduler.comparison import compare
from jobsight_scheduler.metrics import by_size, by_user, metrics
from jobsight_scheduler.policies import DEFAULT_PREDICTOR, POLICIES, PREDICTING, PREDICTORS
from jobsight_scheduler.table import (
    SCHEDULE,
    JobTable,
    ScheduleError,
    read_schedule,
    write_parquet,
    write_table,
)
from jobsight_scheduler.validator import Finding, validate
from jobsight_server.commands import coallocation
from jobsight_server.commands.schedules import show
from jobsight_server.commands.simulating import simulate
from jobsight_server.commands.workload import Given, add_workload, counted, read_workload
from jobsight_server.errors import UserError

SHOWN_FINDINGS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workload(parser)
    parser.add_argument("--policy", choices=POLICIES, default="easy", help="scheduling policy (default: easy)")
    parser.add_argument(
        "--predictor",
        choices=tuple(PREDICTORS),
        metavar="NAME",
        help=f"forecasts run times for {' and '.join(PREDICTING)}: {', '.join(PREDICTORS)} "
        f"(easy++ by default: {DEFAULT_PREDICTOR}, the mean of the user's last two jobs)",
    )
    parser.add_argument(
        "--against", nargs="+", choices=POLICIES, default=(), metavar="POLICY", help="compare with these, job by job"
    )
    parser.add_argument(
        "--schedule-out", type=Path, metavar="FILE.csv", help=f"write the columns {', '.join(SCHEDULE)}"
    )
    parser.add_argument(
        "--jobs-out", type=Path, metavar="FILE", help="write all that is known of each job, .csv or .parquet"
    )
    parser.add_argument("--validate", action="store_true", help="check the schedule against the rules of its policy")
    parser.add_argument(
        "--check", type=Path, metavar="FILE.csv", help="simulate nothing: check this schedule of the trace instead"
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="save the simulation here when interrupted; resume from it if present",
    )
    parser.add_argument(
        "--progress-out", type=Path, metavar="FILE", help="keep the share of the jobs that have ended in this file"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--plot", type=Path, metavar="DIR", help="draw utilisation, queue, Gantt chart and slowdowns to this directory"
    )
    coallocation.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check_outputs(args)
    if args.clusters is not None:
        return coallocation.run(args, _write, _tell)
    coallocation.refuse_without_clusters(args)
    given = read_workload(args)
    account: dict[str, Any] = {
        "trace": given.name,
        "policy": args.policy,
        "predictor": args.predictor or (DEFAULT_PREDICTOR if args.policy == "easy++" else None),
        "processors": given.capacity,
        **counted(given, given.workload),
    }
    if args.check is not None:
        table = _read_schedule(args.check, given)
        spent = None
    else:
        simulated = simulate(given, args.policy, args.predictor, args.state, args.progress_out)
        if simulated is None:
            return 130
        table, spent = simulated
    account |= metrics(table, given.capacity)
    if spent is not None:
        account |= {"cpu_s": spent, "jobs_per_cpu_s": len(table) / spent if spent else None}
    account |= {"by_size": by_size(table), "by_user": by_user(table)}
    findings = _validate(args, table, given.capacity, account)
    _write(args, table)
    others: dict[str, JobTable] = {}
    for policy in dict.fromkeys(args.against):
        simulated = simulate(given, policy, args.predictor if policy in PREDICTING else None, None)
        if simulated is None:
            return 130
        others[policy] = simulated[0]
    if others:
        account["against"] = {
            policy: metrics(other, given.capacity)
            | {f"difference_{name}": [d.mean, d.low, d.high] for name, d in compare(table, other).items()}
            for policy, other in others.items()
        }
    if args.plot is not None:
        from jobsight_server.plots.simulation import draw_simulation  # takes half a second to load

        title = f"{given.name}: {args.policy} on {given.capacity} processors"
        draw_simulation(table, given.capacity, title, args.plot)
        print(f"jobsight simulate: drawn to {args.plot}", file=sys.stderr)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show(account, Console())
    _tell(findings)
    return 1 if findings else 0


def _validate(args: argparse.Namespace, table: JobTable, capacity: int, account: dict[str, Any]) -> list[Finding]:
    if not args.validate and args.check is None:
        return []
    rules = "sjf with a predictor" if args.policy == "sjf" and args.predictor else args.policy
    findings = validate(table, capacity, rules)
    account["broken_rules"] = len(findings)
    return findings


def _tell(findings: list[Finding]) -> None:
    for finding in findings[:SHOWN_FINDINGS]:
        print(f"jobsight simulate: {finding.rule}: {finding}", file=sys.stderr)
    if len(findings) > SHOWN_FINDINGS:
        print(f"jobsight simulate: and {len(findings) - SHOWN_FINDINGS} more", file=sys.stderr)


def _read_schedule(file: Path, given: Given) -> JobTable:
    try:
        return read_schedule(file, given.workload, given.trace["user"])
    except ScheduleError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"--check {file}: cannot be read: {error.strerror or error}") from error


def _write(args: argparse.Namespace, table: JobTable) -> None:
    try:
        if args.schedule_out is not None:
            write_table(table, args.schedule_out, SCHEDULE)
        if args.jobs_out is not None and args.jobs_out.suffix == ".parquet":
            write_parquet(table, args.jobs_out)
        elif args.jobs_out is not None:
            write_table(table, args.jobs_out)
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be written: {error.strerror or error}") from error


def _check_outputs(args: argparse.Namespace) -> None:
    """What would otherwise be found out after minutes."""
    for flag in ("schedule_out", "jobs_out", "state", "progress_out"):
        file = getattr(args, flag)
        if file is not None and not file.parent.is_dir():
            raise UserError(f"--{flag.replace('_', '-')} {file}: there is no directory {file.parent}; make it first")
    if args.jobs_out is not None and args.jobs_out.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UserError(f"--jobs-out {args.jobs_out}: Parquet needs pyarrow: pip install pyarrow, or name a .csv")
    if args.plot is not None and args.plot.exists() and not args.plot.is_dir():
        raise UserError(f"--plot {args.plot}: is a file; name a directory")
