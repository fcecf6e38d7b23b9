"""``jobsight token``: create, list and revoke tokens; a one-time login to the pages."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime

from jobsight_server.auth.sessions import create_login
from jobsight_server.auth.tokens import ROLES, create_token, list_tokens, revoke_token
from jobsight_server.commands.arguments import add_settings, open_database, open_existing, settings_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token and print it, once")
    create.add_argument("--role", required=True, choices=ROLES, help="what it may do")
    create.add_argument("--name", default="", metavar="TEXT", help="whose it is, for the list")
    listing = actions.add_parser("list", help="show every token, without its secret")
    listing.add_argument("--json", action="store_true", help="print JSON")
    revoke = actions.add_parser("revoke", help="end a token; takes effect within 5 s")
    revoke.add_argument("id", type=int, metavar="ID", help="its number in the list")
    login = actions.add_parser("login", help="print a link that logs in once, valid for an hour")
    login.add_argument("--url", help="address of the site as the browser reaches it (default: from `listen`)")
    for action in (create, listing, revoke):
        add_settings(action, "database")
    add_settings(login, "database", "listen")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(action.format_usage().strip() for action in actions.choices.values())


def run(args: argparse.Namespace) -> int:
    # Only a new token may come before the server's first start; all else is about a database that is there.
    engine = open_database(args) if args.action == "create" else open_existing(args)
    now = time.time()
    try:
        with engine.begin() as connection:
            if args.action == "create":
                number, secret = create_token(connection, args.role, args.name, now)
                print(f"token {number}, role {args.role}; it is shown this once:", file=sys.stderr)
                print(secret)
            elif args.action == "revoke":
                revoke_token(connection, args.id, now)
                print(f"token {args.id} is revoked")
            elif args.action == "login":
                url = (args.url or f"http://{settings_of(args).listen}").rstrip("/")
                print(f"{url}/login?once={create_login(connection, now)}")
            else:
                _print_list(list_tokens(connection), as_json=args.json)
    finally:
        engine.dispose()
    return 0


def _print_list(found: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found))
        return
    print(f"{'id':>4}  {'role':<10}{'created':<18}{'revoked':<18}name")
    for token in found:
        created, revoked = _moment(token["created"]), _moment(token["revoked"])
        print(f"{token['id']:>4}  {token['role']:<10}{created:<18}{revoked:<18}{token['name']}")


def _moment(time_s: object) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M}" if isinstance(time_s, float) else "-"
