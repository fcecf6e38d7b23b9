"""The matching experiment through HTTP: batches in a closed loop, and arrivals at random, on a server of its own.

The published set-up: a client sends a batch, waits for the answer, has everything released (not timed) and sends the
next. The server is `jobsight serve` on an SQLite file in a temporary directory, with one query worker.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from jobsight_papers.matching.workload import MatchingWorkload, batch, repository
from jobsight_papers.own_server import free_address, serving
from jobsight_server.auth.tokens import create_token
from jobsight_server.ground.answers import Record
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade

SIZES = (10, 20, 30)
BATCHES = 20
RATES_PER_MINUTE = (500, 5_000, 30_000)

ARRIVING_S, MEAN_HOLD_S, OFFERED_LOAD = 10.0, 2.0, 0.9
_DRAIN_S = 30.0
_POST_EVERY_S = 0.02
_API = "/api/v1"


class ServiceBatch(Record):
    """One batch: the time at the client, and the server's parts of it to read the state, solve and store."""

    size: int
    number: int
    client_s: float
    query_s: float
    solve_s: float
    store_s: float
    matched: int
    is_optimal: bool


class ArrivalRun(Record):
    """Poisson arrivals for ``ARRIVING_S`` with exponential holds, through the queue.

    ``matched`` of ``jobs`` by ``_DRAIN_S`` after the last; times from submission to match; ``longest_queue`` as seen by
    the client; ``per_minute`` are matches over the time from the first arrival to the last match.
    """

    rate_per_minute: int
    jobs: int
    matched: int
    per_minute: float
    median_s: float | None
    p95_s: float | None
    longest_s: float | None
    longest_queue: int
    sent_late_s: float


class ServiceResults(Record):
    """All batches and all runs of arrivals."""

    batches: list[ServiceBatch]
    arrivals: list[ArrivalRun]


def measure_service(
    batches: int = BATCHES,
    rates: Sequence[int] = RATES_PER_MINUTE,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> ServiceResults:
    """Run the whole experiment; some minutes.

    Raises:
        UserError: the server does not start, or refuses something.
    """
    found = []
    with _server() as client:
        for size in SIZES:
            workload = MatchingWorkload(jobs=size, seed=seed)
            client.define(repository(workload))
            progress(f"batches of {size}")
            found += [_one_batch(client, workload, number) for number in range(-1, batches)][1:]
    runs = []
    for rate in rates:
        progress(f"{rate} jobs a minute")
        with _server() as client:
            runs.append(_arrivals(client, rate, seed))
    return ServiceResults(found, runs)


def _one_batch(client: _Client, workload: MatchingWorkload, number: int) -> ServiceBatch:
    """Send a batch as bytes made before the clock starts. Number -1 warms up, and does not count."""
    body = json.dumps({"jobs": batch(workload, max(number, 0)), "objectives": ["throughput"]}).encode()
    begin = time.perf_counter()
    answer = client.ask("POST", "/matches", body)
    client_s = time.perf_counter() - begin
    client.ask("POST", "/matches/release", json.dumps({"ids": [match["id"] for match in answer["matches"]]}).encode())
    spent = answer["time"]
    return ServiceBatch(
        workload.jobs,
        number,
        client_s,
        spent["query_s"],
        spent["solve_s"],
        spent["store_s"],
        len(answer["matches"]),
        answer["status"] == "optimal",
    )


def _arrivals(client: _Client, rate_per_minute: int, seed: int) -> ArrivalRun:
    rate = rate_per_minute / 60.0
    at_once = rate * MEAN_HOLD_S / OFFERED_LOAD
    workload = MatchingWorkload(
        jobs=max(1, round(rate * ARRIVING_S)), jobs_at_load=max(30, round(1.3 * at_once)), seed=seed
    )
    client.define(repository(workload))
    rng = np.random.default_rng((seed, 3))
    jobs = batch(workload, 0)
    due = np.cumsum(rng.exponential(1.0 / rate, len(jobs)))
    for job, hold_s in zip(jobs, rng.exponential(MEAN_HOLD_S, len(jobs)), strict=True):
        job["duration_s"] = float(hold_s)
    longest_queue, late_s, sent = 0, 0.0, 0
    begin = time.monotonic()
    while sent < len(jobs):
        now = time.monotonic() - begin
        ready = int(np.searchsorted(due, now, side="right"))
        if ready == sent:
            time.sleep(max(_POST_EVERY_S, due[sent] - now))
            continue
        late_s = max(late_s, now - float(due[sent]))
        client.ask("POST", "/matches/queue", json.dumps({"jobs": jobs[sent:ready]}).encode())
        sent = ready
        if sent % 7 == 0:
            longest_queue = max(longest_queue, client.ask("GET", "/matches?state=queued")["queued"])
    limit = time.monotonic() + _DRAIN_S
    while (waiting := client.ask("GET", "/matches?state=queued")["queued"]) and time.monotonic() < limit:
        longest_queue = max(longest_queue, waiting)
        time.sleep(0.2)
    rows = [(row["submitted_at"], row["matched_at"]) for row in client.all_matches() if row["matched_at"] is not None]
    if not rows:
        return ArrivalRun(rate_per_minute, len(jobs), 0, 0.0, None, None, None, longest_queue, late_s)
    times = np.array(rows)
    waited = times[:, 1] - times[:, 0]
    span_s = float(times[:, 1].max() - times[:, 0].min())
    return ArrivalRun(
        rate_per_minute,
        len(jobs),
        len(rows),
        len(rows) / max(span_s, 1e-9) * 60.0,
        float(np.median(waited)),
        float(np.quantile(waited, 0.95)),
        float(waited.max()),
        longest_queue,
        late_s,
    )


class _Client:
    """One connection that stays open, like a scheduler's."""

    def __init__(self, address: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        self._connection.request(method, _API + path, body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise UserError(f"{method} {path} was answered {answer.status}: {content[:300]!r}")
        return json.loads(content)

    def is_answered(self) -> bool:
        """Return whether the server answers, as it does once its database is there."""
        try:
            self.ask("GET", "/resources")
        except (OSError, http.client.HTTPException, UserError):
            self.close()
            return False
        return True

    def define(self, resources: Sequence[dict[str, Any]]) -> None:
        """Define these resources and no others."""
        for resource in self.ask("GET", "/resources?size=1000")["resources"]:
            self.ask("DELETE", f"/resources/{resource['name']}")
        for resource in resources:
            body = {name: value for name, value in resource.items() if name != "name"} | {"static": True}
            self.ask("PUT", f"/resources/{resource['name']}", json.dumps(body).encode())

    def all_matches(self) -> Iterator[dict[str, Any]]:
        number, pages = 1, 1
        while number <= pages:
            found = self.ask("GET", f"/matches?page={number}")
            pages = found["pages"]
            yield from found["matches"]
            number += 1

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _server() -> Iterator[_Client]:
    with tempfile.TemporaryDirectory(prefix="jobsight-matching-") as directory:
        database = f"sqlite:///{Path(directory) / 'jobsight.db'}"
        engine = open_engine(database)
        upgrade(engine)
        with engine.begin() as connection:
            _, token = create_token(connection, "admin", "experiment", time.time())
        engine.dispose()
        listen, ingest = free_address(), free_address()
        command = [sys.executable, "-m", "jobsight_papers.matching.server", database, listen, ingest]
        client = _Client(listen, token)
        try:
            with serving(command, client.is_answered, Path(directory) / "server.log"):
                yield client
        finally:
            client.close()
