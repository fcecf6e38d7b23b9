"""``jobsight adjust``: changes memory and time of waiting jobs by the scheduler's own commands."""

from __future__ import annotations

import argparse
import time
from typing import Any

from rich.console import Console
from rich.text import Text

from jobsight_server.accounting.command_output import CommandError
from jobsight_server.adjust.ledger import FAILED
from jobsight_server.adjust.pbs import Pbs
from jobsight_server.adjust.present import SchedulerCommands
from jobsight_server.adjust.run import Adjuster, Proposed, Result
from jobsight_server.adjust.slurm import Slurm
from jobsight_server.adjust.trial import SEED, Trial
from jobsight_server.command_line.answers import print_json, reading
from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.databases import open_existing
from jobsight_server.command_line.help_text import fraction
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.ground.amounts import memory_text, plain, time_text
from jobsight_server.ground.errors import UserError
from jobsight_server.savings.changes import Effect, TrialReport, trial_report
from jobsight_server.settings.declared import Settings
from jobsight_server.settings.tables import AdjustLimits

_TITLES = {"memory_gib": "memory given, GiB", "waiting_s": "waited, min", "failed_share": "ran out, of 100 jobs"}
_SCALES = {"memory_gib": 1.0, "waiting_s": 1.0 / 60.0, "failed_share": 100.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    parser.add_argument(
        "--scheduler",
        choices=("slurm", "pbs"),
        help="scheduler with the commands to use (default: that of the cluster's [[adjust]] or [[accounting]] table)",
    )
    parser.add_argument("--cluster", metavar="NAME", help="cluster of an [[adjust]] table (default: the only one; for "
                        "--report all)")  # fmt: skip
    act = parser.add_mutually_exclusive_group()
    act.add_argument("--apply", action="store_true", help="make the changes (default: only show them)")
    undo = "restore the requests of all waiting jobs, or of these"
    act.add_argument("--undo", nargs="*", metavar="JOB", help=undo)
    report = "compare the jobs that a trial has changed with those that it left alone"
    act.add_argument("--report", action="store_true", help=report)
    trial = "change this share of the jobs, chosen at random, and leave the others; --report compares them"
    parser.add_argument("--trial", type=fraction, metavar="SHARE", help=trial)
    parser.add_argument("--seed", default=SEED, metavar="TEXT", help=f"seed of the trial's draw (default: {SEED})")
    level = "confidence level of the intervals of --report (default: 0.95)"
    parser.add_argument("--level", type=fraction, default=0.95, metavar="SHARE", help=level)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    if args.report:
        return _report(args)
    if args.trial is not None and args.undo is not None:
        raise UserError("--trial and --undo exclude each other")
    settings = settings_of(args)
    limits = _limits(settings, args.cluster)
    changes = args.apply or args.undo is not None
    engine = open_existing(args, "write" if changes else "read", acts_elsewhere=True)
    try:
        reader = AnswerReader(forecast_config(settings))
        scheduler = _scheduler(settings, limits, args.scheduler)
        adjuster = Adjuster(engine, reader, scheduler, limits.cluster, limits, settings.least, time.time)
        trial = None if args.trial is None else Trial(args.trial, args.seed)
        if args.undo is not None:
            result = adjuster.undo(args.undo)
        else:
            result = adjuster.apply(trial) if args.apply else adjuster.dry_run(trial)
    except CommandError as error:
        raise UserError(f"the queue of {limits.cluster}: {error}") from error
    finally:
        engine.dispose()
    if args.json:
        print_json(_record(result))
    else:
        show(result, Terminal(), is_dry=not changes)
    return 1 if any(one.outcome == FAILED for one in result.proposed) else 0


def _limits(settings: Settings, cluster: str | None) -> AdjustLimits:
    known = [limits.cluster for limits in settings.adjust]
    found = [limits for limits in settings.adjust if cluster in (None, limits.cluster)]
    if not found:
        named = f" for cluster {cluster!r}" if cluster else ""
        others = f"; there is one for {', '.join(known)}" if known else ""
        raise UserError(
            f"the settings have no [[adjust]] table{named}{others}: write one with the limits for its jobs "
            "(docs/operate/sources.md), and name the file with --config"
        )
    if len(found) > 1:
        raise UserError(f"the settings have [[adjust]] tables for {', '.join(known)}: choose one with --cluster")
    return found[0]


def _scheduler(settings: Settings, limits: AdjustLimits, given: str | None) -> SchedulerCommands:
    source = next((one for one in settings.accounting if one.cluster == limits.cluster), None)
    known = limits.scheduler or ("" if source is None else source.scheduler)
    kind = given or known
    if kind not in ("slurm", "pbs", "pbspro", "torque"):
        how = 'write scheduler = "slurm", "pbspro" or "torque" into its [[adjust]] table'
        raise UserError(f"cannot change jobs of {limits.cluster}, whose scheduler is {kind or 'unknown'}: {how}")
    if known and (known == "slurm") != (kind == "slurm"):
        raise UserError(f"--scheduler {kind}: the scheduler of {limits.cluster} is {known}")
    queue = () if source is None else source.queue_command
    if kind == "slurm":
        return Slurm(queue or ("squeue",), limits.command or ("scontrol",), limits.timeout_s)
    return Pbs(queue or ("qstat",), limits.command or ("qalter",), limits.timeout_s, known == "torque")


def show(result: Result, console: Console, *, is_dry: bool) -> None:
    """Show a table of the changes and their reasons; then the jobs left alone, by reason."""
    for found in result.resolved:
        console.print(
            Text(f"job {found.job_id}: a change of its {found.resource} was interrupted; it is {found.state}")
        )
    if result.proposed:
        table = table_of(("job", "user", "of"), ("has", "gets"))
        table.add_column("why", overflow="fold")
        for one in result.proposed:
            change = one.change
            done = one.outcome or ("control group of the trial" if one.arm == "none" else "")
            why = "; ".join(part for part in (change.reason, done, one.error) if part)
            cells = (change.job.job_id, change.job.user, "time" if change.resource == "runtime" else "memory")
            # As Text, because a user's name may look like one of rich's markup tags.
            table.add_row(
                *(Text(text) for text in (*cells, _amount(one, change.old.value), _amount(one, change.new), why))
            )
        console.print(table)
    count = len(result.proposed)
    text = f"{count} change{'' if count == 1 else 's'}"
    if is_dry:
        text += " would be made; --apply makes them" if count else " to make"
    console.print(Text(f"{text}."))
    for why, jobs in sorted(result.left.items()):
        console.print(Text(f"Left {jobs:,}: {why}."))


def _amount(one: Proposed, value: int) -> str:
    whole = float(value * one.change.old.times)
    return time_text(whole) if one.change.resource == "runtime" else memory_text(whole)


def _record(result: Result) -> dict[str, Any]:
    return {
        "changes": [
            {
                "job_id": one.change.job.job_id,
                "user": one.change.job.user,
                "resource": one.change.resource,
                "parameter": one.change.old.parameter,
                "old": one.change.old.value * one.change.old.times,
                "new": one.change.new * one.change.old.times,
                "reason": one.change.reason,
                "arm": one.arm,
                "outcome": one.outcome or None,
                "error": one.error or None,
            }
            for one in result.proposed
        ],
        "resolved": [{"job_id": one.job_id, "resource": one.resource, "state": one.state} for one in result.resolved],
        "left": dict(result.left),
    }


def _report(args: argparse.Namespace) -> int:
    with reading(args) as (connection, _):
        report = trial_report(connection, args.seed, args.cluster, args.level)
    if not any(arm.assigned for arm in report.arms):
        how = "`jobsight adjust --apply --trial 0.5` assigns them"
        raise UserError(f"no job was assigned by a trial with seed {args.seed!r}; {how}")
    if args.json:
        print_json(report)
    else:
        show_report(report, Terminal())
    return 0


def show_report(report: TrialReport, console: Console) -> None:
    """Show the jobs of each arm, and a row for each measure."""
    for arm in report.arms:
        what = "changed" if arm.arm == "advice" else "left alone"
        console.print(f"{arm.assigned:,} jobs {what}: {arm.started:,} started, {arm.ended:,} ended", highlight=False)
    interval = f"{report.level:.0%} interval"
    table = table_of(["mean of"], ("changed", "left alone", "difference", interval, "jobs", "users"))
    for effect in report.effects:
        table.add_row(_TITLES[effect.measure], *_cells(effect))
    console.print(table)
    console.print("The difference is between jobs of the same user. An interval that holds 0 proves nothing.")


def _cells(effect: Effect) -> tuple[str, ...]:
    scale = _SCALES[effect.measure]
    interval = "too few users"
    if effect.low is not None and effect.high is not None:
        interval = f"{_signed(effect.low * scale)} to {_signed(effect.high * scale)}"
    means = (plain(effect.advice * scale), plain(effect.none * scale), _signed(effect.difference * scale))
    return (*means, interval, f"{effect.jobs:,}", f"{effect.users:,}")


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{plain(value)}"
