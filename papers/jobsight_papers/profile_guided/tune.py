"""Window, bins and alpha for a workload, chosen on its earlier jobs and judged on its later ones."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_papers.profile_guided.tuning import (
    EARLIER,
    FORECASTER_OF,
    TunedParameter,
    earlier_jobs,
    tune_parameter,
)
from jobsight_papers.runner import run_all
from jobsight_predictor.evaluation.jobs import Jobs, grouped
from jobsight_predictor.evaluation.replay import replay_forecaster, replay_jobsight
from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.metrics import METRICS
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.trace_argument import add_part, name_of, part_of, read_jobs
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import Part

LEAST = 20
"""Fewest jobs with a value for which a metric is tuned."""

TuneTask = tuple[str, Part, str, str]
"""Trace, its part, metric, and a parameter, or ``beside`` for the baselines."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("parameters for another workload")
    group.add_argument(
        "--tune",
        metavar="TRACE",
        help="instead of the experiment, choose window, bins and alpha on the earlier jobs of this workload, and test "
        "them on the later ones: Standard Workload Format or CSV of virtual machines (plain or .gz), or a Jobsight "
        "database (file or URL); takes --workers, --dask and --json",
    )
    group.add_argument(
        "--metric", nargs="+", choices=tuple(METRICS), metavar="METRIC", help="only these metrics (default: all)"
    )
    add_part(group)


def run(args: argparse.Namespace) -> int:
    trace, part = args.tune, part_of(args)
    usable, left_out = _metrics(trace, part, tuple(dict.fromkeys(args.metric or METRICS)))
    if not usable:
        raise UserError("; ".join(f"{metric}: {reason}" for metric, reason in left_out.items()))
    tasks = [(trace, part, metric, what) for metric in usable for what in (*FORECASTER_OF, "beside")]
    found = run_all("tune", tuned, tasks, args)
    account: dict[str, Any] = {
        "trace": name_of(trace),
        "earlier_share": EARLIER,
        "left_out": left_out,
        "metrics": {
            metric: found[trace, part, metric, "beside"]
            | {"parameters": {what: found[trace, part, metric, what] for what in FORECASTER_OF}}
            for metric in usable
        },
    }
    account["confirmed"] = confirmed(account["metrics"])
    print_account(args, account, _show)
    return 0


def tuned(task: TuneTask) -> dict[str, Any]:
    """Tune one parameter of one metric, or forecast the baselines; any process may run it."""
    trace, part, metric, what = task
    jobs = read_jobs(trace, metric, part)
    if what == "beside":
        return _beside(jobs)
    result: TunedParameter = tune_parameter(jobs, "completion", what)
    return asdict(result) | {"helps": result.helps}


def confirmed(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return, by metric, the changed parameters that the later jobs confirm."""
    found = {
        metric: {
            parameter: line["chosen"]
            for parameter, line in of["parameters"].items()
            if line["helps"] and line["chosen"] != line["default"]
        }
        for metric, of in metrics.items()
    }
    return {metric: changed for metric, changed in found.items() if changed}


def _metrics(trace: str, part: Part, metrics: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the metrics with enough jobs, and why the others are left out."""
    usable, left_out = [], {}
    for metric in metrics:
        try:
            count = len(read_jobs(trace, metric, part))
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
    """Return the accuracy on the later jobs of the last value, the history's mean and Jobsight's own forecast."""
    users = grouped([question.user for question in jobs.questions])
    predicted = {name: replay_forecaster(name, jobs, users, "completion") for name in ("locality", "history")}
    predicted["jobsight"] = replay_jobsight(jobs, "completion").forecasts
    there = ~np.isnan(predicted["locality"])
    is_earlier = earlier_jobs(jobs)
    late = there & ~is_earlier
    return {
        "jobs": len(jobs),
        "earlier": int((there & is_earlier).sum()),
        "later": int(late.sum()),
        "beside": {name: float(accuracies(of, jobs.values)[late].mean()) for name, of in predicted.items()},
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
                "too few users" if limits is None else f"{100 * limits[0]:+.2f} to {100 * limits[1]:+.2f}",
            )  # fmt: skip
        console.print(table)
        beside = row["beside"]
        console.print(
            f"On the same later jobs: last value {percent(beside['locality'], 2)}, mean of the history "
            f"{percent(beside['history'], 2)}, Jobsight's forecast {percent(beside['jobsight'], 2)} "
            "(which uses none of the three)."
        )
    for metric, reason in account["left_out"].items():
        console.print(Text(f"Left out: {metric}: {reason}"))
    for metric, changed in account["confirmed"].items():
        text = ", ".join(f"{name} {value:g}" for name, value in changed.items())
        console.print(Text(f"Confirmed on the later jobs for {metric}: {text}"))
    if not account["confirmed"]:
        console.print("The later jobs confirm no change of window, bins and alpha.")
