"""One builder each for what many tests need: a job and a node as rows, a batch, a trace, a person, a running server."""

from __future__ import annotations

import io
import json
import math
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, Executable, delete, event, insert, select, text

from jobsight_papers.schedules.lublin import lublin
from jobsight_predictor.profile import Profile
from jobsight_predictor.runtime.accuracy import BINS, RuntimeAccuracy, accuracy_of_histogram, bin_of
from jobsight_scheduler.workload.swf import FIELDS, Trace, write_swf
from jobsight_server.auth.sessions import create_login
from jobsight_server.cli import main
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.ground.job_names import application
from jobsight_server.learning.finished import KEEP_PEAKS
from jobsight_server.storage.readings.sent import BatchInterface, deflate, pack, unpack
from jobsight_server.storage.schema import boots, job_nodes, jobs, log_reads, nodes, profiles
from jobsight_server.storage.schema import readings as table
from site_run import Site, free_address

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "batch.json").read_text())

Some = TypeVar("Some")


def not_none(value: Some | None, about: object = "") -> Some:
    """Return the value, which has to be there; ``about`` says of what, if it is not."""
    assert value is not None, about
    return value


def answered(answer: Any) -> Any:
    """Return the JSON of an answer, which has to be 200."""
    assert answer.status_code == 200, answer.text
    return answer.json


def rows(engine: Engine, query: str | Executable, values: Any = None) -> Sequence[Any]:
    """Return the rows of a query."""
    with engine.connect() as connection:
        return connection.execute(text(query) if isinstance(query, str) else query, values).all()


def queries_sent(engine: Engine) -> list[str]:
    """The list to which every query of an engine of SQLite is added from now on, also those that the driver runs."""
    sent: list[str] = []

    def note(statement: str) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            sent.append(statement)

    event.listen(engine, "connect", lambda driver, _record: driver.set_trace_callback(note))
    engine.dispose()
    return sent


def execute(engine: Engine, statement: str | Executable, values: Any = None) -> None:
    """Execute a statement in a transaction of its own."""
    with engine.begin() as connection:
        connection.execute(text(statement) if isinstance(statement, str) else statement, values)


def counts(engine: Engine) -> dict[tuple[str, str], int]:
    """Return the counts of events by name and label."""
    with engine.connect() as connection:
        return read_event_counts(connection)


def job_row(job_id: str = "1", **columns: Any) -> dict[str, Any]:
    """Return the row of a job of ``ada`` on ``alpha``: one that runs, or with an ``end`` one that is profiled."""
    row: dict[str, Any] = {"cluster": "alpha", "user": "ada", "start": 1.0, "end": None, **columns, "job_id": job_id}
    at = row["start"] if row["end"] is None else row["end"]
    row.setdefault("state", "running" if row["end"] is None else "ended")
    row.setdefault("profiled", row["state"] == "ended")
    row.setdefault("application", application(row["name"]) if row.get("name") else None)
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
    if row["state"] == "running":
        follow(connection, row["cluster"])
    for node_name, processors in (on or {}).items():
        connection.execute(insert(job_nodes).values(run_id=number, node=node_name, processors=processors))
    for metric, found in (used or {}).items():
        entry = found if isinstance(found, Mapping) else {"value": found}
        key = {"run_id": number, "metric": metric, "learn_seq": number}
        connection.execute(insert(profiles).values({**key, **entry}))
    connection.execute(KEEP_PEAKS, {"runs": [number]})
    return number


def follow(connection: Connection, cluster: str = "alpha") -> None:
    """Note that a log of the cluster is read, from now on: its runs without an end are running."""
    connection.execute(delete(log_reads).where(log_reads.c.cluster == cluster))
    connection.execute(insert(log_reads).values(cluster=cluster, source="log", at=2.0**33))


def node(connection: Connection, name: str = "n1", **columns: Any) -> int:
    """Store a node of two processors on ``alpha`` that has sent nothing yet; return its id."""
    row: dict[str, Any] = {"cluster": "alpha", "boot_id": "b", "cpus": 2, "interfaces": "[]"}
    row |= {"agent": "{}", "first_time": 0.0, "last_time": 0.0, "received_at": 0.0}
    row |= dict.fromkeys(("samples", "wraps", "resets", "boots", "missing"), 0)
    found = connection.execute(insert(nodes).values({**row, **columns, "name": name}).returning(nodes.c.id))
    return int(found.scalar_one())


def readings(
    connection: Connection,
    node_id: int,
    rows: Iterable[Sequence[Any]],
    *,
    boot_id: str = "b",
    deflated: bool = False,
    **columns: Any,
) -> None:
    """Store readings ``(time, in, out, cpu, memory, gap)``, and two more with InfiniBand, as one batch of the node.

    ``columns``: what its row has otherwise than that of a batch that came at 0.
    """
    found = list(zip(*sorted(rows), strict=True)) or [()] * 6
    time, net_in, net_out, busy, memory, gap, *ports = found
    ports = [column for column in ports if set(column) != {None}]
    names = ("ethernet", "infiniband") if ports else ("ethernet",)
    text = msgspec.json.encode([BatchInterface(name, name, 64) for name in names])
    both = zip((net_in, net_out), ports, strict=True) if ports else ()
    rest = [[a and a - (b or 0) for a, b in zip(*pair, strict=True)] for pair in both]
    whole = [memory, *(rest or (net_in, net_out)), *ports]
    counters = [[value if value is None else int(value) % 2**64 for value in column] for column in whole]
    boot = select(boots.c.id).where(boots.c.node_id == node_id, boots.c.boot_id == boot_id, boots.c.interfaces == text)
    number = connection.scalar(boot)
    if number is None:
        new = insert(boots).values(node_id=node_id, boot_id=boot_id, interfaces=text)
        number = connection.execute(new.returning(boots.c.id)).scalar_one()
    row: dict[str, Any] = {"node_id": node_id, "boot": number, "sequence": 0, "checksum": 0, "received_at": 0.0}
    packed = pack((time, busy, None, gap), counters)
    row |= {"samples": len(time), "packed": deflate(*unpack([packed], len(names))) if deflated else packed}
    row |= {"first_time": time[0], "last_time": time[-1]} if time else {}
    row |= columns
    connection.execute(insert(table).values({"last_sequence": row["sequence"], **row}))


def to_match(name: str, slots: float = 1, *, where: str = "", count: int = 1, **more: Any) -> dict[str, Any]:
    """Return a job to match that depends on so many compute servers, with these slots of each."""
    need = {"name": "c", "type": "compute", "amounts": {"slots": slots}, "where": where, "count": count}
    return {"name": name, "user": "ada", "dependencies": [need], **more}


def accuracy_of(ratios: np.ndarray, source: str = "site") -> RuntimeAccuracy:
    """Return the distribution of these ratios of run time to requested time."""
    counted = np.bincount([bin_of(ratio) for ratio in ratios.tolist()], minlength=BINS)
    return accuracy_of_histogram(counted.astype(np.float64), source)


def batch(**changes: Any) -> bytes:
    """Return the golden batch of four readings, changed."""
    return json.dumps({**GOLDEN, **changes}).encode()


def profile_of(state: Mapping[str, Any], metric: str = "", unit: str = "bytes") -> Profile:
    """Return the profile whose state this is, through JSON, as a server restores it."""
    profile = Profile(unit, metric=metric)
    profile.load(json.loads(json.dumps(state, allow_nan=False)))
    return profile


def trace(file: Path) -> Path:
    """Write 1,500 synthetic jobs of a machine with 64 processors."""
    write_swf(lublin(1500, 64, seed=1), file)
    return file


def memory_trace(file: Path, jobs: int = 400) -> Path:
    """Write jobs of 40 groups that request 32 MB on up to 4 nodes; half of the groups use 7 MB, the others 20.

    Neither the user nor the application alone says which.
    """
    rng = np.random.default_rng(1)
    group = rng.integers(0, 40, jobs)
    columns = {name: np.full(jobs, -1.0) for name in FIELDS}
    columns |= {
        "job": np.arange(1.0, jobs + 1.0),
        "submit_s": np.sort(rng.integers(0, 40_000, jobs)).astype(float),
        "run_s": rng.integers(100, 900, jobs).astype(float),
        "processors": rng.integers(1, 5, jobs).astype(float),
        "requested_s": np.full(jobs, 900.0),
        "requested_memory_kb": np.full(jobs, 32.0 * 1024),
        "memory_kb": np.where((group + group // 10) % 2, 7.0, 20.0) * 1024,
        "user": group % 10.0,
        "application": (group // 10).astype(float),
    }
    write_swf(Trace(columns), file)
    return file


def person(app: Flask, engine: Engine, now: float | None = None, user: str | None = None) -> FlaskClient:
    """Return a browser's client of ``app`` with the session of ``user``, or of an administrator."""
    client = app.test_client()
    with engine.begin() as connection:
        secret = create_login(connection, time.time() if now is None else now, user)
    assert client.post("/login", data={"once": secret}).status_code == 303
    return client


class RunningSite(Site):
    """A site whose tokens are made in this process: `jobsight` as a process of its own takes a second for each."""

    def _run(self, *command: str) -> str:
        with redirect_stdout(io.StringIO()) as printed:
            assert main([*command, "--database", self.database]) == 0
        return printed.getvalue()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON answer of ``/api/v1/PATH`` to this body, from an admin."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", content, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)


def site(
    directory: Path, *settings: str, clusters: Sequence[str] = ("alpha",), listen: str | None = None
) -> RunningSite:
    """Make a database and accounting files in ``directory``, to be served with these flags and one query worker."""
    return RunningSite(directory, clusters, listen or free_address(), ("--query-workers", "1", *settings))


class Printed(NamedTuple):
    """What a command prints."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the JSON that it printed."""
        return json.loads(self.out)


Jobsight = Callable[..., Printed]
"""Runs a command of `jobsight`; with ``on``, on that database, and with ``status``, it has to end so."""


def output_of(
    main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0
) -> str:
    """Return what a command prints, and of one that has to fail with ``status`` its complaint."""
    assert main([*map(str, arguments)]) == status
    shown = capsys.readouterr()
    return shown.err if status else shown.out


def json_of(
    main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str], *arguments: object
) -> dict[str, Any]:
    """Return what a command prints with ``--json``."""
    found: dict[str, Any] = json.loads(output_of(main, capsys, *arguments, "--json"))
    return found
