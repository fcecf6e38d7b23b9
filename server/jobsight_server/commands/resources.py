"""``jobsight resources``: sends what another monitor, or another Jobsight server, knows of resources to a server."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from jobsight_server.commands.ask_server import ask_server
from jobsight_server.errors import UserError
from jobsight_server.matching.ganglia import LARGEST_BYTES, read_ganglia

TOKEN = "JOBSIGHT_TOKEN"

_AT_ONCE = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    ganglia = actions.add_parser("read-ganglia", help="report the hosts in Ganglia's XML as compute servers")
    ganglia.add_argument("file", metavar="FILE|-", help="the XML, as from `nc gmond-host 8649`; - reads standard input")
    copy = actions.add_parser("copy", help="report the resources of another Jobsight server, as they are free there")
    copy.add_argument("source", metavar="URL", help="the other server, such as http://other:8470")
    copy.add_argument("--source-token-file", type=Path, metavar="FILE", help="a token of that server")
    copy.add_argument("--every", type=float, metavar="SECONDS", help="go on and repeat it until stopped")
    for action in (ganglia, copy):
        action.add_argument("--server", default="http://127.0.0.1:8470", metavar="URL", help="where to report to")
        action.add_argument(
            "--token-file", type=Path, metavar="FILE", help=f"token of role scheduler (default: ${TOKEN})"
        )


def run(args: argparse.Namespace) -> int:
    token = _token(args.token_file)
    if args.action == "read-ganglia":
        found = read_ganglia(_content(args.file), time.time())
        if found.skipped:
            print(f"{found.skipped} hosts without cpu_num were skipped", file=sys.stderr)
        return _send(args.server, token, found.reports, "ganglia")
    if args.every is not None and not 1 <= args.every <= 3600:
        raise UserError(f"--every {args.every:g}: give 1 to 3600 seconds")
    # Not the token of --server: the source may be a stranger to it.
    theirs = None if args.source_token_file is None else _token(args.source_token_file)
    while True:
        status = _send(args.server, token, _resources_of(args.source, theirs), "jobsight")
        if args.every is None:
            return status
        time.sleep(args.every)


def _resources_of(server: str, token: str | None) -> list[dict[str, Any]]:
    """The other server's resources; what is held there is in use here."""
    found = ask_server(server, token, "GET", "/resources?size=20000")["resources"]
    return [
        {
            "name": resource["name"],
            "type": resource["type"],
            "attributes": resource["attributes"],
            "capacities": {
                name: {"total": capacity["total"], "used": capacity["used"]}
                for name, capacity in resource["capacities"].items()
            },
        }
        for resource in found
        if not resource["stale"]
    ]


def _send(server: str, token: str, reports: list[dict[str, Any]], source: str) -> int:
    stored = created = rejected = 0
    for begin in range(0, len(reports), _AT_ONCE):
        body = {"source": source, "resources": reports[begin : begin + _AT_ONCE]}
        taken = ask_server(server, token, "POST", "/resources/state", body)
        stored, created = stored + taken["stored"], created + taken["created"]
        for entry in taken["rejected"]:
            rejected += 1
            print(f"{entry['name']}: {entry['reason']}", file=sys.stderr)
    print(f"{stored} reported, {created} new, {rejected} rejected")
    return 1 if rejected else 0


def _content(file: str) -> bytes:
    try:
        if file == "-":
            return sys.stdin.buffer.read(LARGEST_BYTES + 1)
        with Path(file).open("rb") as source:
            return source.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error


def _token(file: Path | None) -> str:
    if file is None:
        found = os.environ.get(TOKEN, "")
    else:
        try:
            found = file.read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"token file {file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UserError(f"token file {file}: {error}") from error
    token = found.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise UserError(f"no token: give --token-file FILE, or set {TOKEN}")
    return token
