"""The way of the data is short: a question, a learned job and a page enter few modules, and no more with time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine
from tests.walk import Walk, entering

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.auth.tokens import create_token
from jobsight_server.learning.finished import profile_finished
from jobsight_server.serve.app import create_app
from jobsight_server.settings.declared import Settings

RECORD = (
    "{at};E;{number}.server;user={user} group=physics jobname={name} queue=batch ctime={begin} qtime={begin} "
    "etime={begin} start={begin} exec_host=n1/0+n1/1 Resource_List.mem=8gb Resource_List.nodect=1 "
    "Resource_List.nodes=1:ppn=2 Resource_List.walltime=02:00:00 session=1 end={end} Exit_status=0 "
    "resources_used.cput=00:30:00 resources_used.mem=900000kb resources_used.vmem=1000000kb "
    "resources_used.walltime=00:20:00\n"
)
QUESTION = (
    "/api/v1/predictions?cluster=alpha&user=ann&application=mesh&queue=batch&processors=2&memory_bytes=8G"
    "&walltime_s=7200&group=physics"
)
NOW = 1_700_000_000.0


def add_jobs(engine: Engine, log: Path, numbers: range) -> None:
    with log.open("a") as stream:
        for number in numbers:
            begin = int(NOW) - 200_000 + number * 1800
            at = time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(begin + 1200))
            user, name = ("ann", "bob", "cyd")[number % 3], ("mesh", "solve")[number % 2]
            stream.write(RECORD.format(at=at, number=number, user=user, name=name, begin=begin, end=begin + 1200))
    import_files(engine, [log], "alpha", lambda: NOW)


@pytest.fixture
def client(sqlite_engine: Engine, tmp_path: Path) -> FlaskClient:
    """An administrator of a site that has learned 59 jobs."""
    add_jobs(sqlite_engine, tmp_path / "20261101", range(1, 60))
    profile_finished(sqlite_engine, 0.0, lambda: NOW + 1e6)
    with sqlite_engine.begin() as connection:
        token = create_token(connection, "admin", "walks", NOW)[1]
    settings = Settings(database=str(sqlite_engine.url))
    found = create_app(settings, sqlite_engine, sqlite_engine, lambda: NOW).test_client()
    found.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return found


def walk(action: Callable[[], Any]) -> Walk:
    with entering() as entered:
        action()
    return entered


@pytest.mark.parametrize(
    ("url", "modules", "moves"),
    [
        (QUESTION, 21, 140),
        ("/api/v1/users", 12, 50),
        ("/api/v1/user?cluster=alpha&name=ann", 25, 220),
        ("/api/v1/accuracy", 11, 100),
        ("/api/v1/waste", 29, 440),
        ("/api/v1/job?cluster=alpha&name=7.server", 33, 210),
    ],
)
def test_an_answer_enters_few_modules(client: FlaskClient, url: str, modules: int, moves: int) -> None:
    assert client.get(url).status_code == 200  # the first time fills caches
    entered = walk(lambda: client.get(url))
    assert (len(entered) <= modules, entered.moves <= moves) == (True, True), (
        len(entered),
        entered.moves,
        "\n".join(entered),
    )


def test_a_learned_job_enters_few_modules(client: FlaskClient, sqlite_engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "20261102"  # of one line
    read = walk(lambda: add_jobs(sqlite_engine, log, range(60, 61)))
    learned = walk(lambda: profile_finished(sqlite_engine, 0.0, lambda: NOW + 1e6))
    for entered, modules, moves in ((read, 28, 230), (learned, 37, 1400)):
        assert (len(entered) <= modules, entered.moves <= moves) == (True, True), (
            len(entered),
            entered.moves,
            "\n".join(entered),
        )
