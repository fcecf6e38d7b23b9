"""``jobsight import --list`` and ``--forget``: the list of files read, and their withdrawal."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from jobsight_server.command_line.answers import existing
from jobsight_server.command_line.arguments import settings_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.commands.withdraw import withdraw
from jobsight_server.forecasts import forecast_config
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import chosen
from jobsight_server.storage.schema import accounting_files


def show_files(args: argparse.Namespace) -> int:
    """List every file read by an import or by a server that follows a directory."""
    with existing(args, "read") as engine, engine.connect() as connection:
        found = _read_files(connection, args.cluster)
    if args.json:
        print(json.dumps(found))
        return 0
    print(f"{'lines':>9}  {'rejected':>8}  {'last read':<16}  cluster: file")
    for entry in found:
        rejected = "-" if entry["rejected"] is None else entry["rejected"]
        moment = f"{datetime.fromtimestamp(entry['updated'], UTC):%Y-%m-%d %H:%M}"
        print(f"{entry['lines']:>9}  {rejected:>8}  {moment:<16}  {entry['cluster']}: {entry['path']}")
    return 0


def forget_files(args: argparse.Namespace) -> int:
    """Withdraw the files, and retrain the model without their runs."""
    settings = settings_of(args)
    with existing(args) as engine:
        with engine.connect().execution_options(reading=True) as connection:
            known = {entry["cluster"] for entry in _read_files(connection)}
            cluster = chosen(args.cluster, known, "clusters with files")
        followed = {
            source.place.absolute() for source in settings.accounting if source.cluster == cluster and not source.sacct
        }
        for file in args.files:
            if followed & {file.absolute(), file.absolute().parent}:
                raise UserError(f"{file}: the server follows this directory and would read it again; move it out first")
        found = withdraw(engine, args.files, cluster, args.format)
        if found.runs:
            with Terminal(stderr=True).status("retraining"):
                rebuild(engine, forecast_config(settings))
    if args.json:
        print(json.dumps({"cluster": cluster, **asdict(found)}))
        return 0
    for path in found.paths:
        print(f"withdrawn: {path}")
    print(f"{found.lines} lines, {found.runs} runs removed{'; forecasts retrained without them' * bool(found.runs)}")
    print("A server that follows the directory of a withdrawn file reads it again: move the file out.")
    if not found.runs and not found.kept:
        print("the files describe no stored run")
    if found.kept:
        print(f"{found.kept} runs stay: other files describe them too")
    if found.absent:
        print(f"{found.absent} other files are absent: their data on these runs is removed too")
    return 0


def _read_files(connection: Connection, cluster: str | None = None) -> list[dict[str, Any]]:
    """Return every file with its lines; ``rejected`` is None if nothing was counted under this name."""
    table = accounting_files
    query = select(table.c.cluster, table.c.path, table.c.lines, table.c.updated, table.c.counts)
    if cluster is not None:
        query = query.where(table.c.cluster == cluster)
    found = []
    for row in connection.execute(query.order_by(table.c.cluster, table.c.path)).mappings():
        counts = {(name, label): n for name, label, n in json.loads(row["counts"])}
        rejected = counts.get(("accounting_lines", "rejected"), 0) if counts or not row["lines"] else None
        found.append({**{key: row[key] for key in ("cluster", "path", "lines", "updated")}, "rejected": rejected})
    return found
