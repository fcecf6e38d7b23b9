"""``jobsight experiment``: a whole experiment. Each has its own module, which declares its options and runs it."""

from __future__ import annotations

import argparse
import importlib

# Name -> (module, help). A module has ``add_arguments(parser)`` and ``run(args) -> exit status``.
EXPERIMENTS = {
    "matching": (
        "jobsight_server.commands.experiment_matching",
        "matching batches of jobs to shared resources: objectives, sizes and shapes, in process and through HTTP",
    ),
    "coallocation": (
        "jobsight_server.commands.experiment_coallocation",
        "spreading jobs over four clusters of 32 processors: six policies, uplinks and loads",
    ),
    "overprovisioning": (
        "jobsight_server.commands.experiment_overprovisioning",
        "giving jobs the memory that they need instead of what they request: estimators, node sizes and loads",
    ),
    "profile-guided": (
        "jobsight_server.commands.experiment_profile_guided",
        "the five published forecasts over users X, Y and Z, and over a campaign of 600 jobs",
    ),
    "overbooking": (
        "jobsight_server.commands.experiment_overbooking",
        "accepting jobs into gaps shorter than they request: strategies, P_max, failures",
    ),
    "ranking": (
        "jobsight_server.commands.experiment_ranking",
        "which machine of a campus grid a job should start on: ranks, job sets and loads",
    ),
    "design-cluster": (
        "jobsight_server.commands.experiment_design_cluster",
        "which memory sizes suit the jobs of a log, within a budget",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    choices = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, (module, help_text) in EXPERIMENTS.items():
        importlib.import_module(module).add_arguments(choices.add_parser(name, help=help_text))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(choice.format_usage().strip() for choice in choices.choices.values())


def run(args: argparse.Namespace) -> int:
    status: int = importlib.import_module(EXPERIMENTS[args.name][0]).run(args)
    return status
