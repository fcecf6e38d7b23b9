"""Every address x every kind of viewer: users see their own data, staff everything, administrators act.

The sweep is over the application's own table of addresses. One that does not say how it is restricted to a user's data
is refused to users; one that says so is asked here for another user's.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import pytest
from flask.testing import FlaskClient
from tests import make
from tests.server.web.conftest import HOSTILE, NOW, add_job

from jobsight_server.auth.tokens import create_token
from jobsight_server.serve.app import ROUTES
from jobsight_server.settings.tables import Access
from jobsight_server.web.kit.moved import MOVED

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

FORM = {"Sec-Fetch-Site": "same-origin"}
OPEN = {"/health", "/ready", "/login", "/logout", "/assets/<path:filename>", *MOVED}
USERS_MAY = {
    "/api/v1/openapi.json",
    "/api/v1/user",
    "/api/v1/user/applications",
    "/api/v1/user/history",
    "/api/v1/user/jobs",
    "/api/v1/jobs",
    "/api/v1/job",
    "/api/v1/efficiency",
    "/api/v1/find",
    "/api/v1/predictions",
    "/api/v1/waste",
    "/find",
    "/jobs",
    "/jobs.csv",
    "/mine",
    "/job",
    "/user",
}
"""Written out here once more: what is not listed must be refused."""
SECRETS = ("bob", "4242.server", "alert(1)", "31337")
"""What another user's data can be recognised by: names, a job's id, what it requested."""


@pytest.fixture
def shared(served: Any, serve: Any) -> Any:
    """The site with a proxy that names users, and a job of user bob on a node where one of ada's runs."""
    with served.engine.begin() as connection:
        more = {"end": None, "requested_memory_bytes": 31337, "on": {"n1.example.org": 4}}
        add_job(connection, "alpha", "4242.server", "bob", NOW - 90, **more)
        for role, user in (("user", "ada"), ("staff", None)):
            served.tokens[role] = create_token(connection, role, "", NOW, user=user)[1]
    settings = serve(access=Access("X-Remote-User", ("root",), ("hana",)), trusted_proxies="10.0.0.1")
    served.app = served.app_with(settings)
    return served


def proxied(served: Any, user: str, peer: str = "10.0.0.1") -> FlaskClient:
    client: FlaskClient = served.app.test_client()
    client.environ_base |= {"REMOTE_ADDR": peer, "HTTP_X_REMOTE_USER": user}
    return client


def linked(served: Any, user: str) -> FlaskClient:
    return make.person(served.app, served.engine, served.clock(), user)


def rules(app: Any, *methods: str) -> list[tuple[str, str]]:
    found = [(rule.rule, method) for rule in app.url_map.iter_rules() for method in rule.methods if method in methods]
    assert len(found) > 20 or "GET" not in methods
    return sorted(found)


def address(rule: str, user: str, job: str, query: dict[str, str] | None = None) -> str:
    name = job if "job" in rule or "efficiency" in rule else user
    path = rule.replace("<name:name>", quote(name, safe="")).replace("<id:id>", "1")
    return f"{path}?{urlencode(query)}" if query else path


def test_each_address_that_users_may_ask_is_listed_here(shared: Any) -> None:
    """A new route that says `own` without being written here, or is gone, fails; without `own` it is closed."""
    of_routes = {route.rule for route in ROUTES if route.own is not None}
    assert {rule for rule in USERS_MAY if rule.startswith("/api/")} == of_routes
    for client in (shared.client("user"), linked(shared, "ada"), proxied(shared, "ada")):
        for rule, method in rules(shared.app, "GET", "POST", "PUT", "DELETE", "PATCH"):
            if rule in OPEN or (rule in USERS_MAY and method == "GET"):
                continue
            answer = client.open(address(rule, "ada", "77.server"), method=method, headers=FORM)
            home = rule == "/" and answer.status_code == 303 and "ada" in answer.location
            pages_by_token = client.environ_base.get("HTTP_AUTHORIZATION") and not rule.startswith("/api/")
            assert home or answer.status_code in {401, 403} or (pages_by_token and answer.status_code == 303), (
                rule,
                method,
                answer.status_code,
            )


def test_own_data_is_shown_and_no_others_within_it(shared: Any) -> None:
    for client, api_only in (
        (shared.client("user"), True),
        (linked(shared, "ada"), False),
        (proxied(shared, "ada"), False),
    ):
        shown = 0
        for rule, method in rules(shared.app, "GET"):
            if rule not in USERS_MAY or (api_only and not rule.startswith("/api/")):
                continue
            asked = {"cluster": "alpha"} if "openapi" not in rule else {}
            asked = {"text": "ada", "user": "ada"} if rule.endswith("/find") else asked
            if rule.startswith(("/api/v1/user/a", "/api/v1/user/h", "/user")) or rule == "/api/v1/user":
                asked["name"] = "ada"
            if rule in {"/api/v1/job", "/job", "/api/v1/efficiency"}:
                asked["name"] = "77.server" if rule != "/api/v1/efficiency" else "0.ada"
            if rule.endswith(("/jobs", "/jobs.csv", "/mine")) or rule in {"/api/v1/predictions", "/api/v1/waste"}:
                asked["user"] = "ada"
            answer = client.open(address(rule, "ada", "77.server", asked), method=method, follow_redirects=True)
            assert answer.status_code == 200, (rule, answer.text[:300])
            assert not [secret for secret in SECRETS if secret in answer.text], rule
            shown += "ada" in answer.text
        assert shown >= 8


@pytest.mark.parametrize("other", ["bob", HOSTILE, "Ada", "ada ", ""])
def test_another_users_data_is_at_no_address(shared: Any, other: str) -> None:
    for client in (shared.client("user"), linked(shared, "ada"), proxied(shared, "ada")):
        for rule, method in rules(shared.app, "GET"):
            if rule in OPEN or rule == "/api/v1/openapi.json" or (not other and "name" in rule):
                continue
            for query in (
                {},
                {"user": other, "name": "4242.server" if "job" in rule else other},
                {"user": other, "cluster": "alpha"},
                {"name": "4242.server", "cluster": "alpha"},
                {"name": "4242.server", "cluster": "beta"},
            ):
                answer = client.open(address(rule, other, "4242.server", query), method=method)
                if answer.status_code == 200:
                    assert (rule, other) in {("/jobs", ""), ("/jobs.csv", "")}, query
            both = urlencode([("user", "ada"), ("user", other), ("name", "ada")])
            path = f"{address(rule, other, '4242.server')}?{both}"
            assert client.open(path).status_code != 200, path


def test_anothers_job_is_answered_like_one_that_does_not_exist(shared: Any) -> None:
    client = shared.client("user")
    for number, name in ((0, "4242.server"), (1, "4343.server")):
        answer = client.get(f"/api/v1/job?name={name}&cluster=alpha")
        assert answer.status_code == 404, number
        assert answer.json["error"].replace(name, "N") == "no job 'N' in 'alpha'"


def test_readings_of_a_node_are_not_drawn_for_a_user(shared: Any) -> None:
    (run,) = shared.client("user").get("/api/v1/job?name=77.server&cluster=alpha").json["runs"]
    assert [node["series"] for node in run["nodes"]] == [None, None]
    (run,) = shared.client("staff").get("/api/v1/job?name=77.server&cluster=alpha").json["runs"]
    assert run["nodes"][0]["series"] is not None


def test_staff_reads_everything_and_changes_nothing(shared: Any) -> None:
    for client, is_login in (
        (shared.client("staff"), False),
        (linked(shared, "hana"), True),
        (proxied(shared, "hana"), True),
    ):
        for rule, method in rules(shared.app, "GET"):
            if rule in OPEN or (not is_login and not rule.startswith(("/api/", "/metrics"))):
                continue
            answer = client.open(address(rule, "ada", "77.server"), method=method)
            assert answer.status_code not in {401, 403, 500}, rule
            assert "/login" not in answer.headers.get("Location", ""), rule
        for rule, method in rules(shared.app, "POST", "PUT", "DELETE", "PATCH"):
            if rule in OPEN:
                continue
            answer = client.open(address(rule, "ada", "77.server"), method=method, headers=FORM)
            assert answer.status_code in {401, 403}, (rule, method)


@pytest.mark.systems
def test_an_administrator_acts_and_not_from_another_site(shared: Any) -> None:
    form = {"name": "gpus", "kind": "x", "count": "1"}
    for client in (linked(shared, "root"), proxied(shared, "root")):
        for rule, method in rules(shared.app, "POST", "PUT", "DELETE", "PATCH"):
            if rule.startswith("/api/") or rule in OPEN:
                continue
            path = address(rule, "ada", "77.server")
            for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
                assert client.open(path, method=method, headers=headers, data=form).status_code == 403, rule
            assert client.open(path, method=method, headers=FORM, data=form).status_code not in {401, 403, 500}, rule
    silent = proxied(shared, "root").post("/matches/77/end", data=form)
    assert (silent.status_code, "where it comes from" in silent.text) == (403, True)


def test_a_proxys_header_counts_from_the_proxy_alone(shared: Any) -> None:
    assert proxied(shared, "root").get("/api/v1/now").status_code == 200
    for peer in ("127.0.0.1", "10.0.0.2", "::1"):
        client = proxied(shared, "root", peer)
        client.environ_base["HTTP_X_FORWARDED_FOR"] = "10.0.0.1"
        assert client.get("/api/v1/now").status_code == 401
        assert client.get("/users").location == "/login"
    for name in ("root,ada", "ada,root", "root\x7f", "r" * 256):
        assert proxied(shared, name).get("/users").status_code == 403, name
    assert proxied(shared, " ").get("/users").location == "/login"
    other = shared.app.test_client()
    other.environ_base |= {"REMOTE_ADDR": "10.0.0.1", "HTTP_REMOTE_USER": "root", "HTTP_X_REMOTE_USER2": "root"}
    assert other.get("/users").location == "/login"


def test_a_proxys_user_takes_precedence_over_a_cookie_planted_before(shared: Any) -> None:
    planted = linked(shared, "root").get_cookie("jobsight_session")
    client = proxied(shared, "ada")
    client.set_cookie("jobsight_session", planted.value)
    assert client.get("/users").status_code == 403


def test_a_login_takes_over_no_session_that_was_there(shared: Any) -> None:
    attacker = linked(shared, "ada")
    planted = attacker.get_cookie("jobsight_session").value
    victim = shared.app.test_client()
    victim.set_cookie("jobsight_session", planted)
    victim.post("/login", data={"token": shared.tokens["admin"]})
    assert victim.get_cookie("jobsight_session").value != planted
    assert victim.get("/users").status_code == 200
    assert attacker.get("/jobs?user=ada").location == "/login", "the planted session has ended"


def test_a_role_follows_the_settings_at_once(shared: Any, serve: Any) -> None:
    """A session holds a name and no role."""
    session = linked(shared, "hana").get_cookie("jobsight_session").value
    without = shared.app_with(serve(access=Access(admins=("root",)))).test_client()
    without.set_cookie("jobsight_session", session)
    assert without.get("/users").status_code == 403
