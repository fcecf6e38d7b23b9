"""``jobsight tune``: window, bins and alpha for a site, chosen on its earlier jobs and judged on its later ones."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_predictor.evaluation.jobs import Jobs, grouped
from jobsight_predictor.evaluation.replay import replay_forecaster, replay_jobsight
from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.evaluation.tuning import (
    EARLIER,
    FORECASTER_OF,
    TunedParameter,
    earlier_jobs,
    tune_parameter,
)
from jobsight_predictor.forecasters.parameters import DEFAULT_PARAMETERS
from jobsight_predictor.metrics import METRICS
from jobsight_server.amounts import percent
from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.dask import on_dask
from jobsight_server.command_line.progress import watched
from jobsight_server.command_line.trace_argument import read_jobs
from jobsight_server.command_line.workers import in_processes
from jobsight_server.errors import UserError

LEAST = 20
"""Fewest jobs with a value for which a metric is tuned."""

TuneTask = tuple[str, str | None, str, str]
"""Trace, cluster, metric, and a parameter, or ``beside`` for the forecasts without parameters."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trace",
        nargs="?",
        metavar="TRACE",
        help="another workload than the finished jobs of the database: Standard Workload Format or CSV of virtual "
        "machines (plain or .gz), or a Jobsight database (file or URL)",
    )
    parser.add_argument(
        "--metric", nargs="+", choices=tuple(METRICS), metavar="METRIC", help="only these metrics (default: all)"
    )
    parser.add_argument(
        "--cluster", metavar="NAME", help="use only this cluster of a database (default: all clusters, as one site)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, metavar="COUNT", help="processes (default: one per core)")
    where.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="tune on this Dask cluster, as tcp://host:8786, whose workers read TRACE or the database themselves",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings(parser, "database")


def run(args: argparse.Namespace) -> int:
    if args.workers is not None and not 1 <= args.workers <= 10_000:
        raise UserError(f"--workers {args.workers}: give 1 to 10000")
    trace = args.trace or settings_of(args).database
    usable, left_out = _metrics(trace, args.cluster, tuple(dict.fromkeys(args.metric or METRICS)))
    if not usable:
        raise UserError("; ".join(f"{metric}: {reason}" for metric, reason in left_out.items()))
    tasks = [(trace, args.cluster, metric, what) for metric in usable for what in (*FORECASTER_OF, "beside")]
    workers = min(args.workers or os.cpu_count() or 1, len(tasks))
    if args.dask is not None:
        runs = on_dask(tuned, tasks, args.dask)
    else:
        runs = in_processes(tuned, tasks, workers) if workers > 1 else ((task, tuned(task)) for task in tasks)
    found = dict(watched("tune", runs, len(tasks)))
    account: dict[str, Any] = {
        "trace": trace.rpartition("/")[2],
        "earlier_share": EARLIER,
        "left_out": left_out,
        "metrics": {
            metric: found[trace, args.cluster, metric, "beside"]
            | {"parameters": {what: found[trace, args.cluster, metric, what] for what in FORECASTER_OF}}
            for metric in usable
        },
    }
    account["settings"] = settings_to_write(account["metrics"])
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        _show(account, Console())
    return 0


def tuned(task: TuneTask) -> dict[str, Any]:
    """Tunes one parameter of one metric, or forecasts what to compare with; runs in any process."""
    trace, cluster, metric, what = task
    jobs = read_jobs(trace, metric, cluster)
    if what == "beside":
        return _beside(jobs)
    result: TunedParameter = tune_parameter(jobs, "completion", what)
    return asdict(result) | {"helps": result.helps}


def settings_to_write(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The settings that the later jobs confirm, as in the settings file; empty where the defaults are as good."""
    found: dict[str, list[str]] = {}
    for parameter in FORECASTER_OF:
        changed = {
            metric: line["chosen"]
            for metric, of in metrics.items()
            if (line := of["parameters"][parameter])["helps"] and line["chosen"] != line["default"]
        }
        if changed:
            default = getattr(DEFAULT_PARAMETERS, parameter)
            found[parameter] = [f"{default:g}", *(f"{metric}={value:g}" for metric, value in changed.items())]
    return found


def _metrics(trace: str, cluster: str | None, metrics: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The metrics with enough jobs, and why the others are left out."""
    usable, left_out = [], {}
    for metric in metrics:
        try:
            count = len(read_jobs(trace, metric, cluster))
        except UserError as error:
            if len(metrics) == 1:
                raise
            left_out[metric] = str(error).removeprefix(f"{trace}: ")
            continue
        if count < LEAST:
            left_out[metric] = f"{count} jobs have a value; at least {LEAST} are needed"
        else:
            usable.append(metric)
    return usable, left_out


def _beside(jobs: Jobs) -> dict[str, Any]:
    """Accuracy on the later jobs of the last value, of the history's mean and of Jobsight's own answer."""
    users = grouped([question.user for question in jobs.questions])
    said = {name: replay_forecaster(name, jobs, users, "completion") for name in ("locality", "history")}
    said["jobsight"] = replay_jobsight(jobs, "completion").forecasts
    there = ~np.isnan(said["locality"])
    is_earlier = earlier_jobs(jobs)
    late = there & ~is_earlier
    return {
        "jobs": len(jobs),
        "earlier": int((there & is_earlier).sum()),
        "later": int(late.sum()),
        "beside": {name: float(accuracies(of, jobs.values)[late].mean()) for name, of in said.items()},
    }


def _show(account: Mapping[str, Any], console: Console) -> None:
    for metric, row in account["metrics"].items():
        title = (
            f"{metric} of {account['trace']}: chosen on {row['earlier']:,} earlier jobs, accuracy on {row['later']:,} "
            "later ones"
        )
        table = Table(title=Text(title, "bold"), box=SIMPLE, padding=(0, 1, 0, 0), title_justify="left")
        for column in ("forecaster", "chosen", "%", "default", "%", "gain", "95 %"):
            table.add_column(column, justify="left" if column == "forecaster" else "right", no_wrap=True)
        for name, line in row["parameters"].items():
            limits = line["gain_interval"]
            table.add_row(
                line["forecaster"], f"{name} {line['chosen']:g}", f"{100 * line['accuracy_chosen']:.2f}",
                f"{line['default']:g}", f"{100 * line['accuracy_default']:.2f}", f"{100 * line['gain']:+.2f}",
                "one user only" if limits is None else f"{100 * limits[0]:+.2f} to {100 * limits[1]:+.2f}",
            )  # fmt: skip
        console.print(table)
        beside = row["beside"]
        console.print(
            f"On the same later jobs: last value {percent(beside['locality'], 2)}, mean of the history "
            f"{percent(beside['history'], 2)}, Jobsight's answer {percent(beside['jobsight'], 2)} "
            "(which uses none of the three)."
        )
    for metric, reason in account["left_out"].items():
        console.print(Text(f"Left out: {metric}: {reason}"))
    if account["settings"]:
        console.print("\nConfirmed on the later jobs, for the settings file:")
        for name, texts in account["settings"].items():
            console.print(Text(f"{name} = {json.dumps(texts)}"))
    else:
        console.print("\nThe later jobs confirm no change: keep window, bins and alpha as they are.")
