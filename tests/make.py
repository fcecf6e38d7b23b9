"""One builder each for what many tests need: rows of a job and of a node, and a running server."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from jobsight_server.cli import main
from jobsight_server.storage.schema import job_nodes, jobs, nodes, profiles
from site_run import Site, free_address


def job_row(job_id: str = "1", **columns: Any) -> dict[str, Any]:
    """Return the row of a job of ``ada`` on ``alpha``: one that runs, or with an ``end`` one that is profiled."""
    row: dict[str, Any] = {"cluster": "alpha", "user": "ada", "start": 1.0, "end": None, **columns, "job_id": job_id}
    at = row["start"] if row["end"] is None else row["end"]
    row.setdefault("state", "running" if row["end"] is None else "ended")
    row.setdefault("profiled", row["state"] == "ended")
    row.setdefault("recorded_at", at if math.isfinite(at) else 0.0)
    return row


def job(
    connection: Connection,
    job_id: str = "1",
    *,
    on: Mapping[str, int] | None = None,
    used: Mapping[str, float | Mapping[str, Any]] | None = None,
    **columns: Any,
) -> int:
    """Store a job, with the processors that it has on each node and the profile of each metric; return its id.

    A profile is a value, or columns of its row; it was learned in the order of the ids.
    """
    row = job_row(job_id, **columns)
    number = int(connection.execute(insert(jobs).values(row).returning(jobs.c.id)).scalar_one())
    for node_name, processors in (on or {}).items():
        connection.execute(insert(job_nodes).values(run_id=number, node=node_name, processors=processors))
    for metric, found in (used or {}).items():
        entry = found if isinstance(found, Mapping) else {"value": found}
        key = {"run_id": number, "metric": metric, "learn_seq": number}
        connection.execute(insert(profiles).values({**key, **entry}))
    return number


def node(connection: Connection, name: str = "n1", **columns: Any) -> int:
    """Store a node of two processors on ``alpha`` that has sent nothing yet; return its id."""
    row: dict[str, Any] = {"cluster": "alpha", "boot_id": "b", "cpus": 2, "interfaces": "[]", "counters": "{}"}
    row |= {"agent": "{}", "first_time": 0.0, "last_time": 0.0, "received_at": 0.0}
    row |= dict.fromkeys(("samples", "wraps", "resets", "boots", "missing"), 0)
    found = connection.execute(insert(nodes).values({**row, **columns, "name": name}).returning(nodes.c.id))
    return int(found.scalar_one())


class RunningSite(Site):
    """A site whose tokens are made in this process: `jobsight` as a process of its own takes a second for each."""

    def _run(self, *command: str) -> str:
        with redirect_stdout(io.StringIO()) as printed:
            assert main([*command, "--database", self.database]) == 0
        return printed.getvalue()


def site(
    directory: Path, *settings: str, clusters: Sequence[str] = ("alpha",), listen: str | None = None
) -> RunningSite:
    """Make a database and accounting files in ``directory``, to be served with these flags and one query worker."""
    return RunningSite(directory, clusters, listen or free_address(), ("--query-workers", "1", *settings))
