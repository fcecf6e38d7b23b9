"""``jobsight setup``: installs Jobsight beside a scheduler, after showing its steps."""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
from pathlib import Path

from jobsight_server.command_line.terminal import Terminal
from jobsight_server.front.addresses import split_address, tcp_address
from jobsight_server.ground.errors import UserError
from jobsight_server.settings.load import load_settings
from jobsight_server.setup.apply import apply, remove
from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.places import USER, Places
from jobsight_server.setup.plan import CHANGE, File, state
from jobsight_server.setup.run import check_user
from jobsight_server.setup.schedulers import SCHEDULERS
from jobsight_server.setup.server_items import plan_of
from jobsight_server.setup.show import show, show_difference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_places(parser)
    parser.add_argument(
        "--user", metavar="NAME", default="", help=f"user of the server (default: {USER}, created if missing)"
    )
    parser.add_argument("--agents-url", metavar="URL", help="address that agents send to, such as that of a TLS proxy; "
                        "without it, the writer listens on all addresses of this host")  # fmt: skip
    parser.add_argument("--users-url", metavar="URL", help="address of API and pages for login nodes: of a TLS proxy "
                        "(https://...), or of this host (http://ADDRESS:PORT), where the server then listens; without "
                        "it, they are open to this host only")  # fmt: skip
    parser.add_argument("--configure", action="store_true", help="change the scheduler's configuration too: "
                        "slurm.conf, or by qmgr and qconf; without it, the lines are shown")  # fmt: skip
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--dry-run", action="store_true", help="show the steps without doing them")
    actions.add_argument("--yes", action="store_true", help="do not ask; keep files that were edited here")
    actions.add_argument("--remove", action="store_true", help="undo the setup; keep the database and edited files")


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the places of everything."""
    parser.add_argument("scheduler", choices=SCHEDULERS, metavar="SCHEDULER", help=", ".join(SCHEDULERS))
    parser.add_argument("--cluster", metavar="NAME", help="name of the cluster in Jobsight (default: the scheduler's)")
    parser.add_argument("--port", type=int, metavar="PORT", help="port of the server; the writer uses the next "
                        "(default: as in the settings, else 8470)")  # fmt: skip
    parser.add_argument("--prefix", type=Path, default=Path("/"), metavar="DIRECTORY", help="install everything "
    "below it, without a service or a user, to try Jobsight (default: /)")  # fmt: skip


def places_of(args: argparse.Namespace) -> Places:
    """Return the places of everything.

    Raises:
        UserError: the user of ``--user`` does not exist, or the port is invalid or not that of the settings.
    """
    places = Places(args.prefix.resolve())
    before = Manifest.load(places.manifest(args.scheduler))
    user = getattr(args, "user", "") or before.user
    if user:
        check_user(user)
    users_url = getattr(args, "users_url", None)
    given = _listen(users_url) if users_url else ""
    present: str | None = f"127.0.0.1:{args.port or 8470}"
    if places.settings.exists():
        present = tcp_address(load_settings(places.settings).listen)
    if not given and present is None:
        raise UserError(f"{places.settings}: the scheduler needs an address HOST:PORT; add one to `listen` there")
    host, port = split_address(given or present or "")
    if args.port not in (None, port):
        where = users_url if given else places.settings
        raise UserError(f"--port {args.port}: {where} has port {port}; change it there")
    if not 0 < port < 65535:
        raise UserError(f"--port {port}: give one from 1 to 65534")
    try:
        address = "127.0.0.1" if host in ("0.0.0.0", "localhost") else socket.gethostbyname(host)
    except OSError as error:
        raise UserError(f"{host}: {error}") from error
    return Places(
        places.prefix, args.cluster or before.cluster, address, port,
        getattr(args, "agents_url", None) or before.agents_url, getattr(args, "configure", False), user,
        users_url or before.users_url, given,
    )  # fmt: skip


def _listen(users_url: str) -> str:
    """Return the address of this host in ``--users-url``; empty for a proxy's.

    Raises:
        UserError: not an address of the server.
    """
    if re.fullmatch(r"https://[\w.:-]+(/[\w./-]*)?", users_url):
        return ""
    if (found := re.fullmatch(r"http://([\w.-]+:\d+)/?", users_url)) and not found[1].startswith("0.0.0.0"):
        return found[1]
    raise UserError(f"--users-url {users_url}: give https://HOST of a proxy, or http://ADDRESS:PORT of this host")


def run(args: argparse.Namespace) -> int:
    places = places_of(args)
    if os.geteuid() != 0 and not args.dry_run:
        raise UserError("run this as root: files it writes belong to root, the scheduler's user and the server's")
    read, leave = SCHEDULERS[args.scheduler]
    if args.remove:
        remove(places, args.scheduler, leave, print)
        _say_how_to_leave_nodes(places, args.scheduler)
        return 0
    console = Terminal(highlight=False)
    scheduler = read(places)
    plan = plan_of(scheduler, places)
    manifest = Manifest.load(places.manifest(scheduler.kind))
    to_do = show(plan, scheduler.shown, scheduler.notes, manifest, console)
    if args.dry_run or not to_do:
        print("nothing to change" if not to_do else f"{to_do} to do; nothing was changed")
        return 0
    if not args.yes and not _asked("Do this?"):
        print("nothing was changed")
        return 1

    def replace(file: File) -> bool:
        if args.yes:
            print(f"kept {file.path}: it was edited here")
            return False
        show_difference(file, console)
        return _asked(f"Replace {file.path}, which was edited here?")

    changed = any(state(item, manifest) == CHANGE for item in plan if getattr(item, "path", None) == places.settings)
    apply(plan, places, scheduler.kind, replace, print)
    if changed:
        print("the server's settings changed: restart it")
    if not places.has_services:
        print(f"start the server: {places.program} serve --config {places.settings}")
    print(f"then: {places.command('check', scheduler.kind)}")
    return 0


def _say_how_to_leave_nodes(places: Places, kind: str) -> None:
    steps = [
        f"on each node, as root: sh {places.archive} --uninstall",
        f"here: rm {places.archive}",
    ]
    if kind == "slurm":
        steps.insert(0, "where nodes have copies of slurm.conf: distribute the new one, then `scontrol reconfigure`")
    print("remaining steps, in this order:")
    for number, step in enumerate(steps, 1):
        print(f"{number}. {step}")


def _asked(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UserError("standard input is not a terminal: give --yes or --dry-run")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
