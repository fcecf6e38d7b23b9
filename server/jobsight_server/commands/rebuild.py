"""``jobsight rebuild``: retrains all forecasts from the stored profiles."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jobsight_server.command_line.arguments import LEARNING, add_settings, settings_of
from jobsight_server.commands.database import open_database
from jobsight_server.forecasts import forecast_config, rebuild
from jobsight_server.profiler.totals import count_marked
from jobsight_server.storage.event_counts import mark_all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database", *LEARNING)


def run(args: argparse.Namespace) -> int:
    engine = open_database(args)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("jobs learned", total=None)
        count = rebuild(
            engine,
            forecast_config(settings_of(args)),
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    with engine.begin() as connection:
        mark_all(connection)
    count_marked(engine)
    engine.dispose()
    print(f"{count} series retrained")
    return 0
