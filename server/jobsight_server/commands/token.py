"""``jobsight token``: create, list and revoke tokens; a one-time login to the pages."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from jobsight_server.auth.sessions import create_login
from jobsight_server.auth.tokens import ROLES, ListedToken, create_token, list_tokens, revoke_token
from jobsight_server.command_line.answers import print_json
from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.databases import open_existing
from jobsight_server.commands.database import open_database
from jobsight_server.front.addresses import tcp_address
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import listed, stored_clusters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="create a token and print it; it is never shown again")
    create.add_argument("--role", required=True, choices=ROLES, help="role of the token")
    create.add_argument("--name", default="", metavar="TEXT", help="label shown in the list")
    create.add_argument("--cluster", metavar="NAME", help="role agent: cluster whose samples it may send")
    create.add_argument(
        "--nodes", metavar="NAMES", help="role agent: only these nodes, such as 'n[001-128],login1' (default: all)"
    )
    create.add_argument("--any-cluster", action="store_true", help="role agent: every cluster and node")
    create.add_argument("--user", metavar="NAME", help="role user: user with the jobs and advice to read")
    listing = actions.add_parser("list", help="list all tokens, without their secrets")
    listing.add_argument("--json", action="store_true", help="print JSON")
    revoke = actions.add_parser("revoke", help="revoke a token; takes effect within 5 s")
    revoke.add_argument("id", type=int, metavar="ID", help="number in the list")
    login = actions.add_parser("login", help="print a one-time login link, valid for an hour")
    login.add_argument("--url", help="address at which the browser reaches the site (default: from `listen`)")
    login.add_argument("--user", metavar="NAME", help="log in as this user (default: as an administrator)")
    for action in (create, listing, revoke):
        add_settings(action, "database")
    add_settings(login, "database", "listen")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(action.format_usage().strip() for action in actions.choices.values())


def run(args: argparse.Namespace) -> int:
    if args.action == "create":
        _check_scope(args)
    # A token can be created before the server's first start; everything else needs an existing database.
    engine = open_database(args) if args.action == "create" else open_existing(args)
    now = time.time()
    try:
        with engine.begin() as connection:
            if args.action == "create":
                number, secret = create_token(
                    connection, args.role, args.name, now, args.cluster, args.nodes, args.user
                )
                _warn_of_undeclared(args, stored_clusters(connection))
                print(f"token {number}, role {args.role}, on standard output; it is not shown again", file=sys.stderr)
                print(secret)
            elif args.action == "revoke":
                revoke_token(connection, args.id, now)
                print(f"token {args.id} is revoked")
            elif args.action == "login":
                url = (args.url or _own_url(settings_of(args).listen)).rstrip("/")
                print(f"{url}/login?once={create_login(connection, now, args.user or None)}")
            else:
                _print_list(list_tokens(connection), as_json=args.json)
    finally:
        engine.dispose()
    return 0


def _own_url(addresses: Sequence[str]) -> str:
    address = tcp_address(addresses)
    if address is None:
        raise UserError(f"the server listens on {addresses[0]} only: give --url with the address of the proxy")
    return f"http://{address}"


def _check_scope(args: argparse.Namespace) -> None:
    """Refuse a token for all clusters and nodes without an explicit request."""
    if args.role != "agent":
        if args.any_cluster:
            raise UserError(f"--any-cluster: a token of role {args.role} cannot send samples; leave it out")
        return
    if args.any_cluster and (args.cluster is not None or args.nodes is not None):
        raise UserError("--any-cluster with --cluster or --nodes: give one or the other")
    if args.cluster is None and not args.any_cluster:
        raise UserError(
            "an agent's token is for one cluster: give --cluster NAME, and --nodes 'n[001-128]' for some of its nodes, "
            "or --any-cluster for a token that may write as every node of every cluster"
        )


def _warn_of_undeclared(args: argparse.Namespace, stored: set[str]) -> None:
    known = stored | settings_of(args).declared_clusters
    if args.cluster is not None and known and args.cluster not in known:
        print(
            f"jobsight token: cluster {args.cluster!r} is not declared yet (known: {listed(known)}): its samples are "
            "refused until the server is started with its accounting directory, or with it in the setting clusters",
            file=sys.stderr,
        )


def _print_list(found: list[ListedToken], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print(f"{'id':>4}  {'role':<10}{'created':<18}{'revoked':<18}{'may send as':<24}name")
    for token in found:
        created, revoked = _moment(token.created), _moment(token.revoked)
        scope = _scope(token)
        print(f"{token.id:>4}  {token.role:<10}{created:<18}{revoked:<18}{scope:<24}{token.name}")


def _scope(token: ListedToken) -> str:
    if token.user is not None:
        return f"reads {token.user}"
    if token.role in ("scheduler", "submitter", "staff"):
        return "-"
    if token.cluster is None:
        return "any cluster"
    return f"{token.cluster} {token.nodes or 'any node'}"


def _moment(time_s: float | None) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M}" if time_s is not None else "-"
