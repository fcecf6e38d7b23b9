"""``jobsight predict``: what a user's next job will need, with all five forecasts, straight from the database."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_server.commands.arguments import add_settings, open_existing
from jobsight_server.forecasts import Question, answers

_SCALES = {"bandwidth": ("Mb/s", 1e6), "memory": ("MiB", 2**20), "cpu": ("", 1), "runtime": ("min", 60)}
_SHORT = {**{name: name for name in FIVE}, "sliding-window": "window", "exponential": "exp."}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    parser.add_argument("--cluster", required=True, help="cluster that the job will run on")
    parser.add_argument("--user", required=True, help="user whose next job it is")
    parser.add_argument("--metric", choices=tuple(METRICS), help="only this one")
    parser.add_argument("--json", action="store_true", help="print JSON (always where the output is no terminal)")


def run(args: argparse.Namespace) -> int:
    engine = open_existing(args, "read")
    with engine.connect() as connection:
        found = answers(connection, [Question(args.cluster, args.user, args.metric)])
    engine.dispose()
    if args.json or not sys.stdout.isatty():
        print(json.dumps({"predictions": found}, indent=2))
    else:
        show(found, Console())
    return 0


def show(found: Sequence[dict[str, Any]], console: Console) -> None:
    """A line per metric with the answer, and what each of the five says, in units that read well."""
    # As Text, because a user may be named like one of rich's markup tags.
    title = Text(f"Next job of {found[0]['user']} on {found[0]['cluster']}")
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 0))
    table.add_column("per processor")
    for name in ("forecast", *(_SHORT[name] for name in FIVE), "jobs", "PQM", "recent"):
        table.add_column(name, justify="right", no_wrap=True)
    for answer in found:
        unit, scale = _SCALES[answer["metric"]]
        forecasts = answer["forecasts"]
        table.add_row(
            f"{answer['metric']}{f', {unit}' if unit else ''}",
            _figure(answer["value"], scale),
            *(_figure(forecasts[name], scale) + ("*" if name == answer["forecaster"] else "") for name in FIVE),
            str(answer["n"]),
            _share(answer["pqm"]),
            _share(answer["recent_pqm"]),
        )
    console.print(table, markup=False)
    for reason in dict.fromkeys(answer["reason"] for answer in found if answer["reason"]):
        console.print(reason, markup=False)
    if any(answer["forecaster"] for answer in found):
        console.print("* the one that is used: it erred least of late. --json gives SI units.", markup=False)


def _figure(value: float | None, scale: float) -> str:
    return "-" if value is None else f"{value / scale:,.3g}" if value / scale < 1000 else f"{value / scale:,.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
