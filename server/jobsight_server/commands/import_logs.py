"""Accounting files read once, and the jobs in them profiled; such files listed and withdrawn."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from sqlalchemy import Engine

from jobsight_server.accounting.files import Content, UnreadableError
from jobsight_server.accounting.formats import open_reader
from jobsight_server.accounting.guess import WrongFormatError, check_format, guess_format
from jobsight_server.accounting.load import UNSTORABLE
from jobsight_server.accounting.origin import NOTHING, Given
from jobsight_server.accounting.read_logs import ImportReport, import_files
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.command_line.arguments import settings_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.commands.database import filled_database
from jobsight_server.commands.imported import forget_files, show_files
from jobsight_server.forecasts import ForecastConfig, forecast_config
from jobsight_server.forecasts.learners import usable_cores
from jobsight_server.forecasts.rounds import rebuild_if_outdated
from jobsight_server.ground.amounts import many
from jobsight_server.ground.errors import UserError
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.profiler.ready import Own, count_waiting, sent_since
from jobsight_server.profiler.site_monitoring import SiteMonitoring
from jobsight_server.settings.declared import ACCOUNTING_FORMATS, LONGEST_NAME, AccountingFormat, Settings
from jobsight_server.storage.clusters import listed, stored_clusters
from jobsight_server.storage.statistics import refresh_if_grown

# Learning many jobs together is faster for a long log; other writers wait for a second or so.
_RUNS_AT_ONCE = 1000
# Runs from which on further processes are worth the seconds that they take to start.
_BACKLOG = 5000
# Nodes that sent samples within a day may still send some for an imported run.
_LIVE_WITHIN_S = 86_400.0


_KINDS = {
    "Q": "queued",
    "S": "started",
    "E": "ended",
    "R": "requeued",
    "D": "deleted",
    "A": "aborted",
    "N": "did not start",
    "T": "parallel tasks",
}


def run_import(args: argparse.Namespace) -> int:
    """Import, list or withdraw files, and print the report; return the exit status."""
    if args.list:
        if args.files:
            raise UserError("--list takes no files: it lists all that were read")
        return show_files(args)
    if not args.files:
        raise UserError("name the accounting files, or give --list")
    split_format(args)
    if args.forget:
        return forget_files(args)
    named = args.cluster
    formats = {str(file): format_of(file, args.format) for file in args.files}
    for name in (args.user, args.application):
        if name is not None and not (name.isprintable() and 0 < len(name) <= LONGEST_NAME):
            raise UserError(f"{name[:60]!r}: a name has 1 to {LONGEST_NAME} printable characters")
    settings = settings_of(args)
    with filled_database(args) as engine:
        with engine.connect().execution_options(reading=True) as connection:
            args.cluster = _cluster(args.cluster, stored_clusters(connection) | settings.declared_clusters)
        given = Given(args.user, args.application)
        report = import_shown(engine, args.files, args.cluster, args.format, given)
        own = Own(args.cluster, report.figures.runs)
        profiled = learn_shown(engine, forecast_config(settings), settings, own, len(report.figures.ended))
        waiting = count_waiting(engine, own)
        refresh_if_grown(engine)
    shown = as_json(report, formats, args.cluster, profiled, waiting)
    if args.json:
        print(json.dumps(shown))
    else:
        for name, found in formats.items():
            form = _form_of(Path(name), found)
            if form or args.format is None:
                print(f"{name}: {found or 'unreadable'}{form}{' (guessed)' if args.format is None else ''}")
        print(f"into cluster {args.cluster}{', the only one known' if named is None else ''}")
        _print(shown, "line" if report.figures.by_lines else "record")
    if not report.figures.records:
        print(f"jobsight import: no record of a job in {', '.join(shown['files'])}", file=sys.stderr)
        return 1
    return 1 if report.taken_in.unreadable else 0


def split_format(args: argparse.Namespace) -> None:
    """Split off the first argument if it names a format and a file follows."""
    named = [name for name in ACCOUNTING_FORMATS if str(args.files[0]) == name and len(args.files) > 1]
    args.format = named[0] if named else None
    args.files = args.files[len(named) :]
    absent = [str(file) for file in args.files if not file.exists()]
    if absent and getattr(args, "forget", False):
        raise UserError(
            f"no such file: {', '.join(absent)}; it shows which runs to withdraw: restore it, under any name"
        )
    if absent:
        raise UserError(f"no such file: {', '.join(absent)}; formats are {', '.join(ACCOUNTING_FORMATS)}")


def format_of(file: Path, named: AccountingFormat | None) -> AccountingFormat | None:
    """Return the format of a file, guessed if it is not named; None if it cannot be read, which the import reports."""
    try:
        with Content(file) as content:
            if named is None:
                return guess_format(content)
            check_format(content, named, whole=True)
    except (WrongFormatError, AccountingError) as error:
        raise UserError(f"{file}: {error}") from error
    except UnreadableError:
        return named
    return named


def _form_of(file: Path, log_format: AccountingFormat | None) -> str:
    """Return the variant of its format that a file has, to show after the format's name; empty without variants."""
    try:
        with Content(file) as content:
            form = "" if log_format is None else open_reader(log_format, content).form
    except (UnreadableError, AccountingError):
        return ""  # the import reports it
    return f", {form}" if form else ""


def _cluster(given: str | None, known: set[str]) -> str:
    """Return the cluster to import into: a site's first may have any name, later ones must be declared."""
    if given is None:
        if len(known) == 1:
            return next(iter(known))
        raise UserError(f"give --cluster NAME, the cluster of the files; known: {listed(known)}")
    if not given.isprintable() or not 0 < len(given) <= LONGEST_NAME:
        raise UserError(f"--cluster {given[:60]!r}: a cluster's name has 1 to {LONGEST_NAME} printable characters")
    if known and given not in known:
        raise UserError(
            f"--cluster {given!r} is not declared; known: {listed(known)}. Declare a new one with --clusters {given} "
            "or in the setting clusters"
        )
    return given


def as_json(
    report: ImportReport, formats: Mapping[str, str | None], cluster: str, profiled: int, waiting: int
) -> dict[str, Any]:
    """Return the report to print. ``runs``, ``job_ids`` and ``users`` are those of E records.

    ``ran_more_than_once`` counts jobs by S records too: a requeued run has no E record.
    ``waiting`` counts runs of the files that the server will profile once their samples have had time to arrive.
    """
    figures = report.figures
    rejected = figures.rejected + Counter({UNSTORABLE: report.taken_in.rejected[UNSTORABLE]})
    repeated = figures.runs.of_repeated_jobs
    return {
        "files": list(formats),
        "formats": dict(formats),
        "cluster": cluster,
        "lines": figures.lines,
        "records": dict(sorted(figures.records.items())),
        "runs": len(figures.ended),
        "job_ids": figures.ended.job_ids,
        "ran_more_than_once": len(repeated),
        "runs_of_these": sum(repeated),
        "users": len(figures.users),
        "rejected": dict(rejected.most_common()),
        "lost_without_reason": figures.lost_without_reason,
        "unreadable": report.taken_in.unreadable,
        "new_lines": report.taken_in.lines,
        "new_runs": report.new_runs,
        "outcomes": {f"{kind} {outcome}": n for (kind, outcome), n in sorted(report.taken_in.outcomes.items())},
        "profiled": profiled,
        "waiting": waiting,
    }


def import_shown(
    engine: Engine,
    files: Sequence[Path],
    cluster: str,
    log_format: AccountingFormat | None,
    given: Given = NOTHING,
) -> ImportReport:
    """Import the files, with a bar for each."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Terminal(stderr=True)) as progress:
        tasks: dict[Path, TaskID] = {
            file.absolute(): progress.add_task(file.name, total=file.stat().st_size) for file in files
        }
        report = import_files(
            engine,
            files,
            cluster,
            time.time,
            log_format,
            lambda path, done: progress.update(tasks[path], completed=done),
            given,
        )
        for task in progress.tasks:
            progress.update(task.id, completed=task.total)
        return report


def learn_shown(engine: Engine, config: ForecastConfig, settings: Settings, own: Own, runs: int) -> int:
    """Profile only the imported runs, with a bar: others of a running site may still wait for samples.

    Imported runs may wait too, if nodes of their cluster send samples; the server profiles them later. ``runs``: how
    many have ended, for the bar.
    """
    now = time.time()
    grace_s = settings.profile_grace_s if sent_since(engine, own.cluster, now - _LIVE_WITHIN_S) else 0.0
    monitoring = SiteMonitoring(settings.measurements, time.time)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task("learning runs", total=runs)
        if not progress.console.is_terminal and runs >= _BACKLOG:  # which shows no bar
            print(f"learning {many(runs, 'run')}", file=sys.stderr, flush=True)
        options = LearningOptions(
            config,
            monitoring,
            own,
            _RUNS_AT_ONCE,
            progress=lambda done: progress.advance(task, done),
            processes=usable_cores() if runs >= _BACKLOG else 1,
        )
        rebuild_if_outdated(engine, config)
        return profile_finished(engine, grace_s, lambda: now, options)


def _print(shown: dict[str, Any], unit: str) -> None:
    records = ", ".join(_of_kind(n, kind) for kind, n in shown["records"].items())
    if shown["lines"]:
        lines = many(shown["lines"], unit)
        print(f"{lines} of {many(len(shown['files']), 'file')}: {records or 'none of a job'}")
    if shown["runs"]:
        of_users = f"of {many(shown['job_ids'], 'job')} and {many(shown['users'], 'user')}"
        print(f"{many(shown['runs'], 'run')} {of_users} ended")
    if repeated := shown["ran_more_than_once"]:
        print(f"{many(repeated, 'job')} ran more than once, in {many(shown['runs_of_these'], 'run')}")
    if shown["records"]:
        print(f"{many(shown['new_runs'], 'new run')}, {shown['profiled']} profiled")
    if waiting := shown["waiting"]:
        print(f"{many(waiting, 'run')} to be profiled by `jobsight serve`, after the last samples of the nodes")
    for reason, count in shown["rejected"].items():
        print(f"{count:>10}  rejected: {reason}")
    if shown["lost_without_reason"]:
        print(f"{shown['lost_without_reason']:>10}  LOST WITHOUT A REASON")
    for path, cause in shown["unreadable"].items():
        hint = "; it is a directory: name the files in it" if Path(path).is_dir() else ""
        print(f"unreadable: {path}: {cause}{hint}")


def _of_kind(count: int, kind: str) -> str:
    """Return the number of records of a kind, in words, with the kind's letter if it has one."""
    if kind in _KINDS:
        return f"{count} {_KINDS[kind]} ({kind})"
    return f"{count} of kind {kind}" if len(kind) == 1 else many(count, kind)
