"""A small site with hostile names in a real database, a real server on it, and Chromium."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from sqlalchemy import Connection, Engine, insert
from tests import make
from tests.browser.chromium import NoChromiumError, check_driver, find_chromium

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import BINS, accuracy_of_histogram
from jobsight_server.auth.sessions import create_login
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.ground.job_names import application
from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.storage import schema
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.job_counts import count_all
from jobsight_server.systems.matching import tables as matching_tables
from jobsight_server.systems.offers.offer import PlaceRequest, answer_request
from jobsight_server.systems.offers.outcome import confirm, report_end, report_start
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.offers.standing_plan import StandingPlans
from jobsight_server.upgrade.migrate import upgrade

SCRIPT = "<script>alert(1)</script>"
NAMES = (SCRIPT, "'; DROP TABLE jobs; --", "a/b", "..", "steady", "drifting", "switching", "ü" * 300)
expect.set_options(timeout=60_000)  # what a busy machine may take to draw a page
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOURS = 26
JOBS_EACH = 40


class Address(NamedTuple):
    """Where the site answers, and the database under it."""

    url: str
    engine: Engine

    def log_in(self, page: Page, user: str | None = None) -> None:
        """Open a one-time link, as ``user`` or as an administrator, and press its button."""
        with self.engine.begin() as connection:
            page.goto(f"{self.url}/login?once={create_login(connection, time.time(), user)}")
        page.get_by_role("button", name="Log in").click()


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Chromium without a window, installed where there is none; skips where that fails."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")

    def say(text: str) -> None:
        if reporter is not None:
            reporter.write_line(f"\n{text}")

    try:
        check_driver()
    except NoChromiumError as error:
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        try:
            program = find_chromium(Path(playwright.chromium.executable_path), say)
        except NoChromiumError as error:
            pytest.skip(str(error))
        chromium = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A separate server over a small learned site."""
    site = make.site(tmp_path_factory.mktemp("site"), clusters=())
    engine = open_engine(site.database)
    upgrade(engine)
    with engine.begin() as connection:
        fill(connection, time.time())
        mark_all(connection)
    rebuild(engine)
    count_marked(engine)
    with site.serve():
        yield Address(site.url, engine)
    engine.dispose()


@pytest.fixture(scope="module")
def context(browser: Browser, address: Address) -> Iterator[BrowserContext]:
    """A browser that logged in by a one-time link."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=address.url)
    context.set_default_timeout(60_000)
    page = context.new_page()
    address.log_in(page)
    expect(page.get_by_role("heading", name="Start")).to_be_visible()
    page.close()
    yield context
    context.close()


def fill(connection: Connection, now: float) -> None:
    """Two clusters with eight nodes each, a user and forty jobs per name, and something refused."""
    rng = random.Random(1)
    for c, cluster in enumerate(("alpha", "beta")):
        for number in range(8):
            add_node(connection, c * 8 + number + 1, cluster, f"n{number + 1:02}", now, rng)
    run_id = 0
    for number in range(JOBS_EACH):
        for u, user in enumerate(NAMES):
            run_id += 1
            end = now - 600 - (JOBS_EACH - number) * 2100 + u * 60
            add_job(connection, run_id, user, number, end, values_of(user, number, rng))
    make.job(connection, "<b>9", id=run_id + 1, on={"n01": 4}, recorded_at=now, **job_row(SCRIPT, now - 1500))
    row = {"received_at": now, "cluster": SCRIPT, "node": SCRIPT, "reason": f"time[3] = {SCRIPT}", "bytes": 9}
    connection.execute(insert(schema.quarantine), [row | {"body": b"x"}])
    reject = {"cluster": "alpha", "path": "20261120", "line": 7, "reason": "no key=value", "text": SCRIPT}
    connection.execute(insert(schema.accounting_rejects), [reject])
    count_all(connection)
    add_offers(connection, now)
    add_matches(connection, now)
    counts = {("batches_received", ""): 421, ("batches_stored", ""): 418, ("batches_duplicate", ""): 1}
    refused = {("batches_rejected", SCRIPT): 1, ("batches_quarantined", ""): 1, ("quarantined_because", "time"): 1}
    add_event_counts(connection, {**counts, **refused, ("samples_stored", ""): 16 * HOURS * 60})


def add_node(connection: Connection, node_id: int, cluster: str, name: str, now: float, rng: random.Random) -> None:
    """A node with a reading a minute; one of them silent since two hours, one late."""
    last = now - {3: 7200.0, 12: 900.0}.get(node_id, 5.0)
    traffic, busy, rows = 0.0, 0.0, []
    for minute in range(HOURS * 60):
        at = last - (HOURS * 60 - 1 - minute) * 60
        load = max(0.0, 0.5 + 0.45 * math.sin(minute / 90 + node_id) + rng.gauss(0, 0.04))
        traffic, busy = traffic + load * 60 * 25e6, busy + load * 60 * 16
        memory = None if minute % 211 == 7 else int(4e9 + 40e9 * load)
        rows.append((at, int(traffic), int(traffic * 0.4), busy, memory, 0.0))
    for n, row in enumerate(rows):
        make.readings(connection, node_id, [row], sequence=n, received_at=row[0])
    agent: dict[str, Any] = {"version": "0.1.0", "cpu_seconds": 3.2, "rss_bytes": 21_000_000, "readings": 1560}
    agent |= {"readings_missed": 0, "metrics_missed": {}, "batches_spooled": 0, "batches_dropped": 0}
    interfaces = [{"name": "eth0", "kind": "ethernet", "width_bits": 64, "speed_bps": 1e10}]
    make.node(
        connection, name, id=node_id, cluster=cluster, cpus=16, wraps=3, resets=1, memory_total_bytes=64 * 2**30,
        interfaces=json.dumps(interfaces), agent=json.dumps(agent), first_time=rows[0][0], last_time=last,
        received_at=last, clock_skew_s=0.21, samples=len(rows), boots=2, missing=HOURS * 60 // 211,
    )  # fmt: skip


def add_matches(connection: Connection, now: float) -> None:
    """Two resources, a match with a hostile name that holds a part of one, and a job that waits."""
    connection.execute(
        insert(matching_tables.matching_state).values(
            version=1, removal_version=0, definition_version=0, id=1, next_match=3
        )
    )
    for number, name in enumerate((SCRIPT.replace("/", ""), "n1"), 1):
        row = {"id": number, "name": name, "type": "compute", "attributes": json.dumps({"os": SCRIPT}), "cost": 1.0}
        row |= {"capacities": '{"slots": [8, 3]}', "is_static": number == 1, "state_at": now - 5000, "source": "test"}
        connection.execute(insert(matching_tables.resources).values(version=1, **row))
    need = {"name": SCRIPT, "type": "compute", "where": "os != 'x'", "amounts": {"slots": 2}}
    for number, state in ((1, "held"), (2, "queued")):
        job = json.dumps({"name": SCRIPT, "user": SCRIPT, "dependencies": [need]})
        row = {"id": number, "name": SCRIPT, "user": SCRIPT, "class": "ü" * 200, "priority": 1.0, "job": job}
        row |= {"state": state, "submitted_at": now, "rounds": 0, "version": 1, "until": now + 1e6, "matched_at": now}
        connection.execute(insert(matching_tables.matches).values(row))
    hold = {"match_id": 1, "dependency": SCRIPT, "resource_id": 1, "resource": SCRIPT.replace("/", "")}
    connection.execute(insert(matching_tables.holds).values(amounts='{"slots": 2}', **hold))


def add_offers(connection: Connection, now: float) -> None:
    """Add jobs with offered time slots on the eight nodes of a cluster; the first has ended."""
    plans, config = StandingPlans(), OffersSettings(max_failure=0.3)
    quarter = accuracy_of_histogram(np.bincount([24] * 90 + [99] * 10, minlength=BINS).astype(np.float64), "user")
    for i, user in enumerate((SCRIPT, "steady", "ü" * 300, "steady", SCRIPT, "drifting")):
        begin = now + (i % 3) * 1800.0
        asked = PlaceRequest("alpha", 8, Question(user, SCRIPT), 1 + i, 3600.0, begin, begin + 20_000.0, f"{i}<b>")
        number, _ = answer_request(connection, plans, config, asked, quarter, now)
        assert number is not None
        if i % 2 == 0:
            confirm(connection, number, None, now)
    report_start(connection, 1, None, now)
    report_end(connection, 1, "killed", None, now)


def values_of(user: str, number: int, rng: random.Random) -> dict[str, float | None]:
    """The use of a user's job: steady, drifting or switching, like the published users."""
    level = {"drifting": 1 + number / 10, "switching": 1.0 if number % 16 < 9 else 4.0}.get(user, 1.0)
    noise = rng.uniform(0.93, 1.07)
    return {
        "bandwidth": None if number % 13 == 5 else 8e6 * level * noise,
        "memory": 9e8 * level * noise,
        "cpu": min(1.0, 0.9 * noise),
        "runtime": 1700.0 * noise,
    }


def job_row(user: str, start: float) -> dict[str, Any]:
    """The columns of a job of ``user``, whose name is that of the application."""
    row = {
        "user": user,
        "group": "g",
        "account": "a b",
        "name": user,
        "application": application(user),
        "queue": "batch",
    }
    row |= {"start": start, "queued": start - 90, "processors": 8, "exec_host": "", "requested_walltime_s": 3600.0}
    return row | {"requested_memory_bytes": 8 * 2**32}


def add_job(
    connection: Connection, run_id: int, user: str, number: int, end: float, values: dict[str, float | None]
) -> None:
    job_id = SCRIPT if (user, number) == (SCRIPT, JOBS_EACH - 1) else f"{run_id}.server"
    hosts = ("n01", "n02", "n09") if number % 7 == 4 else ("n01", "n02")
    used: dict[str, dict[str, Any]] = {}
    for metric, value in values.items():
        used[metric] = {"value": value, "attribution": "exclusive", "source": "samples"}
        if value is None:
            used[metric]["reason"] = "no samples of n09"
        else:
            used[metric] |= {"bound": 1.2 * value} | ({"peak": value * 1.4} if metric == "bandwidth" else {})
    row = job_row(user, end - 1700) | {
        "end": end,
        "recorded_at": end + 5,
        "exit_status": -11 if number % 17 == 3 else 0,
    }
    make.job(connection, job_id, id=run_id, on=dict.fromkeys(hosts, 4), used=used, **row)
