"""``jobsight quarantine``: rejected data with reasons; the content of a batch; retrying batches."""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from sqlalchemy import Engine

from jobsight_server.accounting.text import escaped
from jobsight_server.command_line.answers import existing
from jobsight_server.command_line.arguments import add_settings
from jobsight_server.queries.rejected import LISTED, Rejected, rejected_data
from jobsight_server.storage.errors import UserError
from jobsight_server.storage.quarantined import body_of, mark_for_retry, outcomes_of

_SHOWN_CHARACTERS = 20_000
_LOOK_S = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list", json=False, limit=LISTED)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="list rejected data by reason, and the batches kept (the default)")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.add_argument("--limit", type=int, default=LISTED, help=f"entries to show of each kind (default: {LISTED})")
    show = actions.add_parser("show", help="show one batch with its reason and content")
    show.add_argument("id", type=int, metavar="ID", help="number in the list")
    show.add_argument(
        "--body", action="store_true", help="write the batch's body to standard output, exactly as it was sent"
    )
    retry = actions.add_parser("retry", help="let the running server process batches again")
    retry.add_argument("ids", type=int, nargs="*", metavar="ID", help="numbers in the list (default: all)")
    retry.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="give up after this many seconds (default: 60)"
    )
    for action in (parser, listing, show, retry):
        add_settings(action, "database")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(action.format_usage().strip() for action in actions.choices.values())


def run(args: argparse.Namespace) -> int:
    with existing(args, "write" if args.action == "retry" else "read") as engine:
        if args.action == "show":
            return _show(engine, args.id, body_only=args.body)
        if args.action == "retry":
            return _retry(engine, args.ids, args.wait)
        with engine.connect() as connection:
            found = rejected_data(connection, max(0, args.limit))
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        _print_list(found)
    return 0


def _print_list(found: Rejected) -> None:
    print("rejected, by reason" if found.rejected else "nothing was rejected")
    for count in found.rejected:
        print(f"{count.value:>10}  {count.name}  {escaped(count.label)}")
    print(
        f"\nquarantined batches: {found.quarantine_kept} kept ({found.quarantine_held_bytes} bytes), "
        f"{found.quarantine_dropped} dropped for lack of space, {found.quarantine_taken_in} stored after a retry"
    )
    for batch in found.quarantine:
        where = f"{batch.cluster or '-'}/{batch.node or '-'}"
        size = f"{batch.bytes} bytes" if batch.bytes or batch.cluster is None else "kept by its agent"
        waits = " (waiting for a retry)" if batch.retry else ""
        print(f"{batch.id:>10}  {_moment(batch.received_at)}  {escaped(where)}  {size}: {escaped(batch.reason)}{waits}")
    print(f"\naccounting lines: {found.accounting_rejects_kept} kept")
    for line in found.accounting_rejects:
        place = f"{line.cluster} {line.path}:{line.line}"
        print(f"{escaped(place)}: {escaped(line.reason)}: {escaped(line.text)}")


def _show(engine: Engine, number: int, *, body_only: bool) -> int:
    with engine.connect() as connection:
        kept = body_of(connection, number)
    if kept is None:
        raise UserError(f"quarantined batch {number}: no such batch; `jobsight quarantine list` shows them")
    if body_only:
        sys.stdout.buffer.write(kept.body)
        return 0
    print(f"received  {_moment(kept.received_at)} UTC")
    print(f"from      {escaped(kept.cluster or '-')}/{escaped(kept.node or '-')}")
    print(f"reason    {escaped(kept.reason)}")
    print(
        f"size      {kept.bytes} bytes" + ("" if kept.bytes == len(kept.body) else f", {len(kept.body)} of them kept")
    )
    if not kept.bytes and kept.cluster is not None:
        print("\nNot kept here: its agent still has it and will send it again.")
        return 0
    text = _unpacked(kept.body).decode("utf-8", "backslashreplace")
    print(f"\n{escaped(text[:_SHOWN_CHARACTERS])}")
    if len(text) > _SHOWN_CHARACTERS:
        print(f"... {len(text) - _SHOWN_CHARACTERS} more characters: --body gives all")
    return 0


def _retry(engine: Engine, ids: Sequence[int], wait_s: float) -> int:
    with engine.begin() as connection:
        marked = mark_for_retry(connection, set(ids))
    missing = sorted(set(ids) - set(marked))
    if missing:
        raise UserError(f"quarantined batch {missing[0]}: no such batch is kept; `jobsight quarantine list` shows them")
    if not marked:
        print("the quarantine is empty")
        return 0
    deadline = time.monotonic() + wait_s
    while True:
        with engine.connect().execution_options(reading=True) as connection:
            waiting, again = outcomes_of(connection, set(marked))
        if not waiting or time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S)
    print(f"{len(marked) - waiting - len(again)} of {len(marked)} batches were accepted")
    for number, reason in again[:LISTED]:
        print(f"{number:>10}  rejected again: {escaped(reason)}")
    if waiting:
        print(f"{waiting} waiting: a server retries them while it runs, or when it next starts", file=sys.stderr)
    return 1 if waiting or again else 0


def _unpacked(body: bytes) -> bytes:
    """Return the body, unpacked as far as possible."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, 8 * _SHOWN_CHARACTERS)
    except zlib.error:
        return body


def _moment(time_s: float) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M:%S}"
