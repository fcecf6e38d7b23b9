"""Copies an SQLite database while a server writes to it."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable
from pathlib import Path

from rich.progress import Progress
from sqlalchemy import Engine

from jobsight_server.command_line.arguments import add_settings
from jobsight_server.command_line.databases import open_existing
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.engine import database_file
from jobsight_server.storage.named_files import whole_file

_PAGES_AT_ONCE = 1000

Watch = Callable[[int, int], None]
"""Called with the pages left and the pages in all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("copy", type=Path, metavar="FILE", help="file of the copy; replaces an older one when complete")
    add_settings(parser, "database")


def run(args: argparse.Namespace) -> int:
    engine = open_existing(args, "read", acts_elsewhere=True)
    with Progress(console=Terminal(stderr=True), transient=True) as progress:
        bar = progress.add_task("copying", total=None)
        back_up(engine, args.copy, lambda left, pages: progress.update(bar, total=pages, completed=pages - left))
    print(f"{args.copy}: {args.copy.stat().st_size:,} bytes")
    return 0


def back_up(engine: Engine, copy: Path, watch: Watch | None = None, pages_at_once: int = _PAGES_AT_ONCE) -> None:
    """Write the database, as it is now, to the file ``copy``, readable by its owner only.

    Raises:
        UserError: not an SQLite database, or ``copy`` cannot be written; an older copy remains.
    """
    file = database_file(engine)
    if file is None:
        raise UserError("this is PostgreSQL: use its own pg_dump, or pg_basebackup with an archive of its log")
    if copy.exists() and copy.samefile(file):
        raise UserError(f"{copy} is the database itself; give the name of a new file")
    try:
        with whole_file(copy, 0o600) as unfinished:
            _copy(engine, unfinished, watch, pages_at_once)
    except sqlite3.Error as error:
        raise UserError(f"{copy}: {error}; an older copy of this name, if there was one, is unchanged") from error


def _copy(engine: Engine, copy: Path, watch: Watch | None, pages_at_once: int) -> None:
    target = sqlite3.connect(copy)
    checked_out = engine.raw_connection()
    try:
        source = checked_out.driver_connection
        assert isinstance(source, sqlite3.Connection)
        # Without a transaction, SQLite begins again after each write of another process, and a server writes every few
        # milliseconds: the copy would never end.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        target.execute("PRAGMA synchronous=OFF")  # safe: the copy counts only when complete and synced
        source.backup(target, pages=pages_at_once, progress=watch and (lambda _, left, pages: watch(left, pages)))
        source.execute("COMMIT")
    finally:
        target.close()
        checked_out.close()
