"""What commands that read have in common: the database with its answers, and JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlalchemy import Connection

from jobsight_server.command_line.arguments import open_existing, settings_of
from jobsight_server.forecasts import AnswerReader, forecast_config


@contextmanager
def reading(args: argparse.Namespace) -> Iterator[tuple[Connection, AnswerReader]]:
    """Open the database of ``args``, and yield a connection that reads, and the answers under its settings."""
    engine = open_existing(args, "read")
    reader = AnswerReader(engine, forecast_config(settings_of(args)))
    try:
        with engine.connect() as connection:
            yield connection, reader
    finally:
        reader.close()
        engine.dispose()


def print_json(answer: Any) -> None:
    """Print typed records as the API sends them, indented."""
    print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
