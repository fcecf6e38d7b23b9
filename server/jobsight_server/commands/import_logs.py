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

from jobsight_server.accounting.importer import ImportReport, import_files
from jobsight_server.commands.arguments import add_settings, open_database, settings_of
from jobsight_server.errors import UserError
from jobsight_server.forecasts import Method, method_of
from jobsight_server.profiler.run import profile_finished
from jobsight_server.settings import ACCOUNTING_FORMATS

# Of a long log it is quicker to learn many jobs together; other writers wait for a second or so.
_RUNS_AT_ONCE = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("format", choices=ACCOUNTING_FORMATS, help="the scheduler that wrote the files")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="accounting files, plain or gzip")
    parser.add_argument("--cluster", default="default", help="the cluster that they are of (default: default)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_settings(parser, "database", "templates", "coverage", "bound_objective", "walltime_limit")


def run(args: argparse.Namespace) -> int:
    absent = [str(file) for file in args.files if not file.exists()]
    if absent:
        raise UserError(f"no such file: {', '.join(absent)}")
    engine = open_database(args)
    try:
        report = _import(engine, args)
        profiled = _profile(engine, method_of(settings_of(args)))
    finally:
        engine.dispose()
    shown = as_json(report, args.files, args.cluster, profiled)
    if args.json:
        print(json.dumps(shown))
    else:
        _print(shown)
    if not report.figures.records:
        print(f"jobsight import: no {args.format} record in {', '.join(shown['files'])}", file=sys.stderr)
        return 1
    return 1 if report.taken_in.unreadable else 0


def as_json(report: ImportReport, files: Sequence[Path], cluster: str, profiled: int) -> dict[str, Any]:
    """The report as it is printed. ``runs``, ``job_ids`` and ``users`` are those of E records in the files."""
    figures = report.figures
    counts = [len(starts) for starts in figures.starts.values()]
    return {
        "files": [str(file) for file in files],
        "cluster": cluster,
        "lines": figures.lines,
        "records": dict(sorted(figures.records.items())),
        "runs": sum(counts),
        "job_ids": len(counts),
        "ran_more_than_once": sum(count > 1 for count in counts),
        "users": len(figures.users),
        "rejected": dict(figures.rejected.most_common()),
        "lost_without_reason": figures.lost_without_reason,
        "unreadable": report.taken_in.unreadable,
        "new_lines": report.taken_in.lines,
        "new_runs": report.new_runs,
        "outcomes": {f"{kind} {outcome}": n for (kind, outcome), n in sorted(report.taken_in.outcomes.items())},
        "profiled": profiled,
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


def _profile(engine: Engine, method: Method) -> int:
    """Profiles everything that has ended: a log that is imported is old, and no more samples will come."""
    profiled = 0
    with Console(stderr=True).status("profiling"):
        while done := profile_finished(engine, 0.0, time.time, _RUNS_AT_ONCE, method=method):
            profiled += done
    return profiled


def _print(shown: dict[str, Any]) -> None:
    records = ", ".join(f"{n} {kind}" for kind, n in shown["records"].items())
    print(f"{shown['lines']} lines of {len(shown['files'])} files: {records or 'no records'}")
    print(f"{shown['runs']} runs of {shown['job_ids']} job ids, {shown['users']} users; ", end="")
    print(f"{shown['ran_more_than_once']} jobs ran more than once")
    print(f"{shown['new_runs']} runs are new, {shown['profiled']} were profiled")
    for reason, count in shown["rejected"].items():
        print(f"{count:>10}  rejected: {reason}")
    if shown["lost_without_reason"]:
        print(f"{shown['lost_without_reason']:>10}  LOST WITHOUT A REASON")
    for path, cause in shown["unreadable"].items():
        print(f"unreadable: {path}: {cause}")
