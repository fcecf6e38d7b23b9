"""A small site with everything in it, served by the real application."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, insert
from tests import make
from tests.server.web import planted as planted_site

from jobsight_server.auth.tokens import create_token
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.learning.finished import KEEP_PEAKS
from jobsight_server.serve.app import create_app
from jobsight_server.settings.declared import Settings
from jobsight_server.settings.load import SETTINGS, load_settings
from jobsight_server.storage import schema
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.job_counts import count_all

NOW = 1_700_000_000.0
HOSTILE = "<script>alert(1)</script>"


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


DECLARED = {setting.name for setting in SETTINGS}


@dataclass
class Served:
    """The application over a filled database, a token of each role and the clock that it reads."""

    app: Flask
    engine: Engine
    clock: Clock
    tokens: dict[str, str] = field(default_factory=dict)

    def client(self, role: str | None = None) -> FlaskClient:
        client = self.app.test_client()
        if role is not None:
            client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {self.tokens[role]}"
        return client

    def app_with(self, settings: Settings) -> Flask:
        """The application with other settings, over the same database and clock."""
        return create_app(settings, self.app.extensions["jobsight"].read_engine, self.engine, self.clock)

    def person(self) -> FlaskClient:
        """An administrator's browser."""
        return make.person(self.app, self.engine, self.clock())


@pytest.fixture
def serve(database_url: str) -> Callable[..., Settings]:
    fixed = {"database": database_url, "ingest_listen": "127.0.0.1:1", "clusters": "alpha beta gamma a nowhere"}

    def settings(sections: dict[str, dict[str, Any]] | None = None, **flags: Any) -> Settings:
        """Settings: the core's as in flags, its limits and the tables of placing systems as values."""
        limits = {name: flags.pop(name) for name in list(flags) if name not in DECLARED}
        return replace(load_settings(flags={**fixed, **flags}), sections=sections or {}, **limits)

    return settings


@pytest.fixture
def served(
    engine: Engine, database_url: str, serve: Callable[..., Settings], fill_once: Callable[..., Any]
) -> Iterator[Served]:
    tokens = fill_once(engine, learned_site)
    reading = open_engine(database_url, "read")
    clock = Clock()
    app = create_app(serve(), reading, engine, clock)
    yield Served(app, engine, clock, dict(tokens))
    reading.dispose()


@pytest.fixture
def another(served: Any, serve: Any, database_url: str) -> Iterator[Callable[..., FlaskClient]]:
    """A scheduler's client of another process on the same database, with these settings."""
    reading = open_engine(database_url, "read")

    def start(**settings: str) -> FlaskClient:
        app = create_app(serve(**settings), reading, served.engine, served.clock)
        client = app.test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {served.tokens['scheduler']}"
        return client

    yield start
    reading.dispose()


@pytest.fixture
def restarted(another: Callable[..., FlaskClient]) -> Callable[..., Any]:
    """A function that posts JSON."""

    def start(**settings: str) -> Any:
        client = another(**settings)
        return lambda path, **body: client.post(path, json=body)

    return start


@pytest.fixture
def address(served: Any, tmp_path: Path) -> Iterator[str]:
    """The whole server, started by its command, over the filled database (SQLite)."""
    site = make.site(tmp_path, "--clusters", "alpha beta", clusters=())
    with site.serve():
        yield site.url.removeprefix("http://")
    assert "Traceback" not in site.log.read_text()


@pytest.fixture
def app(sqlite_engine: Engine) -> Flask:
    url = sqlite_engine.url.render_as_string(hide_password=False)
    return create_app(load_settings(flags={"database": url}), sqlite_engine, sqlite_engine, time.time)


@pytest.fixture
def client(app: Flask, sqlite_engine: Engine) -> FlaskClient:
    """Logged in."""
    return make.person(app, sqlite_engine)


def learned_site(engine: Engine) -> dict[str, str]:
    """The site of ``fill``, learned; a token of each role."""
    with engine.begin() as connection:
        roles = ("agent", "scheduler", "submitter", "admin")
        tokens = {role: create_token(connection, role, f"the {role}", NOW)[1] for role in roles}
        fill(connection)
    rebuild(engine)
    return tokens


def fill(connection: Connection) -> None:
    """Two clusters; user `ada` on both, a hostile user on one; a running job; a node with readings; refusals."""
    _fill_nodes(connection)
    position = 0
    for cluster, user, values in (
        ("alpha", "ada", (100.0, 200.0, 300.0)),
        ("beta", "ada", (7.0,)),
        ("alpha", HOSTILE, (5.0, 5.0)),
        ("beta", "group/bob", (9.0,)),
    ):
        for number, value in enumerate(values):
            run = add_job(connection, cluster, f"{number}.{user}", user, NOW - 5000 + number * 10)
            for metric in ("bandwidth", "memory"):
                position += 1
                row = {"run_id": run, "metric": metric, "learn_seq": position}
                if (metric, number) == ("memory", 0):
                    row["reason"] = "no samples of n2"
                else:
                    row |= {"value": value, "source": "samples", "attribution": "exclusive"}
                connection.execute(insert(schema.profiles).values(row))
                connection.execute(KEEP_PEAKS, {"runs": [run]})
    add_job(connection, "alpha", "77.server", "ada", NOW - 100, end=None, on={"n1.example.org": 4, "n9": 4})
    add_job(connection, "alpha", "<img src=x>/../1[2]", HOSTILE, NOW - 50)
    refused = {"received_at": NOW, "node": HOSTILE, "reason": "not JSON", "bytes": 3, "body": b"\xff\x00\x01"}
    connection.execute(insert(schema.quarantine).values(refused))
    reject = {"cluster": "alpha", "path": "/a", "line": 3, "reason": "cut", "text": "<b>"}
    connection.execute(insert(schema.accounting_rejects).values(reject))
    counts = {("batches_received", ""): 10, ("batches_stored", ""): 7, ("batches_duplicate", ""): 1}
    counts |= {("batches_quarantined", ""): 1, ("batches_rejected", 'too "large"\n'): 1, ("samples_stored", ""): 420}
    counts |= {("quarantined_because", "not JSON"): 1, ("accounting_rejected_because", "cut"): 1}
    add_event_counts(connection, counts)


def add_job(connection: Connection, cluster: str, job_id: str, user: str, start: float, **more: Any) -> int:
    row = {"cluster": cluster, "user": user, "start": start, "end": NOW, "processors": 4, "recorded_at": NOW}
    number = make.job(connection, job_id, **row | more)
    count_all(connection)
    return number


def _fill_nodes(connection: Connection) -> None:
    node = {
        "cpus": 4, "memory_total_bytes": 2**34, "first_time": NOW - 100, "last_time": NOW, "samples": 11, "wraps": 1,
        "interfaces": json.dumps([{"name": "eth0", "kind": "ethernet", "width_bits": 64, "speed_bps": None}]),
        "agent": json.dumps({"version": "0.1.0", "cpu_seconds": 0.5}), "boots": 1, "missing": 2,
    }  # fmt: skip
    make.node(connection, "n1", id=1, received_at=NOW - 30, clock_skew_s=0.25, **node)
    make.node(connection, "n2", id=2, cluster="beta", received_at=NOW - 600, **node)
    readings = [(NOW - 100 + 10 * i, 1000 * i, None if i == 5 else 250 * i, 20.0 * i, 2**30, 0.0) for i in range(11)]
    make.readings(connection, 1, readings, sequence=1, received_at=NOW - 30)


@pytest.fixture
def planted(engine: Engine, database_url: str, fill_once: Callable[..., None]) -> FlaskClient:
    """An administrator's browser on the site of ``plant``."""
    fill_once(engine, planted_site.plant)
    reading = engine.execution_options(reading=True)
    app = create_app(load_settings(flags={"database": database_url}), reading, engine, lambda: planted_site.NOW)
    return make.person(app, engine, planted_site.NOW)
