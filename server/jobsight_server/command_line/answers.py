"""Shared by commands: the database with its answers, and JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from sqlalchemy import Connection, Engine

from jobsight_server.command_line.arguments import settings_of
from jobsight_server.command_line.databases import open_existing
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.storage.engine import Access

Account = TypeVar("Account")


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
    with existing(args, "read") as engine, engine.connect() as connection:
        yield connection, AnswerReader(config)


def print_json(answer: Any) -> None:
    """Print typed records, numbers of numpy among them, as the API sends them, indented."""
    print(msgspec.json.format(msgspec.json.encode(answer, enc_hook=float), indent=2).decode())


def print_account(args: argparse.Namespace, account: Account, show: Callable[[Account, Console], None]) -> None:
    """Print the account as JSON with ``--json``, else as a page of text."""
    if args.json:
        print_json(account)
    else:
        show(account, Terminal())
