"""The runs of an experiment, on all cores or a Dask cluster, resumed where they stopped; and their output."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_papers.dask import on_dask
from jobsight_papers.processes import in_processes, watched
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.help_text import read_by
from jobsight_server.ground.errors import UserError

Account = Mapping[str, Any]
RunKey = tuple[Any, ...]
Task = TypeVar("Task")


def add_run_arguments(parser: argparse.ArgumentParser, out: Path | None = None) -> None:
    """Add ``--workers``, ``--dask`` and ``--out``, whose default is ``out``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=read_by(_count), metavar="COUNT", help="processes (default: one per core)")
    where.add_argument("--dask", metavar="ADDRESS", help="run on this Dask cluster, e.g. tcp://host:8786")
    parser.add_argument(
        "--out",
        type=read_by(_new_file),
        default=out,
        metavar="FILE",
        help=f"file of finished runs, one per line; runs already in it are skipped (default: {out or 'none is kept'})",
    )


def add_outcome_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--plot``."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", type=read_by(_directory), metavar="DIR", help="draw plots to this directory")


def refuse_out_of_range(*given: tuple[str, Any, bool]) -> None:
    """Check option by option: its flag, its value, and whether that is good.

    Raises:
        UserError: the first that is not.
    """
    for flag, value, is_good in given:
        if not is_good:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            raise UserError(f"{flag} {shown}: out of range; see --help")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text}: give at least 1")
    return int(text)


def _new_file(text: str) -> Path:
    if not Path(text).parent.is_dir():
        raise ValueError(f"{text}: there is no directory {Path(text).parent}; create it first")
    return Path(text)


def _directory(text: str) -> Path:
    if Path(text).exists() and not Path(text).is_dir():
        raise ValueError(f"{text}: is a file; name a directory")
    return Path(text)


def run_all(
    name: str,
    run: Callable[[Task], dict[str, Any]],
    tasks: Sequence[Task],
    args: argparse.Namespace,
    key: Callable[[Task], RunKey] = lambda task: (repr(task),),
) -> dict[Task, dict[str, Any]]:
    """Return the figures of every task. ``key`` is the name of a run in the file of finished runs.

    Raises:
        KeyboardInterrupt: after a line that says how to resume.
        UserError: a worker was killed, or the Dask cluster does not answer.
    """
    kept = FinishedRuns(args.out) if args.out is not None else None
    found = {} if kept is None else {task: kept.figures[key(task)] for task in tasks if key(task) in kept.figures}
    todo = [task for task in tasks if task not in found]
    if args.dask is not None:
        runs = on_dask(run, todo, args.dask)
    else:
        workers = min(args.workers or os.cpu_count() or 1, len(todo))
        runs = in_processes(run, todo, workers) if workers > 1 else ((task, run(task)) for task in todo)
    try:
        for task, figures in watched(name, runs, len(tasks), len(found)):
            found[task] = figures
            if kept is not None:
                kept.add(key(task), figures)
    except KeyboardInterrupt:
        again = f"; the same command resumes from {args.out}" if kept is not None else ""
        print(f"interrupted with {len(found):,} of {len(tasks):,} runs finished{again}", file=sys.stderr)
        raise
    return found


class FinishedRuns:
    """Figures of runs by key, in ``file``, which only grows: one JSON object per line.

    ``broken`` counts invalid lines, as after a power cut.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.figures: dict[RunKey, dict[str, Any]] = {}
        self.broken = 0
        self._whole = True
        if file.exists():
            self._read()

    def add(self, key: RunKey, figures: Mapping[str, Any]) -> None:
        """Append the run to the file and to ``figures``."""
        self.figures[key] = dict(figures)
        line = json.dumps({"key": key, "figures": figures})
        with self.file.open("a") as stream:
            stream.write(f"{line}\n" if self._whole else f"\n{line}\n")
        self._whole = True

    def _read(self) -> None:
        try:
            text = self.file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--out {self.file}: cannot be read ({error}); name another file") from error
        self._whole = not text or text.endswith("\n")
        for line in text.splitlines():
            try:
                run = json.loads(line)
                self.figures[tuple(run["key"])] = dict(run["figures"])
            except (ValueError, KeyError, TypeError):
                self.broken += 1
        if self.broken and not self.figures:
            raise UserError(f"--out {self.file}: none of its {self.broken} lines is a run; name another file")
        if self.broken:
            print(f"{self.broken} broken lines of {self.file} ignored", file=sys.stderr)


def give_out(account: Account, args: argparse.Namespace, plots: str, show: Callable[[Account, Console], None]) -> None:
    """Draw with ``--plot``, by ``draw(account, directory)`` of the module ``plots``, loaded only then because that
    takes half a second. Then print JSON, or show tables.
    """
    if args.plot is not None:
        args.plot.mkdir(parents=True, exist_ok=True)
        importlib.import_module(plots).draw(account, args.plot)
        print(f"plots written to {args.plot}", file=sys.stderr)
    print_account(args, account, show)


WORDS = frozenset(
    ("cluster", "estimator", "fields", "forecaster", "over", "policy", "rank", "retry", "scenario", "strategy", "trace")
)
"""Columns of text; all others have figures."""


def table_of(title: str, *columns: str) -> Table:
    """Return a table with figures aligned on the right."""
    table = Table(title=Text(title, "bold"), box=SIMPLE, padding=(0, 1), title_justify="left")
    for column in columns:
        if column in WORDS:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


Cells = Mapping[str, Callable[[Mapping[str, Any]], str]]
"""Columns of a table, and the text of each in a row."""


def show_table(title: str, cells: Cells, rows: Iterable[Mapping[str, Any]], console: Console) -> None:
    """Print a table, if it has rows."""
    table = table_of(title, *cells)
    for row in rows:
        table.add_row(*(text(row) for text in cells.values()))
    if table.row_count:
        console.print(table)
