"""Nodes with and without agents: what they do now, their reliability, and when they were last seen."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, update
from tests import make
from tests.server.systems.ranking.test_machines import HOUR_S, machine, store
from tests.server.web.conftest import HOSTILE, NOW, Served, add_job

from jobsight_server.storage import schema
from jobsight_server.storage.readings.sample_columns import MODULUS

pytestmark = pytest.mark.storage


def ask(served: Served, query: str = "") -> Any:
    return make.answered(served.client("scheduler").get(f"/api/v1/nodes{query}"))


def page(served: Served, path: str) -> str:
    client = served.person()
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.get_data(as_text=True)


def test_a_node_has_its_readings_its_jobs_and_its_reliability(served: Served) -> None:
    # 20 s of processor time in 10 s on 4 processors; the log writes n1.example.org, on which a job runs.
    with served.engine.begin() as connection:
        for i in range(1, 11):
            totals = ((-1000 * i) % MODULUS, (-250 * i) % MODULUS, -20.0 * i)
            make.readings(connection, 1, [(NOW - 100 - 10 * i, *totals, 0, 0.0)], boot_id="")
    store(served, machine("n1", 5.0, events=1.0, seconds=4e6), machine(HOSTILE, 3.0))
    found = {(node["cluster"], node["name"]): node for node in ask(served)["nodes"]}
    n1 = found["alpha", "n1"]
    assert (n1["load"], n1["memory"], n1["bandwidth_bps"]) == (0.5, 2**30 / 2**34, 800.0)
    assert (n1["status"], n1["jobs"], n1["log_name"]) == ("up", 1, "n1.example.org")
    ranked = served.client("scheduler").get("/api/v1/resources/rank?for=6h&include=all&name=n1").get_json()
    assert n1["reliability"] == ranked["machines"][0]["score"]
    assert ask(served, "?for=10min&search=n1")["nodes"][0]["reliability"] > n1["reliability"]
    assert found.keys() == {("alpha", "n1"), ("alpha", "n9"), ("alpha", HOSTILE), ("beta", "n2")}
    unknown = found["alpha", "n9"]
    assert (unknown["status"], unknown["jobs"], unknown["load"], unknown["age_s"]) == ("unknown", 1, None, None)


def test_a_node_that_only_the_log_names_has_a_page_with_its_jobs(served: Served) -> None:
    detail = served.client("scheduler").get("/api/v1/node?name=n9").get_json()
    assert (detail["series"], detail["samples"], detail["status"]) == (None, 0, "unknown")
    assert [run["job_id"] for run in detail["runs"]] == ["77.server"]
    text = page(served, "/node?cluster=alpha&name=n9")
    assert "there are no samples of it" in text
    assert 'class="chart"' not in text
    assert 'href="/jobs?cluster=alpha&amp;node=n9"' in text
    assert served.client("scheduler").get("/api/v1/node?name=n77").status_code == 404


def test_a_full_host_name_of_the_log_leads_to_the_node_of_the_agent(served: Served) -> None:
    with served.engine.begin() as connection:
        add_job(connection, "alpha", "8", "ada", NOW - 60, on={"n1.old.example": 1})
    for host, jobs in (("n1.example.org", ["77.server"]), ("n1.old.example", ["8"])):
        assert f'href="/node?cluster=alpha&amp;name={host}"' in page(served, f"/job?cluster=alpha&name={jobs[0]}")
        detail = served.client("scheduler").get(f"/api/v1/node?name={host}&cluster=alpha").get_json()
        assert (detail["name"], detail["samples"]) == ("n1", 11)
        assert [run["job_id"] for run in detail["runs"]] == jobs


def test_a_site_without_agents_lists_its_nodes_and_says_so(served: Served) -> None:
    with served.engine.begin() as connection:
        for table in (schema.readings, schema.nodes):
            connection.execute(delete(table))
        add_job(connection, "beta", "8", "ada", NOW - 60, on={"old": 1})
    store(served, machine("old", 5.0, cluster="beta"))
    found = ask(served)
    names = [(node["cluster"], node["name"], node["jobs"]) for node in found["nodes"]]
    assert names == [("alpha", "n1.example.org", 1), ("alpha", "n9", 1), ("beta", "old", 0)]
    assert found["statuses"] == {"up": 0, "late": 0, "silent": 0, "unknown": 3}
    text = page(served, "/nodes")
    assert "No agent reports, so there are no samples of these nodes" in text
    assert "Version" not in text
    page(served, "/node?cluster=beta&name=old")


def test_the_page_of_a_node_has_the_sessions_of_its_machine(served: Served) -> None:
    store(served, machine("n1", 5.0, sessions=2), machine(HOSTILE, 3.0))
    detail = served.client("scheduler").get("/api/v1/node?name=n1").get_json()["machine"]
    assert detail["history"] == [{"start": NOW - 5 * HOUR_S, "end": None, "ending": None}]
    assert detail["sessions"] == 2
    text = page(served, "/node?cluster=alpha&name=n1")
    assert 'class="open"' in text
    assert HOSTILE not in page(served, "/nodes")


def test_a_replayed_node_is_silent_since_its_last_reading_and_one_that_empties_its_spool_is_up(served: Served) -> None:
    old = {"received_at": NOW - 10, "last_time": NOW - 5 * HOUR_S}
    with served.engine.begin() as connection:
        connection.execute(update(schema.nodes).where(schema.nodes.c.id == 1).values(clock_skew_s=None, **old))
        connection.execute(update(schema.nodes).where(schema.nodes.c.id == 2).values(clock_skew_s=-5 * HOUR_S, **old))
    found = {node["name"]: (node["status"], node["age_s"]) for node in ask(served)["nodes"] if node["samples"]}
    assert found == {"n1": ("silent", 5 * HOUR_S), "n2": ("up", 10.0)}
    assert served.client("admin").get("/api/v1/now").get_json()["nodes"]["silent"] == 1
    metrics = served.client("admin").get("/metrics").get_data(as_text=True)
    assert f'jobsight_oldest_node_age_seconds{{cluster="alpha"}} {5 * HOUR_S}' in metrics


def test_two_hosts_of_one_name_are_shown(served: Served) -> None:
    assert ask(served)["two_hosts"] == []
    with served.engine.begin() as connection:
        nodes = schema.nodes
        connection.execute(update(nodes).where(nodes.c.name == "n1").values(two_hosts_at=NOW - 60.0))
    assert ask(served)["two_hosts"] == [{"cluster": "alpha", "name": "n1", "seen_at": NOW - 60.0}]
    assert "Two hosts send as" in page(served, "/nodes")
    assert "Two hosts sent as this node" in page(served, "/node?cluster=alpha&name=n1")
