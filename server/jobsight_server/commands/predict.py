"""``jobsight predict``: what a user's next job will need, straight from the database."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection, select

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_server.amounts import memory_bytes, percent, span_s
from jobsight_server.command_line.arguments import LEARNING, add_settings, open_existing, settings_of
from jobsight_server.errors import UserError
from jobsight_server.forecasts import AnswerReader, ForecastRequest, forecast_config
from jobsight_server.forecasts.job import job_question
from jobsight_server.forecasts.per import PER, UnknownProcessorsError
from jobsight_server.forecasts.prediction import Prediction, Predictions
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import listed, stored_clusters
from jobsight_server.storage.schema import jobs

_SCALES = {"bandwidth": ("Mb/s", 1e6), "memory": ("MiB", 2**20), "cpu": ("", 1), "runtime": ("min", 60)}
_SHORT = {**{name: name for name in FIVE}, "sliding-window": "window", "exponential": "exp."}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database", *LEARNING)
    parser.add_argument("--cluster", required=True, metavar="NAME", help="cluster that the job will run on")
    parser.add_argument("--user", required=True, metavar="NAME", help="user who submits the job")
    parser.add_argument("--metric", choices=tuple(METRICS), help="forecast only this metric")
    job = parser.add_argument_group("the job", "The more of these are given, the better the forecast.")
    job.add_argument("--application", metavar="NAME", help="name of the job or of the application that it runs")
    job.add_argument("--group", metavar="NAME", help="Unix group that the job runs as")
    job.add_argument("--account", metavar="NAME", help="account that the job is charged to")
    job.add_argument("--queue", metavar="NAME", help="queue that the job is submitted to")
    job.add_argument("--processors", type=_processors, metavar="COUNT", help="processors requested")
    memory = "memory requested for the whole job: bytes, or with a unit, such as 4096mb, 4gb, 4G"
    job.add_argument("--memory", type=_amount(memory_bytes), metavar="SIZE", help=memory)
    walltime = "run time requested: seconds, or a time such as 6h, 01:00:00 or 2-12:00:00"
    job.add_argument("--walltime", type=_amount(span_s), metavar="TIME", help=walltime)
    parser.add_argument(
        "--per", choices=PER, default=PER[0], help="values per processor (default) or for the whole job of --processors"
    )
    parser.add_argument("--json", action="store_true", help="print JSON (the default if the output is not a terminal)")


def run(args: argparse.Namespace) -> int:
    engine = open_existing(args, "read")
    question = job_question(
        args.user,
        args.application,
        args.queue,
        args.processors,
        args.memory,
        args.walltime,
        args.group,
        args.account,
    )
    request = ForecastRequest(args.cluster, question, args.metric, args.per)
    settings = settings_of(args)
    reader = AnswerReader(engine, forecast_config(settings))
    try:
        with engine.connect() as connection:
            _say_who_is_unknown(connection, args.cluster, args.user, settings)
        reply = reader.reply([request])
    except UnknownProcessorsError as error:
        raise UserError("--per job: give the job's --processors, such as 16") from error
    finally:
        reader.close()
        engine.dispose()
    if args.json or not sys.stdout.isatty():
        print(msgspec.json.format(reply, indent=2))
    else:
        show(msgspec.json.decode(reply, type=Predictions).predictions, Console())
    return 0


def _say_who_is_unknown(connection: Connection, cluster: str, user: str, settings: Settings) -> None:
    known = stored_clusters(connection) | settings.declared_clusters
    if cluster not in known:
        raise UserError(f"unknown cluster {cluster!r}; known: {listed(known)}")
    finished = select(jobs.c.id).where(jobs.c.cluster == cluster, jobs.c.user == user, jobs.c.end.is_not(None))
    if connection.execute(finished.limit(1)).first() is None:
        print(f"{user} has no finished job on {cluster}: these forecasts rest on other users' jobs", file=sys.stderr)


def show(found: Sequence[Prediction], console: Console) -> None:
    """The answer per metric with its basis, then the forecast of each of the five, in readable units."""
    # As Text, because a user may be named like one of rich's markup tags.
    title = Text(f"Next job of {found[0].user} on {found[0].cluster}, {_per(found)}")
    console.print(_answered(found, title), markup=False)
    for answer in found:
        if answer.value is not None:
            console.print(Text(_where_from(answer)))
    console.print(_of_five(found), markup=False)
    for reason in dict.fromkeys(answer.reason for answer in found if answer.reason):
        without = ", ".join(answer.metric for answer in found if answer.reason == reason)
        console.print(f"{without}: {reason}", markup=False)
    if any(answer.value is not None for answer in found):
        share = found[0].coverage
        console.print(
            f"sure: probability of being within 20 %. reserve: meant to be enough for {percent(share)} of all jobs."
        )
        console.print("exceeds: probability that this job needs more than the reserve. --json gives SI units.")
        for answer in found:
            if answer.bound_basis is not None:
                console.print(Text(_held(answer)))


def _answered(found: Sequence[Prediction], title: Text) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("metric", no_wrap=True)
    for name in ("forecast", "sure", "reserve", "exceeds", "runner-up"):
        table.add_column(name, justify="right", no_wrap=True)
    for answer in found:
        _, scale = _SCALES[answer.metric]
        other = answer.runner_up
        table.add_row(
            _name(answer.metric),
            _figure(answer.value, scale),
            _share(answer.probability),
            _figure(answer.bound, scale),
            "-" if answer.exceed_probability is None else percent(answer.exceed_probability, 1),
            _figure(None if other is None else other.value, scale),
        )
    return table


def _where_from(answer: Prediction) -> str:
    _, scale = _SCALES[answer.metric]
    values = " ".join(_figure(value, scale) for value in answer.last_values)
    jobs = "1 job" if answer.n == 1 else f"{answer.n} jobs"
    return f" {answer.metric} by {answer.forecaster} from {jobs} of {answer.level}, the last: {values}"


def _held(answer: Prediction) -> str:
    """The basis of the reservation, and the coverage of such reservations so far."""
    text = f" reserve {answer.metric} by {answer.bound_basis}"
    if answer.observed_coverage is None:
        return text
    by_use = "" if answer.observed_cost_coverage is None else f", {percent(answer.observed_cost_coverage, 1)} by use"
    return f"{text}; so far enough for {percent(answer.observed_coverage, 1)} of jobs{by_use}"


def _of_five(found: Sequence[Prediction]) -> Table:
    title = "The published five, of the user's own jobs"
    table = Table(title=title, title_justify="left", title_style="", box=SIMPLE, padding=(0, 0))
    table.add_column("metric", no_wrap=True)
    for name in (*(_SHORT[name] for name in FIVE), "jobs", "PQM", "recent"):
        table.add_column(name, justify="right", no_wrap=True)
    for answer in found:
        _, scale = _SCALES[answer.metric]
        table.add_row(
            _name(answer.metric),
            *(_figure(answer.forecasts[name], scale) for name in FIVE),
            str(answer.user_jobs),
            _share(answer.pqm),
            _share(answer.recent_pqm),
        )
    return table


def _per(found: Sequence[Prediction]) -> str:
    """What the values are per; a run time is always the job's."""
    if not any(answer.per == "processor" for answer in found):
        return "values for the whole job"
    of_job = any(answer.metric == "runtime" for answer in found)
    return "values per processor" + (" (run time: of the job)" if of_job else "")


def _name(metric: str) -> str:
    unit, _ = _SCALES[metric]
    return f"{metric}, {unit}" if unit else metric


def _figure(value: float | None, scale: float) -> str:
    return "-" if value is None else f"{value / scale:,.3g}" if value / scale < 1000 else f"{value / scale:,.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _processors(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) < 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0; leave it out if unknown")
    return int(text)


def _amount(read: Callable[[str], float]) -> Callable[[str], float]:
    """Parses an amount above 0; argparse adds the flag's name to the error."""

    def amount(text: str) -> float:
        try:
            value = read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        if not 0 < value <= 1e18:
            raise argparse.ArgumentTypeError(f"{text!r} is not above 0; leave it out if unknown")
        return value

    return amount
