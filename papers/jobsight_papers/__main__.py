"""``python -m jobsight_papers NAME``: each paper has a module ``command``, which declares its options and runs it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from jobsight_server.command_line.escaping import with_output
from jobsight_server.command_line.help_text import HelpParser
from jobsight_server.ground.errors import UserError

# Name -> (module, help). A module has ``add_arguments(parser)`` and ``run(args) -> exit status``.
PAPERS = {
    "matching": (
        "matching.command",
        "matching batches of jobs to shared resources: objectives, sizes and shapes, in process and through HTTP",
    ),
    "coallocation": (
        "coallocation.command",
        "spreading jobs over four clusters: placements, uplinks, loads and other scenarios",
    ),
    "schedules": (
        "schedules.command",
        "policies on one workload, job by job: first come, shortest first, EASY, EASY++, conservative, multifactor",
    ),
    "overprovisioning": (
        "overprovisioning.command",
        "giving jobs the memory that they need instead of what they request: estimators, node sizes and loads",
    ),
    "profile-guided": (
        "profile_guided.command",
        "the five published forecasts over users X, Y and Z, and over a campaign of 600 jobs",
    ),
    "overbooking": (
        "overbooking.command",
        "accepting jobs into gaps shorter than they request: strategies, P_max, failures",
    ),
    "ranking": (
        "ranking.command",
        "which machine of a campus grid a job should start on: ranks, job sets and loads",
    ),
    "design-cluster": (
        "overprovisioning.design_command",
        "which memory sizes suit the jobs of a log, within a budget",
    ),
}

_ALONE = ("design-cluster", "schedules")  # tools on a workload of one's own


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named paper; return 0 if done, 1 if it failed, 2 for wrong usage, 130 if interrupted, 141 unread."""
    return with_output("jobsight_papers", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["all"]:
        return max(_run([name, *arguments[1:]]) for name in PAPERS if name not in _ALONE)
    if not arguments or arguments[0] not in PAPERS:
        return _overview(arguments)
    name = arguments[0]
    module_name, help_text = PAPERS[name]
    module = importlib.import_module(f"{__package__}.{module_name}")
    parser = HelpParser(
        prog=f"python -m jobsight_papers {name}", description=f"{help_text[:1].upper()}{help_text[1:]}."
    )
    module.add_arguments(parser)
    try:
        status: int = module.run(parser.parse_args(arguments[1:]))
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    return status


def _overview(arguments: Sequence[str]) -> int:
    wanted = not arguments or arguments[0] in {"-h", "--help"}
    stream = sys.stdout if wanted else sys.stderr
    if not wanted:
        print(f"unknown paper {arguments[0]!r}", file=stream)
    print("usage: python -m jobsight_papers NAME [--help], or `all` with what each takes\n", file=stream)
    for name, (_, help_text) in PAPERS.items():
        print(f"  {name:<18}{help_text}", file=stream)
    return 0 if wanted else 2


if __name__ == "__main__":
    sys.exit(main())
