"""``jobsight trial``: what `jobsight adjust --trial` has shown so far."""

from __future__ import annotations

import argparse

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from jobsight_server.adjust.trial import SEED
from jobsight_server.command_line.arguments import add_settings, open_existing
from jobsight_server.errors import UserError
from jobsight_server.queries.trial import Effect, TrialReport, trial_report

_TITLES = {"memory_gib": "memory given, GiB", "waiting_s": "waited, min", "failed_share": "ran out, of 100 jobs"}
_SCALES = {"memory_gib": 1.0, "waiting_s": 1.0 / 60.0, "failed_share": 100.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    parser.add_argument("--cluster", metavar="NAME", help="count only this cluster's jobs")
    parser.add_argument("--seed", default=SEED, metavar="TEXT", help=f"name of the trial's draw (default: {SEED})")
    parser.add_argument("--level", type=float, default=0.95, metavar="SHARE", help="of the intervals (default: 0.95)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    if not 0 < args.level < 1:
        raise UserError(f"--level {args.level:g} is not a share; give one such as 0.95")
    engine = open_existing(args, "read")
    try:
        with engine.connect() as connection:
            report = trial_report(connection, args.seed, args.cluster, args.level)
    finally:
        engine.dispose()
    if not any(arm.assigned for arm in report.arms):
        how = "`jobsight adjust --apply --trial 0.5` assigns them"
        raise UserError(f"no job was assigned by a trial with seed {args.seed!r}; {how}")
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        show(report, Console())
    return 0


def show(report: TrialReport, console: Console) -> None:
    """Who took part, and a row for each measure."""
    for arm in report.arms:
        what = "changed" if arm.arm == "advice" else "left alone"
        console.print(f"{arm.assigned:,} jobs {what}: {arm.started:,} started, {arm.ended:,} ended", highlight=False)
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("mean of")
    for head in ("changed", "left alone", "difference", f"{report.level:.0%} interval", "jobs", "users"):
        table.add_column(head, justify="right", no_wrap=True)
    for effect in report.effects:
        table.add_row(_TITLES[effect.measure], *_cells(effect))
    console.print(table)
    console.print("The difference is between jobs of the same user. An interval that holds 0 proves nothing.")


def _cells(effect: Effect) -> tuple[str, ...]:
    scale = _SCALES[effect.measure]
    interval = "too few users"
    if effect.low is not None and effect.high is not None:
        interval = f"{effect.low * scale:+.3g} to {effect.high * scale:+.3g}"
    means = (f"{effect.advice * scale:.3g}", f"{effect.none * scale:.3g}", f"{effect.difference * scale:+.3g}")
    return (*means, interval, f"{effect.jobs:,}", f"{effect.users:,}")
