"""Network: shares of links, full hours and verdicts, against plain SQL and the co-allocation's own rule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert, update
from tests import make
from tests.server.web.planted import DAY_S, NOW

from jobsight_server.queries.network import MeasuredJob, judge
from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all

GBIT = 1e9
HABITS = {"chat": (500e6, 8, 10), "calm": (180e6, 8, 10), "rare": (1e6, 8, 4), "one": (9e9, 1, 6), "least": (1e6, 8, 6)}
"""Bits per second and processor, processors, and jobs; every job is on two nodes."""


@pytest.fixture
def site(planted: FlaskClient, engine: Engine) -> FlaskClient:
    speeds = {1: [2 * GBIT], 2: [4 * GBIT, 4 * GBIT], 3: [GBIT], 4: [None]}
    with engine.begin() as connection:
        for node, rates in speeds.items():
            links = [{"name": "e", "kind": "ethernet", "width_bits": 64, "speed_bps": rate} for rate in rates]
            of = update(schema.nodes).where(schema.nodes.c.id == node)
            connection.execute(of.values(interfaces=json.dumps(links)))
        number = 40_000
        for user, (bps, processors, jobs) in HABITS.items():
            for place in range(jobs):
                number += 1
                run = {"id": number, "user": user, "application": "mesh", "name": "mesh", "processors": processors}
                run |= {"start": NOW - 7200 - place, "end": NOW - 3600 - place, "requested_walltime_s": 9000.0}
                low = user == "least" and place == 0
                used = {"bandwidth": {"value": bps * (1 + place / 10), "lower_bound": low, "shown_only": low}}
                used["runtime"] = {"value": 3600.0, "forecast": 3600.0, "bound": 4000.0}
                on = {"n0.site.org": processors, "n1": processors} if processors > 1 else {"n0": 1}
                make.job(connection, f"{number}.n", cluster="alpha", **run, on=on, used=used)
        for period, hours in (("day", (0,)), ("hour", (3, 4, 5))):
            for hour in hours:
                most = 1.95 * GBIT if period == "day" or hour < 5 else GBIT
                row = {
                    "node_id": 1,
                    "period": period,
                    "first_time": NOW - 100 * DAY_S + 3600 * hour,
                    "in_bps_max": most,
                }
                connection.execute(insert(schema.sample_summaries).values(row))
        mark_all(connection)
        count_all(connection)
    count_marked(engine)
    return planted


def uses(client: FlaskClient, query: str = "") -> dict[str, dict[str, Any]]:
    found = client.get(f"/api/v1/applications?application=mesh&{query}").json["applications"]
    return {row["user"]: row for row in found}


def test_verdicts_follow_the_rule_and_say_their_evidence(site: FlaskClient, engine: Engine) -> None:
    found = uses(site)
    assert {user: row["verdict"] for user, row in found.items()} == {
        "chat": "keep", "calm": "spread", "rare": "unknown", "one": "keep", "least": "unknown",
    }  # fmt: skip
    assert found["rare"]["reason"] == "fewer than 5 jobs measured"
    assert "asks at least" in found["least"]["reason"]
    assert "1 of 6 values are lower bounds" in found["least"]["reason"]
    # Two halves of 8 processors: n (N - n) / (N - 1) = 16 / 7 of the mean.
    query = "SELECT p.value, j.processors FROM jobs j JOIN profiles p ON p.run_id = j.id AND p.metric = 'bandwidth' "
    query += "WHERE j.\"user\" = 'chat'"
    values = [value for value, _ in make.rows(engine, query)]
    assert found["chat"]["bandwidth_bps"] == pytest.approx(np.mean(values))
    assert found["chat"]["demand_bps"] == pytest.approx(np.mean(values) * 16 / 7)
    per_node = sorted(value * 8 / 2 for value in values)
    of_nodes = [found["chat"][f"node_{name}_bps"] for name in ("median", "p95")]
    assert of_nodes == pytest.approx([per_node[4], per_node[9]])
    assert (found["chat"]["above_half"], found["calm"]["above_half"]) == (10, 6), "more than 1 of 2 Gbit/s"
    assert found["chat"]["link_bps"] == found["chat"]["uplink_bps"] == 2 * GBIT
    assert {row["verdict"] for row in uses(site, "uplink_bps=1e12&user=chat").values()} == {"spread"}
    assert uses(site, "uplink_bps=1000&user=least")["least"]["verdict"] == "keep", "a lower bound is too much already"


def test_shares_of_links_and_full_hours(site: FlaskClient) -> None:
    found = site.get("/api/v1/network").json
    nodes = {node["name"]: node for node in found["nodes"]}
    assert [nodes[name]["share"] for name in ("n0", "n1")] == pytest.approx([0.5, 3 / 8])
    assert [nodes[name]["at_least"] for name in ("n0", "n1")] == [False, True]
    assert (nodes["n2"]["share"], nodes["n3"]["share"], found["without_speed"]) == (None, None, 1)
    assert (nodes["n0"]["full_hours"], nodes["n0"]["days"], found["full_hours"], found["summarised"]) == (2, 1, 2, 1)
    page = site.get("/network?user=chat").text
    assert "keep on one" in page
    assert "2 hours with a full link" in page
    for query in ("uplink_bps=0", "uplink_bps=nan", "uplink_bps=1e99", "sort=%27;DROP", "user=%00", "cluster=%00"):
        assert site.get(f"/network?{query}").status_code == 400, query
    hostile = site.get("/network?user=%3Cscript%3Ealert(1)%3C/script%3E&application=%27--")
    assert (hostile.status_code, "<script>alert" in hostile.text) == (200, False)


def jobs(bandwidth: float, number: int = 5, processors: int = 4) -> Sequence[MeasuredJob]:
    return [MeasuredJob(processors, 2, bandwidth, GBIT, False, False)] * number


def test_a_job_is_judged_up_to_the_largest_measured_one_only() -> None:
    # 4 processors in halves: 4 / 3 of the bandwidth on each uplink; 80 % of 1 Gbit/s is free.
    assert judge(jobs(0.6e9), GBIT)[0] == "spread"
    assert judge(jobs(0.6000001e9), GBIT)[0] == "keep"
    within = "a job on 4 processors in two halves asks 400 Mbit/s of an uplink, within 80 % of 1 Gbit/s"
    above = "a job on 5 processors in two halves asks at least 900 Mbit/s of an uplink, above 80 % of 1 Gbit/s"
    assert judge(jobs(0.3e9), GBIT)[1:] == (f"{within}; larger jobs: unknown", pytest.approx(0.4e9))
    at_least = [job._replace(lower_bound=True) for job in jobs(0.6e9, processors=5)]
    assert judge(at_least, GBIT)[1:] == (above, pytest.approx(0.9e9))
    assert judge(jobs(1e6), None)[0] == judge(jobs(1e6, 4), GBIT)[0] == "unknown"
