"""``jobsight predict``: the needs of a user's next job, straight from the database."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from rich.console import Console
from rich.text import Text
from sqlalchemy import Connection, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question
from jobsight_server.accounting.amounts import memory_bytes, memory_text, span_s
from jobsight_server.advice.recommendation import JobRequest, Recommendation, predictions, recommend, recommend_as_last
from jobsight_server.advice.words import sentence, similar_use
from jobsight_server.command_line.answers import reading
from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.help_text import metric_name, read_by
from jobsight_server.command_line.tables import table_of
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.decision import ASKED_FOR
from jobsight_server.forecasts.reader import reply_of
from jobsight_server.forecasts.request import PER, UnknownProcessorsError, job_question
from jobsight_server.forecasts.such_jobs import last_runs, of_application
from jobsight_server.queries.efficiency import RESOURCE_OF
from jobsight_server.storage.clusters import chosen, stored_clusters
from jobsight_server.storage.errors import UserError
from jobsight_server.storage.schema import jobs
from jobsight_server.web.kit.units import DASH, level, many, resource_value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    parser.add_argument("--cluster", metavar="NAME", help="cluster of the job (default: the only known one)")
    parser.add_argument("--user", required=True, metavar="NAME", help="user of the job")
    parser.add_argument(
        "--metric",
        type=metric_name,
        choices=tuple(METRICS),
        metavar="METRIC",
        help=f"forecast only this one of {', '.join(METRICS)}",
    )
    job = parser.add_argument_group("the job", "The more of these options you give, the better the forecast.")
    job.add_argument("--application", metavar="NAME", help="name of the job or of the application that it runs")
    job.add_argument("--group", metavar="NAME", help="Unix group of the job")
    job.add_argument("--account", metavar="NAME", help="account charged for the job")
    job.add_argument("--queue", metavar="NAME", help="queue of the job")
    job.add_argument("--processors", type=_processors, metavar="COUNT", help="processors requested")
    memory = "memory requested for the whole job: bytes, or with a unit, such as 4096mb, 4gb, 4G"
    job.add_argument("--memory", type=_amount(memory_bytes), metavar="SIZE", help=memory)
    walltime = "run time requested: seconds, or a time such as 6h, 01:00:00 or 2-12:00:00"
    job.add_argument("--walltime", type=_amount(span_s), metavar="TIME", help=walltime)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the answers of the HTTP API as JSON, in SI units; what is not given stays unknown",
    )
    parser.add_argument(
        "--per", choices=PER, default=PER[0], help="of --json: values per processor (default) or for the whole job"
    )


def run(args: argparse.Namespace) -> int:
    try:
        with reading(args) as (connection, reader):
            known = stored_clusters(connection) | settings_of(args).declared_clusters
            args.cluster = chosen(args.cluster, known, "known")
            _say_who_is_unknown(connection, args.cluster, args.user)
            if args.json:
                request = ForecastRequest(args.cluster, _question(args, args.processors), args.metric, args.per)
                print(msgspec.json.format(reply_of(predictions(connection, reader, [request])), indent=2))
            else:
                found = _found(connection, reader, args)
                show(found, tuple(found.answers) if args.metric is None else (args.metric,), Console())
    except UnknownProcessorsError as error:
        raise UserError("--per job: give the job's --processors, such as 16") from error
    return 0


def _question(args: argparse.Namespace, processors: int | None) -> Question:
    subject = (args.user, args.application, args.queue, processors, args.memory, args.walltime)
    return job_question(*subject, args.group, args.account)


def _found(connection: Connection, reader: AnswerReader, args: argparse.Namespace) -> Recommendation:
    """Return the answer for the whole job; without ``--processors`` it has as many as the last similar job, and of an
    application all that is not given, as in reports.
    """
    runs, processors = last_runs(connection, args.cluster, args.user), args.processors
    metrics = None if args.metric is None else tuple(dict.fromkeys((*ASKED_FOR, args.metric)))
    if processors is None:
        similar = of_application(runs, _question(args, None).application)
        like = min(similar, key=lambda run: not run.job_id, default=None)  # the last one of the log
        if like is not None and args.application is not None:
            print(f"What is not given is as in your last similar job, {like.job_id or 'a reported one'}.")
            given = {"queue": args.queue, "group": args.group, "account": args.account}
            given |= {"requested_memory_bytes": args.memory, "requested_walltime_s": args.walltime}
            like = like._replace(**{name: value for name, value in given.items() if value is not None})
            return recommend_as_last(connection, reader, args.cluster, args.user, like, runs, metrics)
        processors = 1 if like is None else like.processors
        print(f"--processors is not given: this is for {processors}{', as your last job had' if like else ''}.")
    asked = JobRequest(processors, None, args.memory, args.walltime)
    return recommend(connection, reader, args.cluster, _question(args, processors), asked, metrics, runs)


def _say_who_is_unknown(connection: Connection, cluster: str, user: str) -> None:
    finished = select(jobs.c.id).where(jobs.c.cluster == cluster, jobs.c.user == user, jobs.c.end.is_not(None))
    if connection.execute(finished.limit(1)).first() is None:
        why = "these forecasts are based on other users' jobs"
        print(f"{user} has no finished job on {cluster}: {why}", file=sys.stderr)


def show(found: Recommendation, metrics: Sequence[str], console: Console) -> None:
    """Show what to request, and the jobs behind each metric's forecast; for the whole job, in readable units."""
    # As Text, because a user's name may look like one of rich's markup tags.
    console.print(Text(sentence(found)))
    answers = [found.answers[metric] for metric in metrics]
    table = table_of([""], ("expected", "ask for", "if too little", "similar jobs"))
    for answer in answers:
        write = partial(resource_value, resource=RESOURCE_OF.get(answer.metric, answer.metric))
        to_ask = memory_text if answer.metric == "memory" else write
        used = similar_use(answer)
        unknown = any(resource == answer.metric and found.best(resource) is None for resource in ASKED_FOR)
        unknown |= answer.metric == "cpu"  # no job asks for more than its processors
        attempts = [to_ask(amount) for amount in answer.attempts[:2] if not unknown]
        table.add_row(
            METRICS[answer.metric].name,
            write(answer.value),
            *(*attempts, DASH, DASH)[:2],
            " to ".join(dict.fromkeys(map(write, used)))
            if used
            else DASH
            if answer.similar is None
            else "none measured",
        )
    console.print(table, markup=False)
    for answer in answers:
        if answer.value is not None:
            source = f"{many(answer.n, 'job')} {level(answer.level or 'site')}"
            console.print(Text(f"{METRICS[answer.metric].name}: from {source}"))
    for reason in dict.fromkeys(answer.reason for answer in answers if answer.reason):
        without = ", ".join(METRICS[answer.metric].name for answer in answers if answer.reason == reason)
        console.print(f"{without}: {reason}", markup=False)


def _processors(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) < 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0; leave it out if unknown")
    return int(text)


def _amount(read: Callable[[str], float]) -> Callable[[str], float]:
    """Parse an amount above 0; argparse adds the flag's name to the error."""

    def amount(text: str) -> float:
        value = read(text)
        if not 0 < value <= 1e18:
            raise ValueError(f"{text!r} is not above 0; leave it out if unknown")
        return value

    return read_by(amount)
