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
from jobsight_server.advice.recommendation import (
    JobRequest,
    Recommendation,
    asked_as,
    plain_request,
    predictions,
    recommend,
)
from jobsight_server.advice.words import sentence, similar_use
from jobsight_server.command_line.answers import reading
from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.help_text import metric_name, read_by
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.forecasts import ForecastRequest
from jobsight_server.forecasts.last_runs import last_runs
from jobsight_server.forecasts.prediction import Predictions
from jobsight_server.forecasts.request import PER, UnknownProcessorsError, job_question
from jobsight_server.ground.amounts import many, memory_bytes, memory_text, span_s
from jobsight_server.ground.errors import UserError
from jobsight_server.ground.facts import facts_of, found_facts
from jobsight_server.queries.efficiency import RESOURCE_OF
from jobsight_server.storage.clusters import chosen, stored_clusters
from jobsight_server.storage.schema import jobs
from jobsight_server.web.kit.units import DASH, level, resource_value


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
    fact = "number known of the job, such as input_bytes=3.1e9; may be repeated"
    job.add_argument("--fact", type=_fact, action="append", default=[], metavar="NAME=NUMBER", help=fact)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the answers of the HTTP API as JSON, in SI units",
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
            question, request = _asked(connection, args)
            if args.json:
                asked = ForecastRequest(args.cluster, question, args.metric, args.per, gpus=request.gpus)
                answers = Predictions(predictions(connection, reader, [asked]))
                print(msgspec.json.format(msgspec.json.encode(answers), indent=2).decode())
            else:
                metrics = None if args.metric is None else tuple(dict.fromkeys((*ASKED_FOR, args.metric)))
                found = recommend(connection, reader, args.cluster, question, request, metrics)
                show(found, tuple(found.answers) if args.metric is None else (args.metric,), Terminal())
    except UnknownProcessorsError as error:
        raise UserError("--per job: give the job's --processors, such as 16") from error
    return 0


def _asked(connection: Connection, args: argparse.Namespace) -> tuple[Question, JobRequest]:
    """Return the job: what is not given is as in the user's last similar job, which is named."""
    facts = tuple(sorted(dict(args.fact).items()))
    subject = (args.user, args.application, args.queue, args.processors, args.memory, args.walltime)
    question = job_question(*subject, args.group, args.account, facts)
    runs = last_runs(connection, args.cluster, args.user, question.application)
    like = min(runs, key=lambda run: run.processors != (args.processors or run.processors), default=None)
    if like is None:
        if args.application and not args.processors:
            why = "amounts are for one processor; give the job's --processors"
            print(f"{args.user} has run no {args.application}: {why}", file=sys.stderr)
        return question, plain_request(question)
    given = {
        "name": args.application,
        "queue": args.queue,
        "group": args.group,
        "account": args.account,
        "processors": args.processors,
        "requested_memory_bytes": args.memory,
        "requested_walltime_s": args.walltime,
        "facts": facts or None,
    }
    given = {name: value for name, value in given.items() if value is not None}
    of_name = "similar " if question.application else ""
    print(f"What is not given is as in your last {of_name}job, {like.job_id}.", file=sys.stderr)
    if "processors" in given:  # on other nodes
        like = like._replace(run_id=-1)
    return asked_as(connection, args.user, like._replace(**given))


def _fact(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    found = facts_of(found_facts([(name, value)]).text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a fact; give one such as input_bytes=3.1e9")
    return found[0]


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
    table = table_of([""], ("expected", "request", "if too little", "similar jobs"))
    for answer in answers:
        write = partial(resource_value, resource=RESOURCE_OF.get(answer.metric, answer.metric))
        to_ask = memory_text if answer.metric == "memory" else write
        used = similar_use(answer)
        best = [found.best(resource) for resource in ASKED_FOR if resource == answer.metric]
        unknown = None in best or answer.metric == "cpu"  # no job asks for more than its processors
        # The next one of a shorter limit is the request.
        attempts = (
            [] if unknown else [to_ask(amount) for amount in dict.fromkeys([*filter(None, best), *answer.attempts])]
        )
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
