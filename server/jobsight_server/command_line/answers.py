"""Shared by commands: the database with its answers, JSON, and atomic writing of files."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from sqlalchemy import Connection, Engine

from jobsight_server.command_line.arguments import open_existing, settings_of
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.storage.engine import Access
from jobsight_server.storage.errors import UserError

Account = Mapping[str, Any]


@contextmanager
def existing(args: argparse.Namespace, access: Access = "write", *, acts_elsewhere: bool = False) -> Iterator[Engine]:
    """Open the database of ``args`` with ``open_existing``, for as long as the block runs."""
    engine = open_existing(args, access, acts_elsewhere=acts_elsewhere)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def reading(args: argparse.Namespace) -> Iterator[tuple[Connection, AnswerReader]]:
    """Open the database of ``args``, and yield a connection that reads, and the answers under its settings."""
    config = forecast_config(settings_of(args))
    with existing(args, "read") as engine, closing(AnswerReader(engine, config)) as reader, engine.connect() as found:
        yield found, reader


def print_json(answer: Any) -> None:
    """Print typed records as the API sends them, indented."""
    print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def print_account(args: argparse.Namespace, account: Account, show: Callable[[Account, Console], None]) -> None:
    """Print the account as JSON with ``--json``, else as a page of text."""
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show(account, Console())


@contextmanager
def whole_file(file: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside ``file``, which replaces ``file`` if the block ends without an error.

    Raises:
        UserError: it cannot be written; an older file of this name remains.
    """
    # Readers of directories skip names that begin with a dot.
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        unfinished.touch(mode)
        yield unfinished
        _to_disk(unfinished)
        unfinished.replace(file)
        _to_disk(file.parent)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}; an older file of this name is unchanged") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _to_disk(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
