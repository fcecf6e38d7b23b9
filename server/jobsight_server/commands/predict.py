"""``jobsight predict``: what a user's next job will need, straight from the database."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection, select, union

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_server.commands.arguments import add_settings, open_existing, settings_of
from jobsight_server.errors import UserError
from jobsight_server.forecasts import Question, answers, method_of
from jobsight_server.storage.schema import jobs, nodes

_SCALES = {"bandwidth": ("Mb/s", 1e6), "memory": ("MiB", 2**20), "cpu": ("", 1), "runtime": ("min", 60)}
_SHORT = {**{name: name for name in FIVE}, "sliding-window": "window", "exponential": "exp."}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database", "templates", "coverage", "bound_objective", "walltime_limit")
    parser.add_argument("--cluster", required=True, help="cluster that the job will run on")
    parser.add_argument("--user", required=True, help="user whose next job it is")
    parser.add_argument("--metric", choices=tuple(METRICS), help="only this one")
    told = parser.add_argument_group("the job", "the more is told of it, the better the answer")
    told.add_argument("--application", metavar="NAME", help="its name, or what it runs")
    told.add_argument("--queue", metavar="NAME", help="the queue that it is submitted to")
    told.add_argument("--processors", type=_above_zero(int), metavar="N", help="how many it asks for")
    told.add_argument("--memory", type=_above_zero(float), metavar="BYTES", help="what the whole job asks for")
    told.add_argument("--walltime", type=_above_zero(float), metavar="S", help="the time that it asks for, in seconds")
    parser.add_argument("--json", action="store_true", help="print JSON (always where the output is no terminal)")


def run(args: argparse.Namespace) -> int:
    engine = open_existing(args, "read")
    question = Question(
        args.cluster,
        args.user,
        args.metric,
        args.application,
        args.queue,
        args.processors,
        args.memory,
        args.walltime,
    )
    try:
        with engine.connect() as connection:
            _say_who_is_unknown(connection, args.cluster, args.user)
            found = answers(connection, [question], method_of(settings_of(args)))
    finally:
        engine.dispose()
    if args.json or not sys.stdout.isatty():
        print(json.dumps({"predictions": found}, indent=2))
    else:
        show(found, Console())
    return 0


def _say_who_is_unknown(connection: Connection, cluster: str, user: str) -> None:
    known = set(connection.scalars(union(select(jobs.c.cluster), select(nodes.c.cluster))))
    if cluster not in known:
        raise UserError(f"there is no cluster {cluster!r}; known: {', '.join(sorted(known)) or 'none yet'}")
    finished = select(jobs.c.id).where(jobs.c.cluster == cluster, jobs.c.user == user, jobs.c.end.is_not(None))
    if connection.execute(finished.limit(1)).first() is None:
        print(f"{user} has no finished job on {cluster}: answers rest on others' jobs", file=sys.stderr)


def show(found: Sequence[dict[str, Any]], console: Console) -> None:
    """The answer per metric with what it rests on, then what each of the five says, in units that read well."""
    # As Text, because a user may be named like one of rich's markup tags.
    title = Text(f"Next job of {found[0]['user']} on {found[0]['cluster']}")
    console.print(_answered(found, title), markup=False)
    for answer in found:
        if answer["value"] is not None:
            console.print(Text(_where_from(answer)))
    console.print(_of_five(found), markup=False)
    for reason in dict.fromkeys(answer["reason"] for answer in found if answer["reason"]):
        without = ", ".join(answer["metric"] for answer in found if answer["reason"] == reason)
        console.print(f"{without}: {reason}", markup=False)
    if any(answer["value"] is not None for answer in found):
        share = found[0]["coverage"]
        console.print(f"sure: to be within 20 %. reserve: {share:.0%} of jobs fit. --json gives SI units.")
        for answer in found:
            if answer["bound_basis"] is not None:
                console.print(Text(_held(answer)))


def _answered(found: Sequence[dict[str, Any]], title: Text) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("per processor", no_wrap=True)
    for name in ("forecast", "sure", "reserve", "runner-up"):
        table.add_column(name, justify="right", no_wrap=True)
    for answer in found:
        _, scale = _SCALES[answer["metric"]]
        other = answer["runner_up"]
        table.add_row(
            _name(answer["metric"]),
            _figure(answer["value"], scale),
            _share(answer["probability"]),
            _figure(answer["bound"], scale),
            _figure(None if other is None else other["value"], scale),
        )
    return table


def _where_from(answer: dict[str, Any]) -> str:
    _, scale = _SCALES[answer["metric"]]
    values = " ".join(_figure(value, scale) for value in answer["last_values"])
    jobs = "1 job" if answer["n"] == 1 else f"{answer['n']} jobs"
    return f" {answer['metric']} by {answer['forecaster']} from {jobs} of {answer['level']}, the last: {values}"


def _held(answer: dict[str, Any]) -> str:
    """On what the reservation rests, and what such reservations have held so far."""
    text = f" reserve {answer['metric']} by {answer['bound_basis']}"
    if answer["observed_coverage"] is None:
        return text
    by_use = "" if answer["observed_cost_coverage"] is None else f", {answer['observed_cost_coverage']:.1%} by use"
    return f"{text}; so far enough for {answer['observed_coverage']:.1%} of jobs{by_use}"


def _of_five(found: Sequence[dict[str, Any]]) -> Table:
    title = "The published five, of the user's own jobs"
    table = Table(title=title, title_justify="left", title_style="", box=SIMPLE, padding=(0, 0))
    table.add_column("per processor", no_wrap=True)
    for name in (*(_SHORT[name] for name in FIVE), "jobs", "PQM", "recent"):
        table.add_column(name, justify="right", no_wrap=True)
    for answer in found:
        _, scale = _SCALES[answer["metric"]]
        table.add_row(
            _name(answer["metric"]),
            *(_figure(answer["forecasts"][name], scale) for name in FIVE),
            str(answer["user_jobs"]),
            _share(answer["pqm"]),
            _share(answer["recent_pqm"]),
        )
    return table


def _name(metric: str) -> str:
    unit, _ = _SCALES[metric]
    return f"{metric}, {unit}" if unit else metric


def _figure(value: float | None, scale: float) -> str:
    return "-" if value is None else f"{value / scale:,.3g}" if value / scale < 1000 else f"{value / scale:,.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _above_zero(kind: type[int] | type[float]) -> Callable[[str], float]:
    """Reads a number; argparse adds the flag's name to what is wrong with it."""

    def read(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = 0
        if not 0 < number < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0; leave it out where it is not known")
        return number

    return read
