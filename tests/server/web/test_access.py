"""Nothing is open but health; every role reaches what it should; every error under /api is JSON."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from tests import make

from jobsight_server.serve.app import ROUTES

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

OPEN = {"/health", "/ready"}
AGENT_MAY = {"/api/v1/openapi.json"}
SUBMITTER_MAY = {"/api/v1/advice", "/api/v1/openapi.json"}
ADMIN_ONLY = {"/api/v1/start", "/api/v1/now", "/api/v1/rejected"}


DEFINITIONS = ("/api/v1/resources/{name}", "/api/v1/policies", "/api/v1/objectives")


def allowed(role: str, path: str, method: str) -> bool:
    """Written out here once more, independent of the table that is served."""
    if role == "admin":
        return True
    if path in DEFINITIONS and method in {"PUT", "DELETE"}:
        return False
    if role == "agent":
        return path in AGENT_MAY
    if role == "submitter":
        return path in SUBMITTER_MAY
    return path not in ADMIN_ONLY


def test_each_route_lets_in_whom_it_should(served: Any) -> None:
    for route in ROUTES:
        path = route.path.replace("{name}", "x").replace("{id}", "1")
        answer = served.client().open(path, method=route.method)
        if route.path in OPEN:
            assert answer.status_code in {200, 503}
            continue
        assert answer.status_code == 401, route.path
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="jobsight"'
        for role in ("agent", "scheduler", "submitter", "admin"):
            answer = served.client(role).open(path, method=route.method)
            assert (answer.status_code not in {401, 403}) == allowed(role, route.path, route.method), (role, route.path)
            assert answer.status_code != 500
        wrong = served.client()
        wrong.environ_base["HTTP_AUTHORIZATION"] = "Bearer jobsight_admin_wrong"
        assert wrong.open(path, method=route.method).status_code == 401


def test_errors_are_json_with_a_reason(served: Any) -> None:
    client = served.client("admin")
    for method, path, status in [
        ("GET", "/api/v1/nothing", 404),
        ("PUT", "/api/v1/predictions", 405),
        ("GET", "/api/v1/user?name=nobody", 404),
        ("GET", "/api/v1/nodes?cluster=%00", 400),
        ("GET", "/api/v1/users?page=0", 400),
        ("GET", "/api/v1/user?name=%00", 400),
        ("GET", "/health?x=1", 400),
    ]:
        answer = client.open(path, method=method)
        assert (answer.status_code, answer.mimetype) == (status, "application/json"), (method, path)
        assert answer.json["error"], (method, path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        if status == 405:
            assert answer.headers["Allow"]


def test_a_fault_of_ours_is_json_too_and_tells_nothing(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make.execute(served.engine, "UPDATE nodes SET agent = 'not JSON'")
    answer = served.client("admin").get("/api/v1/nodes")
    assert answer.status_code == 500
    assert set(answer.json) == {"error"}
    assert "not JSON" not in answer.text


def test_a_database_that_is_away_is_answered_503(served: Any) -> None:
    client = served.client("scheduler")
    assert client.get("/api/v1/nodes").status_code == 200  # the token is known now
    with served.engine.begin() as connection:
        connection.execute(text("ALTER TABLE series RENAME TO away"))
        connection.execute(text("ALTER TABLE nodes RENAME TO gone"))
    for url in ("/api/v1/predictions?cluster=alpha&user=ada", "/api/v1/nodes"):
        answer = client.get(url)
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "5"
        assert "does not answer" in answer.json["error"]


def test_an_unknown_cluster_in_a_body(served: Any) -> None:
    client = served.client("scheduler")
    job = {"cluster": "alhpa", "user": "ada", "metric": "memory"}
    questions = [{**job, "cluster": "alpha"}, job]
    for path, body, place in (
        ("predictions", {"questions": questions}, "questions[1].cluster"),
        ("outcomes", {**job, "value": 1.0}, "cluster"),
    ):
        answer = client.post(f"/api/v1/{path}", json=body)
        assert answer.status_code == 404
        assert answer.json["error"] == f"{place} = 'alhpa': unknown cluster; known: a, alpha, beta, gamma, nowhere"


def test_a_field_that_is_given_twice_is_refused(served: Any) -> None:
    """Readers disagree on which of the two counts."""
    client, body = served.client("scheduler"), '{"cluster": "alpha", "user": "ada", "metric": "memory", "value": 1%s}'
    for more, name in ((', "value": 2', "value"), (', "\\u0075ser": "ada"', "user")):
        answer = client.post("/api/v1/outcomes", data=body % more, content_type="application/json")
        assert answer.status_code == 400
        assert answer.json["error"].startswith(f"the field {name!r} is given twice; send it once; send ")
    assert client.post("/api/v1/outcomes", data=body % "", content_type="application/json").status_code == 200


def test_an_old_agent_learns_the_address_of_the_writer(served: Any) -> None:
    answer = served.client("agent").post("/api/v1/samples", data=b"{}")
    assert answer.status_code == 404
    assert "set `server` in agent.toml to http://127.0.0.1:1, or to the proxy before it" in answer.json["error"]
