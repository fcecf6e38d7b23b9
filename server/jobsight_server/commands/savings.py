"""``jobsight savings``: the gain of reserving as recommended, straight from the database."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection

from jobsight_server.command_line.answers import print_json, reading
from jobsight_server.command_line.arguments import add_settings
from jobsight_server.command_line.help_text import read_by
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.ground.amounts import percent, plain, utc_span
from jobsight_server.ground.csv_text import write_csv
from jobsight_server.ground.errors import UserError
from jobsight_server.queries.users import user_clusters
from jobsight_server.savings.savings import BY, REASONS, Asking, LeftOut, SavingsRow
from jobsight_server.savings.sums.add import METRICS
from jobsight_server.savings.sums.read import Days
from jobsight_server.savings.waste import DAYS_SHOWN, WASTE, Waste, WasteList, WasteRow, newest_day, waste
from jobsight_server.storage.clusters import chosen, stored_clusters
from jobsight_server.web.kit.units import exceeded, hours, resource_value

_LISTED = 20
_NAME_AT_MOST = 20
"""Longest name that fits into a line; the amount to ask for takes two lines then."""
_TITLES = {"memory": "Memory, GiB-hours", "runtime": "Run time, processor-hours"}
_FREED = {"memory": "freed", "runtime": "shorter"}
_HEADS = ("share", "requested", "used", "jobs", "run\nout")
_NOTHING = "No job was counted on these days. Jobs are counted once they have been profiled."
_NOTE = (
    "Request: recommended for a whole job like the user's last of the application that could save most (--json names "
    "both), if it differs from the request; + is more. "
    "`jobsight seff` shows the same. --by application --user NAME shows each."
)
_NO_ADVICE = "For advice on what to request, use --by user or --user NAME."
_ADVICE = ("user", "application", "like_job", "asked_for", "recommended", "ask_for")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    parser.add_argument("--by", choices=BY, default=BY[0], help=f"print one row for each of these (default: {BY[0]})")
    parser.add_argument("--cluster", metavar="NAME", help="count only this cluster's jobs")
    parser.add_argument("--user", metavar="NAME", help="count only this user's jobs")
    since = f"first day on which jobs ended, such as 2026-11-01 (default: {DAYS_SHOWN} days)"
    parser.add_argument("--since", type=read_by(_day), metavar="DAY", help=since)
    until = "last day, included (default: the newest); a time stands for its day"
    parser.add_argument("--until", type=read_by(_day), metavar="DAY", help=until)
    parser.add_argument("--limit", type=int, default=_LISTED, metavar="COUNT", help=f"rows (default: {_LISTED})")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, in GiB-hours and processor-hours")
    form.add_argument("--csv", action="store_true", help="print CSV, in GiB-hours and processor-hours")


def run(args: argparse.Namespace) -> int:
    if args.limit < 1:
        raise UserError(f"--limit {args.limit} is not above 0")
    if args.since is not None and args.until is not None and args.since > args.until:
        raise UserError("--since must not be after --until")
    with reading(args) as (connection, reader):
        cluster = _cluster(connection, args.cluster, args.user)
        last = args.until if args.until is not None else newest_day(connection) or 0
        first = last - DAYS_SHOWN + 1 if args.since is None else args.since
        asking = Asking(connection, reader)
        of = {"cluster": cluster, "limit": args.limit, "by": args.by, "user": args.user}
        found = {metric: waste(connection, asking, WASTE.asked(metric, **of), Days(first, last)) for metric in METRICS}
    if args.json:
        print_json(found["memory"])
    elif args.csv:
        _write_csv(found)
        if found["memory"].first_day is None:
            print(f"jobsight savings: {_NOTHING}", file=sys.stderr)
    else:
        show(found, Terminal())
    return 0


def _cluster(connection: Connection, cluster: str | None, user: str | None) -> str | None:
    if user is None:
        return None if cluster is None else chosen(cluster, stored_clusters(connection), "known")
    if not (clusters := user_clusters(connection, user)):
        raise UserError(f"--user {user!r}: no job of this user is known; `jobsight savings` lists users")
    return chosen(cluster, clusters, f"clusters with user {user!r}")


def show(found: Mapping[str, WasteList], console: Console) -> None:
    """Show a sentence for each metric, and a table with the greatest saving first."""
    days = found["memory"]
    if days.first_day is None:
        console.print(_NOTHING)
        return
    console.print(f"Jobs that ended from {days.first_day} to {days.last_day} (UTC)", highlight=False)
    for metric, of in found.items():
        # As Text, because a user's name may look like one of rich's markup tags.
        console.print(Text(f"\n{_TITLES[metric]}", style="bold"))
        console.print(Text(effect(metric, getattr(of, metric))))
        if rows := _rows(metric, of):
            console.print(_table(metric, of, rows))
        for line in _raises(metric, rows):
            console.print(Text(line))
        if more := of.total - len(of.rows):
            console.print(f"{more:,} more; --limit {of.total} prints all", highlight=False)
        if left := left_out(of.left_out[metric]):
            console.print(Text(left))
    console.print(f"\n{_NOTE if _is_advised(days) else _NO_ADVICE}", highlight=False)


def _rows(metric: str, found: WasteList) -> list[tuple[WasteRow, Waste, SavingsRow | None]]:
    """Return the rows with a job that counts in this metric, their figures and their advice."""
    rows = [(row, getattr(row, metric), getattr(row, f"{metric}_advice")) for row in found.rows]
    return [each for each in rows if each[1].jobs]


def _is_advised(found: WasteList) -> bool:
    return found.by == "user" or found.user is not None


def effect(metric: str, total: Waste) -> str:
    """Return what recommended requests would have freed, and how many jobs would have needed more."""
    if not total.jobs or total.freed_hours is None or total.freed_share is None:
        return "No job has a request, a measured value and a recommendation at its submission."
    amount = f"{hours(abs(total.freed_hours))} ({percent(abs(total.freed_share))})"
    if metric == "runtime":  # a job returns its processors at its end, whatever its limit
        own = f"{total.needed_more:,} exceeded their request"  # only jobs that were killed count
        found = f"Limits as recommended would have been {amount} {'shorter' if total.freed_hours >= 0 else 'longer'}"
    else:
        own = exceeded(total.needed_more, total.ran_out)
        found = (
            f"Reserving as recommended would have {'freed' if total.freed_hours >= 0 else 'reserved another'} {amount}"
        )
    return (
        f"{found}, repeats included. {total.would_run_out:,} of {total.jobs:,} jobs "
        f"({percent((total.would_run_out or 0) / total.jobs, 1)}) needed more than that; {own}."
    )


def left_out(of: LeftOut) -> str:
    """Return how many jobs count nowhere, and why; empty without any."""
    found = [f"{jobs:,} {REASONS[reason]}" for reason in REASONS if (jobs := getattr(of, reason))]
    return f"Jobs left out: {', '.join(found)}." if found else ""


def _table(metric: str, found: WasteList, rows: Sequence[tuple[WasteRow, Waste, SavingsRow | None]]) -> Table:
    is_advised = _is_advised(found)
    clusters = {row.cluster for row, _, _ in rows}
    is_of_one = len(clusters) == 1 and found.by != "cluster"
    head = f"{found.by} of {clusters.pop()}" if is_of_one else found.by
    table = table_of([head], (*(("request",) if is_advised else ()), _FREED[metric], *_HEADS))
    for row, of, advice in rows:
        parts = ("" if is_of_one else row.cluster, "" if found.by == "cluster" else row.name)
        cells = (
            *((_asked(metric, advice),) if is_advised else ()),
            _short(of.freed_hours or 0.0),
            "-" if of.freed_share is None else percent(of.freed_share),
            *map(_short, (of.requested_hours, of.used_hours, of.jobs, of.would_run_out or 0)),
        )
        table.add_row(Text("/".join(filter(None, parts))), *cells)
    for place, column in enumerate(table.columns):
        longest = max(len(str(cell)) for cell in column.cells)
        column.no_wrap = place > is_advised or (place == 0 and longest <= _NAME_AT_MOST)
    return table


def _short(number: float) -> str:
    """Write three digits, and below 10,000 all whole ones."""
    for prefix, unit, least in (("M", 1e6, 999_500), ("k", 1e3, 9_995)):
        if abs(number) >= least:
            return f"{plain(number / unit)}{prefix}"
    return f"{number:,.0f}" if abs(number) >= 999.5 else plain(number)


def _asked(metric: str, advice: SavingsRow | None) -> str:
    """Return the lower request, or the higher one (+) that the user's jobs need."""
    if advice is None or (advice.ask_for is None and advice.more is None):
        return "-"
    more = advice.more if advice.more and (advice.ask_for is None or advice.ask_for == advice.more.ask_for) else None
    return resource_value(advice.ask_for, metric) if more is None else f"{resource_value(more.ask_for, metric)} +"


def _raises(metric: str, rows: Sequence[tuple[WasteRow, Waste, SavingsRow | None]]) -> list[str]:
    """Return the number of rows with an application that needs more than it requests, and a line for each."""
    found = [
        f"  {row.cluster}/{advice.user} {more.application}: {resource_value(more.ask_for, metric)} instead of "
        f"{resource_value(more.asked_for, metric)}; "
        + (f"{more.needed_more:,} of {more.jobs:,} needed more" if more.needed_more else "similar jobs used more")
        for row, _, advice in rows
        if advice is not None and (more := advice.more) is not None
    ]
    return [f"Too small: {len(found):,} of these requests (+).", *found] if found else []


def _write_csv(found: Mapping[str, WasteList]) -> None:
    """Write a line for each row of each metric; recommendations in bytes and seconds."""
    rows = []
    for metric, of in found.items():
        unit = _TITLES[metric].rpartition(" ")[2]
        for row, figures, advice in _rows(metric, of):
            values = [*msgspec.structs.astuple(figures), *(getattr(advice, name, None) for name in _ADVICE)]
            rows.append([metric, unit, of.by, row.cluster, row.name, *values])
    columns = ["metric", "unit", "by", "cluster", "name", *Waste.__struct_fields__, *_ADVICE]
    write_csv(sys.stdout, columns, rows)


def _day(text: str) -> int:
    return int(utc_span(text)[0] // 86400)
