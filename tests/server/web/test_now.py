"""The page Now on a small site: which job uses the network, what may run out, what is silent, the backlog."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert
from tests import make
from tests.server.web.planted import NOW

from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.server_states import KEPT_S, record_state, trend


def ask(planted: FlaskClient, **query: Any) -> Any:
    return make.answered(planted.get("/api/v1/now", query_string=query))


def test_the_map_shows_what_nodes_do(planted: FlaskClient) -> None:
    loads = {each["name"]: each for each in planted.get("/api/v1/nodes").get_json()["nodes"]}
    assert {name: each["load"] for name, each in loads.items()} == {
        "n0": pytest.approx(0.5),
        "n1": pytest.approx(0.9),
        "n2": None,
        "n3": 0,
    }
    assert loads["n0"]["memory"] == 0.25
    assert loads["n1"]["bandwidth_bps"] == pytest.approx(3e9)
    page = planted.get("/now?map=bandwidth").text
    assert 'title="n1: 3.00 Gbit/s"' in page
    assert 'class="h4"' in page.split('id="map"')[1]
    assert [planted.get(f"/now?{wrong}").status_code for wrong in ("map=heat", "range=7d")] == [400, 400]
    assert "Load of each node" not in page
    assert "Load of each node" in planted.get("/now?map=memory&table=yes").text


def test_whether_the_server_keeps_up(planted: FlaskClient, engine: Engine) -> None:
    server = ask(planted)["server"]
    assert server["logs"] == [{"cluster": "alpha", "age_s": 90.0, "files": 1}]
    assert (server["spooled"], server["spooling_nodes"]) == (3, 1)
    assert server["versions"] == {"0.2.0": 1, "0.3.0": 3}
    assert (server["waiting"], server["empty_in_s"], server["growth_bytes_day"]) == (0, None, None)
    size = server["database_bytes"]
    with engine.begin() as connection:
        for n in range(30):
            make.job(connection, f"e{n}", id=30_000 + n, start=NOW - 3600, end=NOW - 60, profiled=False)
        count_all(connection)
        state = {"time": NOW - 1800, "database_bytes": size - 10**6, "free_bytes": None, "waiting": 90, "profiled": 0}
        connection.execute(insert(schema.server_states), [state])
        found = trend(connection, NOW)
    # 60 fewer in half an hour: the 30 that are left take a quarter.
    assert found.shrinking_s == pytest.approx(60 / 1800)
    server = ask(planted)["server"]
    assert (server["waiting"], server["empty_in_s"]) == (30, pytest.approx(900))
    assert server["growth_bytes_day"] is None, "half an hour says nothing of a day"
    with engine.begin() as connection:
        connection.execute(insert(schema.server_states), [{**state, "time": NOW - 2 * 86400}])
    server = ask(planted)["server"]
    assert server["growth_bytes_day"] == pytest.approx((server["database_bytes"] - size + 10**6) / 2)
    record_state(engine, NOW)
    record_state(engine, NOW + KEPT_S + 1)
    assert make.rows(engine, "SELECT time, waiting FROM server_states") == [(NOW + KEPT_S + 1, 30)]
