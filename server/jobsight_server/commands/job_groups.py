"""``jobsight job-groups search``: finds the job groups that forecast best on this site's own history."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from jobsight_predictor.evaluation.job_group_search import Found, candidates, search
from jobsight_predictor.evaluation.jobs import Jobs, first_jobs
from jobsight_predictor.evaluation.replay import replay_jobsight
from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.question import DEFAULT_JOB_GROUPS, JobGroup, job_group_text
from jobsight_server.command_line.trace_argument import add_trace, read_jobs
from jobsight_server.errors import UserError

SEARCHED = 0.7
"""Share of the jobs, earliest first, that the search may use."""

LEAST = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    finding = actions.add_parser("search", help="find job groups for a site on its own history and print the setting")
    add_trace(finding)
    finding.add_argument(
        "--jobs",
        type=int,
        default=20_000,
        metavar="COUNT",
        help="search on the earliest jobs, at most this many (default: 20000)",
    )
    finding.add_argument("--json", action="store_true", help="print JSON")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = finding.format_usage().strip()


def run(args: argparse.Namespace) -> int:
    jobs = read_jobs(args.trace, args.metric, args.cluster)
    if len(jobs) < LEAST or args.jobs < LEAST:
        raise UserError(f"{min(len(jobs), args.jobs)} jobs are too few to search on; give at least {LEAST}")
    held_back = len(jobs) - int(SEARCHED * len(jobs))
    sample = first_jobs(jobs, min(args.jobs, len(jobs) - held_back))
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("trying the default")
        found: Found | None = None
        default = None
        beside: dict[str, float] | None = None
        interrupted = False
        try:
            default = _score(sample, DEFAULT_JOB_GROUPS)
            for found in search(candidates(sample.questions), lambda job_groups: _score(sample, job_groups)):
                progress.update(task, description=f"{found.tried} tried, best {found.score:.4f}; {found.doing}")
            progress.update(task, description="replaying the jobs held back")
            job_groups = found.job_groups if found and found.score > default else DEFAULT_JOB_GROUPS
            beside = {
                "found": _score(jobs, job_groups, held_back),
                "default": _score(jobs, DEFAULT_JOB_GROUPS, held_back),
            }
        except KeyboardInterrupt:
            interrupted = True
    if found is None or default is None:
        print("jobsight job-groups: interrupted before anything was found", file=sys.stderr)
        return 130
    better = found.score > default
    account: dict[str, Any] = {
        "trace": jobs.name,
        "metric": jobs.metric,
        "job_groups": [job_group_text(job_group) for job_group in (found.job_groups if better else DEFAULT_JOB_GROUPS)],
        "tried": found.tried,
        "interrupted": interrupted,
        "searched": {"jobs": len(sample), "found": max(found.score, default), "default": default},
        "held_back": {"jobs": held_back, "found": None, "default": None} | (beside or {}),
    }
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        _show(account)
    return 130 if interrupted else 0


def _score(jobs: Jobs, job_groups: Sequence[JobGroup], last: int | None = None) -> float:
    """Mean accuracy over all jobs, or the last submitted; replayed from the first one in any case."""
    hits = accuracies(replay_jobsight(jobs, "completion", job_groups).forecasts, jobs.values)
    counted = np.argsort(jobs.submitted, kind="stable")[-last if last else 0 :]
    return float(hits[counted].mean())


def _show(account: dict[str, Any]) -> None:
    """Settings to paste, with remarks as comments."""
    print(f"# {account['metric']} of {account['trace']}: {account['tried']} sets tried, mean accuracy (default groups)")
    for name, words in (("searched", "jobs searched on"), ("held_back", "later jobs, held back")):
        line = account[name]
        scores = "not measured" if line["found"] is None else f"{line['found']:.4f} ({line['default']:.4f})"
        print(f"#   {scores} on {line['jobs']:,} {words}")
    if account["interrupted"]:
        print("# interrupted: the best so far")
    found, default = account["held_back"]["found"], account["held_back"]["default"]
    mark = ""
    if found is not None and found <= default:
        print(
            f"# The default did {'as well' if found == default else 'better'} on the later jobs: no reason to change."
        )
        print("# What the search found, in case you want it anyway:")
        mark = "# "
    print(f"{mark}job_groups = [")
    for job_group in account["job_groups"]:
        print(f'{mark}  "{job_group}",')
    print(f"{mark}]")
