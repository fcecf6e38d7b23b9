"""The page Now on a small site: which job uses the network, what may run out, what is silent, the backlog."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert, text
from tests import make

from jobsight_server.serve.app import create_app
from jobsight_server.settings import load_settings
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.server_states import KEPT_S, record_state, trend

NOW = 1_700_000_000.0
GIB = 2**30


def node(number: int, age_s: float, bps: float, load: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One of 10 processors and 64 GiB, with a reading a minute for ten minutes."""
    last = NOW - age_s
    agent = {"version": "0.3.0" if number else "0.2.0", "batches_spooled": 3 * (number == 1), "batches_dropped": 0}
    row = {"id": number + 1, "cluster": "alpha", "name": f"n{number}", "boot_id": "b", "cpus": 10, "interfaces": "[]"}
    row |= {"memory_total_bytes": 64 * GIB, "counters": "{}", "agent": json.dumps(agent), "first_time": last - 600}
    row |= {"last_time": last, "received_at": last, "samples": 11, "wraps": 0, "resets": 0, "boots": 1, "missing": 0}
    samples = [
        {"node_id": number + 1, "time": last - 60 * (10 - minute), "net_in_bytes": int(bps * 60 * minute / 8)}
        | {"net_out_bytes": 0, "cpu_busy_s": load * 10 * 60 * minute, "memory_used_bytes": 16 * GIB, "gap_s": 0.0}
        for minute in range(11)
    ]
    return row, samples


def running(number: int, hours_left: float, **changes: Any) -> dict[str, Any]:
    job = {"id": number, "user": f"u{number}", "start": NOW - 3600, "processors": 4, "profiled": False}
    job |= {"requested_memory_bytes": 8 * GIB, "requested_walltime_s": 3600 * (1 + hours_left)}
    return make.job_row(f"{number}.s", **job | changes)


@pytest.fixture
def client(engine: Engine, database_url: str) -> FlaskClient:
    nodes = [node(0, 30, 1e9, 0.5), node(1, 30, 3e9, 0.9), node(2, 7200, 5e9, 0.2), node(3, 30, 0, 0.0)]
    jobs = [running(1, 5.0), running(2, 0.5), running(3, 5.0), running(4, 5.0, requested_walltime_s=None)]
    held = [(1, "n0", 4), (2, "n1", 4), (3, "n1", 2), (4, "n3.site.org", 4)]
    used = [(1, GIB, None), (2, 0.5 * GIB, None), (3, 1.9 * GIB, None), (4, None, "no samples of n3")]
    with engine.begin() as connection:
        connection.execute(insert(schema.nodes), [row for row, _ in nodes])
        connection.execute(insert(schema.samples), [sample for _, samples in nodes for sample in samples])
        connection.execute(insert(schema.jobs), jobs)
        rows = [dict(zip(("run_id", "node", "processors"), row, strict=True)) for row in held]
        connection.execute(insert(schema.job_nodes), rows)
        names = ("run_id", "memory", "reason")
        rows = [dict(zip(names, row, strict=True)) | {"until": NOW, "idle_bytes": 0.0} for row in used]
        connection.execute(insert(schema.running_use), rows)
        log = {"cluster": "alpha", "path": "/log", "head_digest": "", "offset": 1, "lines": 1, "updated": NOW - 90}
        connection.execute(insert(schema.accounting_files), [log])
        count_all(connection)
    return make.person(
        create_app(load_settings(flags={"database": database_url}), engine, engine, lambda: NOW), engine, NOW
    )


def ask(client: FlaskClient, **query: Any) -> Any:
    answer = client.get("/api/v1/now", query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def test_which_job_uses_the_network_now(client: FlaskClient) -> None:
    found = ask(client)
    # Two jobs share n1, by 4 and 2 processors.
    assert [job["job_id"] for job in found["jobs"]] == ["2.s", "1.s", "3.s", "4.s"]
    assert [job["bandwidth_bps"] for job in found["jobs"]] == [pytest.approx(bps) for bps in (2e9, 1e9, 1e9, 0)]
    assert [job["is_shared"] for job in found["jobs"]] == [True, False, True, False]
    page = " ".join(client.get("/").text.split())
    assert 'Job <a class="name" href="/job?cluster=alpha&amp;name=2.s"' in page.split('id="answer"')[1].split("</p>")[0]


def test_what_may_run_out_within_the_hour(client: FlaskClient) -> None:
    found = ask(client, sort="risk")
    risks = {job["job_id"]: job["risks"] for job in found["jobs"]}
    assert risks == {"2.s": ["time"], "3.s": ["memory"], "1.s": [], "4.s": []}
    assert found["at_risk"] == 2
    memory = {job["job_id"]: job["memory_bytes"] for job in found["jobs"]}
    assert memory == {"1.s": 4 * GIB, "2.s": 2 * GIB, "3.s": 7.6 * GIB, "4.s": None}
    assert ask(client, sort="left")["jobs"][0]["left_s"] == pytest.approx(1800)
    assert [job["left_s"] for job in ask(client, sort="left")["jobs"]][-1] is None
    assert ask(client, sort="memory")["jobs"][0]["job_id"] == "3.s"


def test_which_node_is_silent_and_since_when(client: FlaskClient, engine: Engine) -> None:
    with engine.connect() as connection:
        query = text("SELECT name, received_at FROM nodes WHERE received_at < :hour")
        wanted = [tuple(row) for row in connection.execute(query, {"hour": NOW - 3600})]
    assert [(each["name"], each["since"]) for each in ask(client)["silent"]] == wanted == [("n2", NOW - 7200)]
    page = " ".join(client.get("/").text.split())
    assert "1 of 4 nodes is silent</a>" in page
    assert '<a class="silent" href="/node?cluster=alpha&amp;name=n2" title="n2: silent for 2 h">' in page


def test_the_map_shows_what_nodes_do(client: FlaskClient) -> None:
    loads = {each["name"]: each for each in client.get("/api/v1/node-loads").get_json()["nodes"]}
    assert {name: each["load"] for name, each in loads.items()} == {
        "n0": pytest.approx(0.5),
        "n1": pytest.approx(0.9),
        "n2": None,
        "n3": 0,
    }
    assert loads["n0"]["memory"] == 0.25
    assert loads["n1"]["bandwidth_bps"] == pytest.approx(3e9)
    page = client.get("/?map=bandwidth").text
    assert 'title="n1: 3.00 Gbit/s"' in page
    assert 'class="h4"' in page.split('id="map"')[1]
    assert client.get("/?map=heat").status_code == 400
    assert "Load of each node" not in page
    assert "Load of each node" in client.get("/?map=memory&table=yes").text


def test_whether_the_server_keeps_up(client: FlaskClient, engine: Engine) -> None:
    server = ask(client)["server"]
    assert server["logs"] == [{"cluster": "alpha", "age_s": 90.0, "files": 1}]
    assert (server["spooled"], server["spooling_nodes"]) == (3, 1)
    assert server["versions"] == {"0.2.0": 1, "0.3.0": 3}
    assert (server["waiting"], server["empty_in_s"], server["growth_bytes_day"]) == (0, None, None)
    size = server["database_bytes"]
    ended = [running(100 + n, 0.0, state="ended", end=NOW - 60) for n in range(30)]
    with engine.begin() as connection:
        connection.execute(insert(schema.jobs), ended)
        count_all(connection)
        state = {"time": NOW - 1800, "database_bytes": size - 10**6, "free_bytes": None, "waiting": 90, "profiled": 0}
        connection.execute(insert(schema.server_states), [state])
        found = trend(connection, NOW)
    # 60 fewer in half an hour: the 30 that are left take a quarter.
    assert found.shrinking_s == pytest.approx(60 / 1800)
    server = ask(client)["server"]
    assert (server["waiting"], server["empty_in_s"]) == (30, pytest.approx(900))
    assert server["growth_bytes_day"] == pytest.approx((server["database_bytes"] - size + 10**6) * 48)
    record_state(engine, NOW)
    record_state(engine, NOW + KEPT_S + 1)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT time, waiting FROM server_states")).all() == [(NOW + KEPT_S + 1, 30)]
