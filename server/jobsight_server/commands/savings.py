"""``jobsight savings``: what reserving as recommended would have freed, straight from the database."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from typing import Any

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection

from jobsight_server.amounts import memory_text, percent, time_text, utc_day
from jobsight_server.command_line.arguments import LEARNING, add_settings, open_existing, settings_of
from jobsight_server.errors import UserError
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.queries.adjusted import DAYS, AdjustedResource, adjusted
from jobsight_server.queries.savings import (
    BY,
    DAYS_SHOWN,
    Asking,
    MetricSavings,
    Savings,
    SavingsRequest,
    SavingsRow,
    savings,
)
from jobsight_server.queries.users import user_clusters
from jobsight_server.storage.clusters import listed, stored_clusters

_LISTED = 20
_TITLES = {"memory": "Memory, GiB-hours", "runtime": "Run time, processor-hours"}
_HEADS = ("freed", "share", "requested", "reserved", "used", "jobs", "run\nout")
_NOTHING = "No job was counted on these days. Jobs are counted once they have been profiled."
_NOTE = (
    "Ask for: for a whole job like the user's last of the application that could save most (--json names both), where "
    "that is another amount; the same as in `jobsight seff`. --by application --user NAME shows each."
)
_NO_ADVICE = "For advice on what to ask for, use --by user or --user NAME."
_AMOUNTS = ("requested_hours", "used_hours", "reserved_hours", "repeated_hours", "freed_hours")
_REASONS = {
    "without_request": "without a request",
    "without_use": "without a measured value",
    "without_bound": "submitted before there was a recommendation",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database", *LEARNING)
    parser.add_argument("--by", choices=BY, default=BY[0], help=f"print one row for each of these (default: {BY[0]})")
    parser.add_argument("--cluster", metavar="NAME", help="count only this cluster's jobs")
    parser.add_argument("--user", metavar="NAME", help="count only this user's jobs")
    since = f"first day on which jobs ended, such as 2026-11-01 (default: {DAYS_SHOWN} days)"
    parser.add_argument("--since", type=_day, metavar="DAY", help=since)
    parser.add_argument("--until", type=_day, metavar="DAY", help="last day, included (default: the newest)")
    parser.add_argument("--limit", type=int, default=_LISTED, metavar="COUNT", help=f"rows (default: {_LISTED})")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, in GiB-hours and processor-hours")
    form.add_argument("--csv", action="store_true", help="print CSV, in GiB-hours and processor-hours")


def run(args: argparse.Namespace) -> int:
    if args.limit < 1:
        raise UserError(f"--limit {args.limit} is not above 0")
    if args.since is not None and args.until is not None and args.since > args.until:
        raise UserError("--since must not be after --until")
    engine = open_existing(args, "read")
    try:
        with engine.connect() as connection:
            cluster = _cluster(connection, args.cluster, args.user)
            request = SavingsRequest(args.by, cluster, args.user, args.since, args.until, args.limit)
            reader = AnswerReader(engine, forecast_config(settings_of(args)))
            found = savings(connection, Asking(connection, reader), request)
            changed = adjusted(connection, time.time(), cluster)
    finally:
        engine.dispose()
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif args.csv:
        _write_csv(found)
        if found.first_day is None:
            print(f"jobsight savings: {_NOTHING}", file=sys.stderr)
    else:
        console = Console()
        show(found, console)
        for resource in changed.resources:
            if said := _adjusted(resource):
                console.print(Text(said))
    return 0


def _adjusted(of: AdjustedResource) -> str:
    """What `jobsight adjust` did; empty where it did nothing."""
    if not (of.lowered or of.raised or of.waiting or of.undone or of.refused):
        return ""
    unit = "GiB-hours of memory" if of.resource == "memory" else "processor-hours of limits"
    return (
        f"`jobsight adjust`, last {DAYS} days: {of.lowered:,} jobs ran with less {_WORDS[of.resource]} than requested, "
        f"{of.raised:,} with more, which freed {_hours(of.freed_hours)} {unit}; {of.ran_out:,} of them ran out of it. "
        f"{of.waiting:,} changed jobs wait; {of.undone:,} changes undone, {of.refused:,} refused by the scheduler."
    )


_WORDS = {"memory": "memory", "runtime": "time"}


def _cluster(connection: Connection, cluster: str | None, user: str | None) -> str | None:
    if cluster is not None and cluster not in (known := stored_clusters(connection)):
        raise UserError(f"unknown cluster {cluster!r}; known: {listed(known)}")
    if user is None or cluster is not None:
        return cluster
    found = user_clusters(connection, user)
    if len(found) != 1:
        raise UserError(
            f"user {user!r} is known on {listed(found)}; give --cluster NAME" if found else f"no user {user!r}"
        )
    return found[0]


def show(found: Savings, console: Console) -> None:
    """For each metric a sentence, and a table with the greatest saving first."""
    if found.first_day is None:
        console.print(_NOTHING)
        return
    console.print(f"Jobs that ended from {found.first_day} to {found.last_day} (UTC)", highlight=False)
    for metric in found.metrics:
        # As Text, because a user may be named like one of rich's markup tags.
        console.print(Text(f"\n{_TITLES[metric.metric]}", style="bold"))
        console.print(Text(_sentence(metric)))
        if metric.rows:
            console.print(_table(found.by, metric))
        if more := metric.groups - len(metric.rows):
            console.print(f"{more:,} more; --limit {metric.groups} prints all", highlight=False)
        left = [f"{n:,} {_REASONS[reason]}" for reason in _REASONS if (n := getattr(metric.left_out, reason))]
        if left:
            console.print(Text(f"Jobs left out: {', '.join(left)}."))
    if any(_is_advised(metric) for metric in found.metrics):
        console.print(f"\n{_NOTE}", highlight=False)
    else:
        console.print(f"\n{_NO_ADVICE}", highlight=False)


def _sentence(metric: MetricSavings) -> str:
    total = metric.total
    if not total.jobs:
        return "No job has a request, a measured value and a recommendation at its submission."
    share = "" if total.freed_share is None else f" ({percent(abs(total.freed_share))})"
    amount = f"{_hours(abs(total.freed_hours))}{share}"
    if metric.metric == "runtime":  # processors are given back at a job's end whatever its limit
        effect = f"Limits as recommended would have been {amount} {'shorter' if total.freed_hours >= 0 else 'longer'}"
    else:
        effect = (
            f"Reserving as recommended would have {'freed' if total.freed_hours >= 0 else 'taken another'} {amount}"
        )
    return (
        f"{effect}, repeats included. "
        f"{total.would_run_out:,} of {total.jobs:,} jobs ({percent(total.would_run_out / total.jobs, 1)}) would have "
        f"run out of it; with the users' own requests {total.ran_out:,}."
    )


_NAME_WIDTH = 10  # characters of a name that stay in one line


def _is_advised(metric: MetricSavings) -> bool:
    return any(row.user is not None for row in metric.rows)


def _table(by: str, metric: MetricSavings) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column(by, overflow="fold", min_width=_NAME_WIDTH)
    for head in (*(("ask for",) if _is_advised(metric) else ()), *_HEADS):
        table.add_column(head, justify="right", no_wrap=True)
    for row in metric.rows:
        of = "/".join(part for part in (row.cluster, row.name if by != "cluster" else "") if part)
        share = "-" if row.freed_share is None else percent(row.freed_share)
        amounts = [_hours(amount) for amount in (row.requested_hours, row.reserved_hours, row.used_hours)]
        cells = (
            *((_asked(metric, row.ask_for),) if _is_advised(metric) else ()),
            _hours(row.freed_hours),
            share,
            *amounts,
            f"{row.jobs:,}",
            f"{row.would_run_out:,}",
        )
        table.add_row(Text(of), *cells)
    return table


def _hours(hours: float) -> str:
    if 0 < abs(hours) < 9.995:
        return f"{float(f'{hours:.3g}'):g}" if abs(hours) >= 0.0001 else f"{hours:.0e}"
    return f"{hours:,.0f}" if abs(hours) >= 99.95 or not hours else f"{hours:,.1f}"


def _asked(metric: MetricSavings, value: float | None) -> str:
    if value is None:
        return "-"
    return memory_text(value) if metric.metric == "memory" else time_text(value)


def _write_csv(found: Savings) -> None:
    """A line for each row of each metric; what to ask for in bytes and seconds, as it is."""
    fields = [name for name in SavingsRow.__struct_fields__ if name not in ("cluster", "name")]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["metric", "unit", "by", "cluster", "name", *fields])
    for metric in found.metrics:
        unit = _TITLES[metric.metric].rpartition(" ")[2]
        for row in metric.rows:
            writer.writerow(
                [metric.metric, unit, found.by, row.cluster, row.name, *(_value(row, name) for name in fields)]
            )


def _value(row: SavingsRow, name: str) -> Any:
    value = getattr(row, name)
    return f"{value:.6g}" if name in _AMOUNTS else value


def _day(text: str) -> int:
    try:
        return utc_day(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
