"""``jobsight refused``: what was refused, with reasons, and the body of a quarantined batch."""

from __future__ import annotations

import argparse
import json
import sys

from jobsight_server.commands.arguments import add_settings, open_existing
from jobsight_server.errors import UserError
from jobsight_server.views.refused import LISTED, quarantined_body, refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--limit", type=int, default=LISTED, metavar="COUNT", help=f"entries of each kind (default: {LISTED})"
    )
    parser.add_argument(
        "--body", type=int, metavar="ID", help="write the body of this quarantined batch to standard output"
    )


def run(args: argparse.Namespace) -> int:
    engine = open_existing(args, "read")
    try:
        with engine.connect() as connection:
            if args.body is not None:
                body = quarantined_body(connection, args.body)
                if body is None:
                    raise UserError(f"quarantined batch {args.body}: there is none of this number")
                sys.stdout.buffer.write(body)
                return 0
            found = refused(connection, max(0, args.limit))
    finally:
        engine.dispose()
    if args.json:
        print(json.dumps(found))
        return 0
    print("refused, by reason")
    for entry in found["refused"]:
        print(f"{entry['value']:>10}  {entry['name']}  {_shown(entry['label'])}")
    print(f"\nquarantined batches: {found['quarantine_kept']} kept")
    for entry in found["quarantine"]:
        where = f"{entry['cluster'] or '-'}/{entry['node'] or '-'}"
        print(f"{entry['id']:>10}  {_shown(where)}  {entry['bytes']} bytes: {_shown(entry['reason'])}")
    print(f"\naccounting lines: {found['accounting_rejects_kept']} kept")
    for entry in found["accounting_rejects"]:
        place = f"{entry['cluster']} {entry['path']}:{entry['line']}"
        print(f"{_shown(place)}: {_shown(entry['reason'])}: {_shown(entry['text'])}")
    return 0


def _shown(text: str) -> str:
    """What came from outside, without the control characters that could command a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
