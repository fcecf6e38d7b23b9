"""``jobsight ranks``: machines by their rank for a job."""

from __future__ import annotations

import argparse
import time

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection

from jobsight_server.command_line.answers import existing, print_json
from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.ground.amounts import span_s
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import listed, stored_clusters
from jobsight_server.systems.listed import all_sections
from jobsight_server.systems.ranking.board import MachineBoard, MachineColumns, RankQuestion
from jobsight_server.systems.ranking.queries import MachineRanking, machine_ranking, predicted_run_time
from jobsight_server.systems.ranking.settings import RankingSettings

_LISTED = 20
_ALL = 10**9
_LONGEST_S = 1e11


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database", sections=(RankingSettings,))
    job = parser.add_mutually_exclusive_group()
    job.add_argument("--for", dest="run_time", type=_run_time, metavar="TIME", help="run time of the job (default: 1h)")
    job.add_argument("--user", metavar="NAME", help="use the predicted run time of this user's next job")
    parser.add_argument("--application", metavar="NAME", help="application of the user's job")
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster's machines")
    parser.add_argument("--name", metavar="NAME", help="only the machine of this name")
    parser.add_argument("--free", action="store_true", help="leave out machines that are busy or absent")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--limit", type=int, metavar="COUNT", help=f"machines printed (default: {_LISTED}; all as JSON)"
    )


def run(args: argparse.Namespace) -> int:
    if args.limit is not None and args.limit < 1:
        raise UserError(f"--limit {args.limit} is not above 0")
    settings = settings_of(args, all_sections())
    with existing(args, "read") as engine, engine.connect() as connection:
        columns = MachineBoard().columns(connection)
        _check_names(connection, columns, args)
        run_time_s = 3600.0 if args.run_time is None else args.run_time
        if args.user is not None:
            reader = AnswerReader(forecast_config(settings))
            run_time_s = predicted_run_time(connection, reader, args.user, args.application, args.cluster)
        question = RankQuestion(
            run_time_s, settings.section(RankingSettings).method, args.cluster, everywhere=not args.free
        )
        limit = args.limit or (_ALL if args.json else _LISTED)
        now = time.time()
        found = machine_ranking(connection, columns, question, now, name=args.name, limit=limit)
    if args.json:
        print_json(found)
    else:
        _show(found, Terminal())
    return 0


def _check_names(connection: Connection, columns: MachineColumns, args: argparse.Namespace) -> None:
    """Require a known cluster and machine."""
    known = {of for of, _ in columns.names} | stored_clusters(connection)
    if args.cluster not in (None, *known):
        raise UserError(f"unknown cluster {args.cluster!r}; known: {listed(known)}")
    if args.name is not None and not any(
        name == args.name and args.cluster in (None, cluster) for cluster, name in columns.names
    ):
        raise UserError(f"unknown machine {args.name!r}; `jobsight ranks --limit {len(columns)}` lists all")


def _run_time(text: str) -> float:
    try:
        found = span_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 0 < found <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most {_LONGEST_S:g} s")
    return found


def _show(found: MachineRanking, console: Console) -> None:
    """Print a row for each machine, best first; JSON has all that is known of each."""
    if not found.machines:
        console.print("No machine has a rank. Run agents, or follow an accounting log.")
        return
    console.print(f"For a job of {found.run_time_s / 3600.0:,.2f} h, by {found.method}", highlight=False)
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("machine", overflow="fold")
    for head in ("state", "score", "range", "failed", "evicted"):
        table.add_column(head, justify="left" if head == "state" else "right", no_wrap=True)
    for row in found.machines:
        known = f"{row.low:.2f}-{row.high:.2f}" if row.known else "no history"
        score = "-" if row.score is None else f"{row.score:.3f}"
        figures = (row.state, score, known, f"{row.failures:,}", f"{row.evictions:,}")
        table.add_row(Text(f"{row.cluster}/{row.name}"), *figures)
    console.print(table)
    if more := found.ranked - len(found.machines):
        console.print(f"{more:,} more; --limit {found.ranked} prints all", highlight=False)
