"""Resources through the API: instances, reports, what is free, what is too old, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests import make
from tests.make import to_match

from jobsight_server.queries.node_states import Machines
from jobsight_server.systems.matching.reports import report_nodes

API = "/api/v1"
SERVER = {
    "type": "compute",
    "attributes": {"os": "linux", "applications": ["cfd", "md"]},
    "capacities": {"slots": {"total": 8}, "memory_gib": {"total": 16}},
}


@pytest.fixture
def admin(served: Any) -> Any:
    return served.client("admin")


def slots(admin: Any, name: str = "n1") -> dict[str, float]:
    found: dict[str, float] = admin.get(f"{API}/resources/{name}").json["capacities"]["slots"]
    return found


def matched(admin: Any, *jobs: dict[str, Any]) -> dict[str, int]:
    matches = make.answered(admin.post(f"{API}/matches", json={"jobs": list(jobs)}))["matches"]
    return {match["job"]: match["id"] for match in matches}


def test_free_is_what_is_neither_held_nor_used_by_others(served: Any, admin: Any) -> None:
    """The worked example: 8 slots, 3 in use by strangers, matches of 2 and 1, and measurements before and after."""
    body = SERVER | {"capacities": {"slots": {"total": 8, "used": 3}}}
    assert admin.put(f"{API}/resources/n1", json=body).status_code == 200
    served.clock.now += 10
    assert matched(admin, to_match("a", 2)).keys() == {"a"}
    # Measured before the match began, so the 3 are others'.
    assert slots(admin) == {"total": 8, "used": 5, "measured": 3, "held": 2, "free": 3}
    served.clock.now += 10
    report = {"resources": [{"name": "n1", "capacities": {"slots": {"used": 5}}}]}
    assert admin.post(f"{API}/resources/state", json=report).json["stored"] == 1
    assert slots(admin) == {"total": 8, "used": 5, "measured": 5, "held": 2, "free": 3}
    # The job does not run yet: what it holds is held all the same.
    report = {"resources": [{"name": "n1", "capacities": {"slots": {"used": 1}}}]}
    admin.post(f"{API}/resources/state", json=report)
    assert slots(admin) == {"total": 8, "used": 2, "measured": 1, "held": 2, "free": 6}
    report = {"resources": [{"name": "n1", "capacities": {"slots": {"available": -0.0, "total": 8}}}]}
    admin.post(f"{API}/resources/state", json=report)
    assert slots(admin)["free"] == 0
    assert matched(admin, to_match("b", 1)) == {}


def test_state_that_is_too_old_takes_no_new_match(served: Any, admin: Any) -> None:
    admin.put(f"{API}/resources/n1", json=SERVER)
    admin.put(f"{API}/resources/n2", json=SERVER | {"static": True})
    served.clock.now += 90
    assert matched(admin, to_match("a", 8), to_match("b", 8)).keys() == {"a", "b"}
    served.clock.now += 2000  # both holds are over
    answer = admin.post(
        f"{API}/matches", json={"jobs": [to_match("a", 8), to_match("b", 8, where="name == 'n1'")]}
    ).json
    assert [match["resources"] for match in answer["matches"]] == [{"c": ["n2"]}]
    assert [entry["job"] for entry in answer["unmatched"]] == ["b"]
    assert [r["stale"] for r in admin.get(f"{API}/resources").json["resources"]] == [True, False]
    admin.post(f"{API}/resources/state", json={"resources": [{"name": "n1"}]})
    assert matched(admin, to_match("b", 8, where="name == 'n1'")).keys() == {"b"}


def why_not(admin: Any, wanted: dict[str, Any]) -> tuple[str, str]:
    [entry] = admin.post(f"{API}/matches?dry_run=1", json={"jobs": [wanted]}).json["unmatched"]
    return entry["tier"], entry["reason"]


def test_a_job_that_would_fit_on_a_resource_with_old_state_is_not_said_to_never_fit(served: Any, admin: Any) -> None:
    admin.put(f"{API}/resources/blade-2", json={"type": "compute", "capacities": {"slots": 16}})
    served.clock.now += 240
    admin.put(f"{API}/resources/blade-1", json={"type": "compute", "capacities": {"slots": 8}})
    tier, reason = why_not(admin, to_match("a", 10))
    assert tier == "policy"
    assert reason == (
        "c: slots 10 fits on 0 of 1 eligible compute even when idle (the largest has slots 8); it would fit on others, "
        "but not now (blade-2: its state is 240 s old, more than 90 s)"
    )
    assert why_not(admin, to_match("a", 20)) == (
        "never-fits",
        "c: slots 20 fits on 0 of 2 eligible compute even when idle (the largest has slots 16)",
    )
    both = to_match("a", 9)
    both["dependencies"][0]["count"] = 2
    served.clock.now -= 240  # neither is too old
    assert why_not(admin, both) == (
        "never-fits",
        "c: slots 9 fits on 1 of 2 eligible compute even when idle; 2 are needed",
    )


@pytest.mark.storage
def test_a_report_is_stored_or_rejected_for_itself(served: Any, admin: Any) -> None:
    new = {"type": "compute", "capacities": {"slots": {"total": 4, "available": 1}}}
    reports = [
        {"name": "a/n1", **new, "owner_present": True},
        {"name": "unknown"},
        {"name": "n3", **new, "time": served.clock.now + 10_000},
        {"name": "n4", "type": "compute", "capacities": {"slots": {"used": 1}}},
        {"name": "n6", "type": "compute", "attributes": {"not a name": "x"}},
        {"name": "n7", "type": "compute", "attributes": {"x": 1e300}},
        {"name": "../n8", **new},
        {"name": "n9\0", **new},
        {"name": "state", **new},
    ]
    answer = admin.post(f"{API}/resources/state", json={"resources": reports, "source": "test"})
    assert (answer.json["created"], answer.json["stored"]) == (1, 0)
    assert [entry["name"] for entry in answer.json["rejected"]] == [report["name"] for report in reports[1:]]
    assert "give its type" in answer.json["rejected"][0]["reason"]
    found = admin.get(f"{API}/resources/a/n1").json
    assert (found["capacities"]["slots"]["free"], found["owner_present"], found["source"]) == (1, True, "test")
    assert make.counts(served.engine)["resource_reports_rejected", "invalid"] == 8
    late = {"resources": [{"name": "a/n1", "time": served.clock.now - 5}]}
    assert "5 s before" in admin.post(f"{API}/resources/state", json=late).json["rejected"][0]["reason"]


def test_a_removed_resource_loses_its_matches_and_says_so(admin: Any) -> None:
    admin.put(f"{API}/resources/n1", json=SERVER)
    admin.put(f"{API}/resources/n2", json=SERVER)
    both = to_match("a", 8)
    both["dependencies"][0]["count"] = 2
    number = matched(admin, both)["a"]
    assert admin.delete(f"{API}/resources/n1").json["lost_matches"] == 1
    entry = admin.get(f"{API}/matches/{number}").json["match"]
    assert (entry["state"], entry["reason"]) == ("lost", "resource n1 was removed")
    assert slots(admin, "n2")["free"] == 8, "the gang is gone as a whole"
    assert admin.put(f"{API}/matches/{number}", json={"duration_s": 5}).status_code == 409
    assert admin.get(f"{API}/resources/n1").status_code == 404


def test_policies_decide_who_may_use_what(served: Any, admin: Any) -> None:
    admin.put(f"{API}/resources/n1", json=SERVER | {"static": True})
    rules = [
        {"effect": "deny", "resource": "n1", "classes": ["batch"]},
        {"effect": "deny", "type": "compute", "when": "used_share <= 0.4", "classes": ["greedy"]},
    ]
    assert admin.put(f"{API}/policies", json={"policies": rules}).json == {"policies": rules}
    found = matched(
        admin, to_match("a", 2, **{"class": "batch"}), to_match("b", 2), to_match("c", 2, **{"class": "greedy"})
    )
    assert found.keys() == {"b"}
    assert matched(admin, to_match("d", 3)).keys() == {"d"}
    assert matched(admin, to_match("c", 2, **{"class": "greedy"})).keys() == {"c"}, "5 of 8 slots are used now"
    admin.put(f"{API}/policies", json={"policies": [{"effect": "deny"}]})
    states = {entry["state"] for entry in admin.get(f"{API}/matches").json["matches"]}
    assert states == {"held"}, "a change of policy ends no match"
    for rule, problem in (({"effect": "deny", "when": "__import__('os')"}, "when"),):
        answer = admin.put(f"{API}/policies", json={"policies": [rule]})
        assert (answer.status_code, problem in answer.json["error"]) == (400, True), answer.text
    assert admin.get(f"{API}/policies").json["policies"] == [{"effect": "deny"}]


@pytest.mark.storage
def test_a_batch_finds_the_nodes_of_a_site_without_a_setting(served: Any, admin: Any) -> None:
    """Two readings of a node that is idle; once someone defines compute servers, only these are matched."""
    times = served.clock.now - 25, served.clock.now - 5
    seen = {"first_time": times[0], "last_time": times[1], "received_at": times[1], "clock_skew_s": 0.0}
    with served.engine.begin() as connection:
        number = make.node(connection, "m1", id=8, cpus=4, memory_total_bytes=2**33, **seen)
        make.readings(connection, number, [(at, 0, 0, 0.0, 0, 0.0) for at in times])
    assert matched(admin, {"name": "tape", "dependencies": [{"name": "d", "type": "tape"}]}) == {}
    assert admin.get(f"{API}/resources").json["total"] == 0, "no job asked for a node"
    assert matched(admin, to_match("a", 3)).keys() == {"a"}
    assert slots(admin, "alpha/m1") == {"total": 4, "used": 3, "measured": 0, "held": 3, "free": 1}
    with served.engine.begin() as connection:
        number = make.node(connection, "m2", id=9, cpus=64, **seen)
        make.readings(connection, number, [(at, 0, 0, 0.0, 0, 0.0) for at in times])
    assert matched(admin, to_match("b", 8)) == {}, "nodes were read in the last 15 s"
    assert admin.put(f"{API}/resources/own", json=SERVER | {"static": True}).status_code == 200
    served.clock.now += 15
    assert matched(admin, to_match("b", 16)) == {}
    assert admin.delete(f"{API}/resources/own").status_code == 200
    assert matched(admin, to_match("b", 16)).keys() == {"b"}


@pytest.mark.storage
@pytest.mark.storage
def test_nodes_of_agents_are_compute_servers(served: Any, admin: Any) -> None:
    """Two samples 20 s apart: 30 CPU seconds are 1.5 processors, 250 MB in and out are 200 Mb/s."""
    now = served.clock.now
    interfaces = '[{"name": "e", "kind": "ethernet", "width_bits": 64, "speed_bps": 1e9}]'
    seen = {"first_time": now - 60, "last_time": now - 5, "received_at": now - 5, "clock_skew_s": 0.0}
    with served.engine.begin() as connection:
        number = make.node(connection, "m1", id=9, cpus=4, memory_total_bytes=2**33, interfaces=interfaces, **seen)
        moved = 250_000_000
        rows = [(now - 25, 0, 0, 0.0, 2**30, 0.0), (now - 5, moved, moved, 30.0, 2**30, 0.0)]
        make.readings(connection, number, rows)
    assert report_nodes(served.engine, served.clock, 90.0, Machines()) >= 1
    found = admin.get(f"{API}/resources/alpha/m1").json
    free = {name: capacity["free"] for name, capacity in found["capacities"].items()}
    assert free == pytest.approx({"slots": 2.5, "memory_gib": 7.0, "bandwidth_mbps": 800.0})
    assert found["attributes"] == {"cluster": "alpha", "node": "m1"}
    assert matched(admin, to_match("a", 2, where="cluster == 'alpha' and memory_gib >= 4")).keys() == {"a"}
    assert report_nodes(served.engine, served.clock, 90.0, Machines()) == 0, "nothing new was sent"
    served.clock.now += 200
    assert report_nodes(served.engine, served.clock, 90.0, Machines()) == 0
    assert matched(admin, to_match("b", 1)) == {}, "its agent is silent"
