"""The command of the five forecasts over users X, Y and Z, and of the campaign of 600 jobs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from jobsight_papers.intervals import interval
from jobsight_papers.profile_guided import tune
from jobsight_papers.profile_guided.campaign import (
    PUBLISHED,
    CampaignJobs,
    campaign_account,
    over_seeds,
    sensitivity,
)
from jobsight_papers.profile_guided.emulated_site import EmulatedUse, measured_use, true_use
from jobsight_papers.profile_guided.report import show
from jobsight_papers.profile_guided.tuning import GRID
from jobsight_papers.profile_guided.users import PUBLISHED_PARAMETERS, user_account
from jobsight_papers.runner import add_outcome_arguments, add_run_arguments, give_out, refuse_out_of_range, run_all
from jobsight_predictor.series import DEFAULT_PARAMETERS, FiveParameters
from jobsight_server.command_line.trace_argument import part_of
from jobsight_server.ground.errors import UserError

METRICS = ("memory", "bandwidth")
SEEDS_AT_MOST = 1000
_NEAR = 0.01
"""Largest relative error of a measured value that agrees with the true one."""

EmulatedTask = tuple[str, int]
"""An emulation and its seed: ``published``, ``campaign``, or ``site``, the campaign through a real server."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=20, metavar="COUNT", help="emulated campaigns (default: 20)")
    parser.add_argument(
        "--site-seeds",
        type=int,
        default=1,
        metavar="COUNT",
        help="how many of these also go through agents, a TORQUE log and a server; 0 for none (default: 1)",
    )
    for name, kind, help_text in (
        ("window", int, "jobs in the sliding window forecast"),
        ("bins", int, "bins of the weighted forecast"),
        ("alpha", float, "smoothing of the exponential forecast"),
    ):
        default = getattr(PUBLISHED_PARAMETERS, name)
        help_text += f" (default: {default:g})"
        parser.add_argument(f"--{name}", type=kind, default=default, metavar="NUMBER", help=help_text)
    add_run_arguments(parser)
    add_outcome_arguments(parser)
    tune.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    parameters = _check(args)
    if args.tune is not None:
        return tune.run(args)
    if args.metric or any(part_of(args)):
        raise UserError("--metric, --cluster, --since and --until go with --tune")
    tasks: list[EmulatedTask] = [
        *(("site", seed) for seed in range(1, args.site_seeds + 1)),
        *(("published", seed) for seed in range(1, args.seeds + 1)),
        *(("campaign", seed) for seed in range(1, args.seeds + 1)),
    ]
    finished = run_all("profile-guided", emulate, tasks, args)
    account = _account(finished, args.seeds, args.site_seeds, parameters)
    give_out(account, args, "jobsight_papers.profile_guided.plot", show)
    return 0


def emulate(task: EmulatedTask) -> dict[str, Any]:
    """Return the use of the jobs of one emulation, in order of completion; any process may run it."""
    users, seed = task
    if users != "site":
        return {"true": true_use(users, seed)}
    with TemporaryDirectory() as directory:
        true, measured = measured_use("campaign", seed, Path(directory))
        return {"true": true, "measured": measured}


def _account(
    finished: dict[EmulatedTask, dict[str, Any]], seeds: int, site_seeds: int, parameters: FiveParameters
) -> dict[str, Any]:
    both = {"default": DEFAULT_PARAMETERS, "published": parameters}
    of_users = [finished["published", seed]["true"] for seed in range(1, seeds + 1)]
    campaigns = [finished["campaign", seed]["true"] for seed in range(1, seeds + 1)]
    return {
        "seeds": seeds,
        "parameters": {name: asdict(value) for name, value in both.items()},
        "published": PUBLISHED,
        "users": {
            name: {user.upper(): _user(of_users, user, value) for user in ("x", "y", "z")}
            for name, value in both.items()
        },
        "campaign": {
            name: {
                metric: over_seeds([campaign_account(_jobs(jobs, metric), value) for jobs in campaigns])
                for metric in METRICS
            }
            for name, value in both.items()
        },
        "sensitivity": {
            metric: _sensitivity([sensitivity(_jobs(jobs, metric)) for jobs in campaigns]) for metric in METRICS
        },
        "site": [
            _site(seed, finished["site", seed], campaigns[seed - 1], parameters) for seed in range(1, site_seeds + 1)
        ],
    }


def _user(of_seeds: Sequence[Sequence[EmulatedUse]], user: str, parameters: FiveParameters) -> dict[str, Any]:
    """Return the user's account of the first seed, in MB, and the figures over all seeds."""
    accounts = [
        user_account(np.array([use.memory for use in uses if use.user == user], dtype=np.float64) / 1e6, parameters)
        for uses in of_seeds
    ]
    figures = {
        name: {
            figure: interval([one["forecasters"][name][figure] for one in accounts]) for figure in ("accuracy", "next")
        }
        for name in accounts[0]["forecasters"]
    }
    counts = {name: interval([one[name] for one in accounts]) for name in ("pqm", "overshoots")}
    return accounts[0] | {"over_seeds": counts | {"forecasters": figures}}


def _jobs(uses: Sequence[EmulatedUse], metric: str) -> CampaignJobs:
    known = [(use.user, getattr(use, metric)) for use in uses if getattr(use, metric) is not None]
    return CampaignJobs(tuple(user for user, _ in known), np.array([value for _, value in known], dtype=np.float64))


def _sensitivity(of_seeds: Sequence[dict[str, list[float | None]]]) -> dict[str, list[dict[str, float | None]]]:
    return {
        parameter: [
            {"value": value, **interval([one[parameter][i] for one in of_seeds])} for i, value in enumerate(values)
        ]
        for parameter, values in GRID.items()
    }


def _site(
    seed: int, found: dict[str, Any], campaign: Sequence[EmulatedUse], parameters: FiveParameters
) -> dict[str, Any]:
    """Return one campaign forecast by a real server, compared with the same campaign without one."""
    true, measured = found["true"], found["measured"]
    of_job = {use.job_id: use for use in true}
    if [use.job_id for use in true] != [use.job_id for use in campaign]:
        raise UserError(f"seed {seed}: the emulator made different jobs with the server than without it")
    row: dict[str, Any] = {"seed": seed, "jobs": len(true), "profiled": len(measured), "metrics": {}}
    for metric in METRICS:
        pairs = [
            (value, getattr(of_job[use.job_id], metric))
            for use in measured
            if (value := getattr(use, metric)) is not None and use.job_id in of_job
        ]
        errors = np.array([abs(value - true_value) / true_value for value, true_value in pairs])
        pure = campaign_account(_jobs(true, metric), parameters)
        real = campaign_account(_jobs(measured, metric), parameters)
        row["metrics"][metric] = {
            "values": len(pairs),
            "within_1_percent": float((errors <= _NEAR).mean()) if len(errors) else None,
            "largest_error": float(errors.max()) if len(errors) else None,
            "users_above": {"pure": pure["users_above"], "site": real["users_above"]},
            "accuracy": {
                name: {"pure": pure["forecasters"][name]["accuracy"], "site": real["forecasters"][name]["accuracy"]}
                for name in pure["forecasters"]
            },
        }
    return row


def _check(args: argparse.Namespace) -> FiveParameters:
    refuse_out_of_range(
        ("--seeds", args.seeds, 1 <= args.seeds <= SEEDS_AT_MOST),
        ("--site-seeds", args.site_seeds, 0 <= args.site_seeds <= args.seeds),
        ("--window", args.window, args.window >= 1),
        ("--bins", args.bins, args.bins >= 1),
        ("--alpha", args.alpha, 0.0 < args.alpha <= 1.0),
    )
    return FiveParameters(args.window, args.bins, args.alpha)
