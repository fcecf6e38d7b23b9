"""``jobsight rebuild``: learns all forecasts anew from the stored profiles."""

from __future__ import annotations

import argparse

from jobsight_server.commands.arguments import add_settings, open_database
from jobsight_server.forecasts import rebuild


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")


def run(args: argparse.Namespace) -> int:
    engine = open_database(args)
    count = rebuild(engine)
    engine.dispose()
    print(f"{count} series learned anew")
    return 0
