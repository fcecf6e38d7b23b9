"""``jobsight check``: a test of the result of ``jobsight setup``, with one job from submission to seff."""

from __future__ import annotations

import argparse
import getpass
from itertools import chain

from rich.text import Text

from jobsight_server.command_line.terminal import Terminal
from jobsight_server.commands.setup import add_places, places_of
from jobsight_server.setup.checks import checks, follow
from jobsight_server.setup.run import check_user
from jobsight_server.setup.schedulers import SCHEDULERS
from jobsight_server.setup.server_items import plan_of

_SIGNS = {True: ("ok", "green"), False: ("FAILED", "red"), None: ("note", "yellow")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_places(parser)
    parser.add_argument("--user", metavar="NAME", default=getpass.getuser(), help="submit the test job as this user "
                        "(default: your own)")  # fmt: skip
    parser.add_argument("--limit", type=float, default=180.0, metavar="SECONDS", help="longest wait until the "
    "accounting log has the test job (default: 180)")  # fmt: skip
    parser.add_argument("--no-job", action="store_true", help="submit no job")


def run(args: argparse.Namespace) -> int:
    user = args.user
    check_user(user)
    del args.user  # the paths depend on the server's user
    places = places_of(args)
    console = Terminal(highlight=False)
    scheduler = SCHEDULERS[args.scheduler][0](places)
    failed = 0
    found = checks(plan_of(scheduler, places), scheduler, places)
    for finding in chain(found, [] if args.no_job else follow(scheduler, places, user, args.limit)):
        sign, colour = _SIGNS[finding.good]
        todo = "" if finding.good else f": {finding.todo}"
        console.print(Text(f"{sign:<7}", colour), Text(f"{finding.what}{todo}"), soft_wrap=True)
        failed += finding.good is False
    print(f"{failed} failed" if failed else "everything works")
    return 1 if failed else 0
