"""``jobsight import``: reads accounting files once and profiles the jobs in them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from sqlalchemy import Engine

from jobsight_server.accounting.read_logs import ImportReport, import_files
from jobsight_server.command_line.arguments import LEARNING, add_settings, open_database, settings_of
from jobsight_server.errors import UserError
from jobsight_server.forecasts import forecast_config
from jobsight_server.profiler.ready import Own, count_waiting, sent_since
from jobsight_server.profiler.run import profile_finished
from jobsight_server.settings import ACCOUNTING_FORMATS, LONGEST_NAME, Settings
from jobsight_server.storage.clusters import listed, stored_clusters

# For a long log it is faster to learn many jobs together; other writers wait for a second or so.
_RUNS_AT_ONCE = 1000
# A cluster whose nodes sent samples within a day may yet send more for an imported run.
_LIVE_WITHIN_S = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("format", choices=ACCOUNTING_FORMATS, help="scheduler that wrote the files")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="accounting files, plain or gzip")
    parser.add_argument(
        "--cluster", metavar="NAME", help="cluster that the files are from (default: the only one known)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings(parser, "database", "clusters", *LEARNING, "profile_grace_s")


def run(args: argparse.Namespace) -> int:
    absent = [str(file) for file in args.files if not file.exists()]
    if absent:
        raise UserError(f"no such file: {', '.join(absent)}")
    engine = open_database(args)
    try:
        with engine.connect().execution_options(reading=True) as connection:
            args.cluster = _cluster(args.cluster, stored_clusters(connection) | settings_of(args).declared_clusters)
        report = _import(engine, args)
        own = Own(args.cluster, report.figures.starts)
        profiled = _profile(engine, settings_of(args), own)
        waiting = count_waiting(engine, own)
    finally:
        engine.dispose()
    shown = as_json(report, args.files, args.cluster, profiled, waiting)
    if args.json:
        print(json.dumps(shown))
    else:
        _print(shown)
    if not report.figures.records:
        print(f"jobsight import: no {args.format} record in {', '.join(shown['files'])}", file=sys.stderr)
        return 1
    return 1 if report.taken_in.unreadable else 0


def _cluster(given: str | None, known: set[str]) -> str:
    """The cluster to import: a site's first name is accepted as it is, later ones must be declared."""
    if given is None:
        if len(known) == 1:
            return next(iter(known))
        raise UserError(f"give --cluster NAME, the cluster that the files are from; known: {listed(known)}")
    if not given.isprintable() or not 0 < len(given) <= LONGEST_NAME:
        raise UserError(f"--cluster {given[:60]!r}: a cluster's name has 1 to {LONGEST_NAME} printable characters")
    if known and given not in known:
        raise UserError(
            f"--cluster {given!r} is not declared; known: {listed(known)}. Declare a new one with --clusters {given} "
            "or in the setting clusters"
        )
    return given


def as_json(report: ImportReport, files: Sequence[Path], cluster: str, profiled: int, waiting: int) -> dict[str, Any]:
    """The report as it is printed. ``runs``, ``job_ids`` and ``users`` are those of E records in the files.

    ``ran_more_than_once`` counts jobs by S records too: a requeued run has no E record.
    ``waiting`` counts runs of the files that the server will profile once their samples have had time to arrive.
    """
    figures = report.figures
    repeated = figures.ran_more_than_once
    return {
        "files": [str(file) for file in files],
        "cluster": cluster,
        "lines": figures.lines,
        "records": dict(sorted(figures.records.items())),
        "runs": sum(len(starts) for starts in figures.ended.values()),
        "job_ids": len(figures.ended),
        "ran_more_than_once": len(repeated),
        "runs_of_these": sum(repeated),
        "users": len(figures.users),
        "rejected": dict(figures.rejected.most_common()),
        "lost_without_reason": figures.lost_without_reason,
        "unreadable": report.taken_in.unreadable,
        "new_lines": report.taken_in.lines,
        "new_runs": report.new_runs,
        "outcomes": {f"{kind} {outcome}": n for (kind, outcome), n in sorted(report.taken_in.outcomes.items())},
        "profiled": profiled,
        "waiting": waiting,
    }


def _import(engine: Engine, args: argparse.Namespace) -> ImportReport:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks: dict[Path, TaskID] = {
            file.absolute(): progress.add_task(file.name, total=file.stat().st_size) for file in args.files
        }
        report = import_files(
            engine,
            args.files,
            args.cluster,
            time.time,
            args.format,
            lambda path, done: progress.update(tasks[path], completed=done),
        )
        for task in progress.tasks:
            progress.update(task.id, completed=task.total)
        return report


def _profile(engine: Engine, settings: Settings, own: Own) -> int:
    """Profiles only the imported runs: others of a running site may still wait for samples.

    So may the imported ones, if nodes of their cluster send any; the server profiles them later.
    """
    profiled, now = 0, time.time()
    grace_s = settings.profile_grace_s if sent_since(engine, own.cluster, now - _LIVE_WITHIN_S) else 0.0
    with Console(stderr=True).status("profiling"):
        while done := profile_finished(
            engine, grace_s, lambda: now, _RUNS_AT_ONCE, config=forecast_config(settings), own=own
        ):
            profiled += done
    return profiled


def _print(shown: dict[str, Any]) -> None:
    records = ", ".join(f"{n} {kind}" for kind, n in shown["records"].items())
    files = "1 file" if len(shown["files"]) == 1 else f"{len(shown['files'])} files"
    print(f"{shown['lines']} lines of {files}: {records or 'no records'}")
    print(f"{shown['runs']} runs of {shown['job_ids']} job ids ended, {shown['users']} users")
    print(f"{shown['runs_of_these']} runs are of the {shown['ran_more_than_once']} jobs that ran more than once")
    print(f"{shown['new_runs']} runs are new, {shown['profiled']} were profiled")
    if shown["waiting"]:
        print(f"{shown['waiting']} runs wait for their nodes' last samples: `jobsight serve` profiles them later")
    for reason, count in shown["rejected"].items():
        print(f"{count:>10}  rejected: {reason}")
    if shown["lost_without_reason"]:
        print(f"{shown['lost_without_reason']:>10}  LOST WITHOUT A REASON")
    for path, cause in shown["unreadable"].items():
        print(f"unreadable: {path}: {cause}")
