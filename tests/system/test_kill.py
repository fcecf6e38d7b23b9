"""`kill -9` in the middle of ingest and accounting, again and again, of one server and of several on one PostgreSQL:
nothing acknowledged is lost, nothing counts twice, every job is there once."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url
from tests.server.postgresql import create, drop, url_of
from tests.system.killed_site import Server, Work

from site_run import wait_until

CLUSTERS = ("alpha", "beta", "gamma")
FOLLOWING = ("--follow-interval-s", "0.05", "--profile-grace-s", "0")


class Questions(threading.Thread):
    """Asks query servers in turn, of which one at most is down: one of them always answers."""

    def __init__(self, servers: list[Server]) -> None:
        super().__init__()
        self.answered, self.unanswered, self.stop = 0, 0, threading.Event()
        self._servers = servers

    def run(self) -> None:
        while not self.stop.wait(0.1):
            for server in self._servers:
                with suppress(OSError, ValueError):
                    server.api("now")
                    self.answered += 1
                    break
            else:
                self.unanswered += 1


@pytest.fixture
def database(postgresql_url: str) -> Iterator[str]:
    """The URL of an empty database."""
    server = create_engine(make_url(postgresql_url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    name = create(server)
    yield url_of(server, name)
    drop(server, name)
    server.dispose()


def one_server(directory: Path, _: str) -> dict[str, Server]:
    return {"all": Server(directory / "all", None, ("alpha",), *FOLLOWING)}


def several_servers(directory: Path, database: str) -> dict[str, Server]:
    """Three collectors, two query servers and a background server."""
    declared = ("--clusters", " ".join(CLUSTERS), "--only")
    roles = [*(f"writer:{cluster}" for cluster in CLUSTERS), "query", "query"]
    servers = {
        f"{role} {number}": Server(directory / f"s{number}", database, (), *declared, role)
        for number, role in enumerate(roles)
    }
    return {"background": Server(directory / "b", database, ("alpha",), *declared, "background", *FOLLOWING), **servers}


# Servers, kills, and what a node sends and the scheduler writes between two of them, however fast the machine is.
KILLED: dict[str, tuple[Callable[[Path, str], dict[str, Server]], int, int, int]] = {
    "one server": (one_server, 12, 70, 100),
    "several servers": (several_servers, 15, 40, 60),
}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KILLED)
def test_kill_9_loses_nothing_and_doubles_nothing(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("JOBSIGHT_SEED", random.SystemRandom().randrange(10**6)))
    rng = random.Random(seed)
    print(f"JOBSIGHT_SEED={seed}")
    make_servers, kills, batches, jobs = KILLED[kind]
    found = make_servers(tmp_path, "" if kind == "one server" else request.getfixturevalue("database"))
    servers, queries = list(found.values()), [server for name, server in found.items() if name[:3] in {"all", "que"}]
    writers = {name.partition(":")[2].split()[0]: one for name, one in found.items() if name.startswith("writer")}
    work = Work(writers or {"alpha": servers[0]}, servers[0].accounting / "alpha")
    questions = Questions(queries)
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(Server.start, servers))
        work.start()
        if len(queries) > 1:
            questions.start()
        for number in range(kills):
            work.let_go(batches, jobs)
            if number % 2 == 0:  # every other time one is killed before much has come through
                work.wait_for_more()
            time.sleep(rng.uniform(0.05, 1.0))
            # Of two query servers, the other one has been up for a while.
            others = [server for server in servers if server not in queries]
            victims = [*others, queries[number % len(queries)]]
            victims[number % len(victims) if number < len(victims) else rng.randrange(len(victims))].start_again()
        work.end()
        wait_until(lambda: queries[0].settled(jobs * kills), 300, lambda: str(queries[0].api("now")["runs"]))
        questions.stop.set()
        if len(queries) > 1:
            questions.join(60)
            assert (questions.unanswered, questions.answered > 50) == (0, True)
    finally:
        work.stop.set()
        questions.stop.set()
        for server in servers:
            server.stop()
    assert work.scheduler.jobs == jobs * kills
    work.check(servers[0].database, kills // 2)


def test_what_cannot_be_served_together_is_refused(database: str, tmp_path: Path) -> None:
    alpha = Server(tmp_path / "alpha", database, (), "--clusters", "alpha beta", "--only", "writer:alpha")
    for options, message in (
        ((), "another `jobsight serve` runs on database"),
        (("--only", "writer:alpha,beta"), "writer of alpha"),
    ):
        alpha.start()
        second = Server(tmp_path / f"second{len(options)}", database, (), "--clusters", "alpha beta", *options)
        with pytest.raises(AssertionError, match=message):
            second.start()
        alpha.stop()
