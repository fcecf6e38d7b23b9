"""How people get to the pages: by token or one-time link, with a cookie that no script and no other site can use."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests import make

from jobsight_server.auth.sessions import create_login

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def link(served: Any) -> str:
    with served.engine.begin() as connection:
        return f"/login?once={create_login(connection, served.clock())}"


def press(client: Any, url: str, **headers: str) -> Any:
    """Press the button of the linked page."""
    hidden = re.search(r'<input type="hidden" name="once" value="([^"]*)">', client.get(url).text)
    assert hidden
    return client.post("/login", data={"once": hidden[1]}, headers=headers)


def test_a_link_logs_in_once_and_by_its_button_alone(served: Any) -> None:
    """Programs that preview links open them, even with the session of somebody who is logged in."""
    url, client = link(served), served.client()
    for method in ("HEAD", "GET", "OPTIONS", "GET"):
        preview = client.open(url, method=method)
        assert preview.status_code == 200
        assert "Set-Cookie" not in preview.headers
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        assert press(client, url, **headers).status_code == 403, "another site cannot press it"
    assert client.get("/").status_code == 303
    answer = press(client, url, Origin="http://localhost")
    assert (answer.status_code, answer.location) == (303, "/")
    assert client.get("/").status_code == 200
    assert served.client().post(url).status_code == 401, "the address alone is no login"
    replayed = press(served.client(), url)
    assert (replayed.status_code, "Set-Cookie" in replayed.headers) == (401, False)


def test_the_secret_of_a_link_is_text(served: Any) -> None:
    page = served.client().get('/login?once="><script>alert(1)</script>')
    assert "<script>alert" not in page.text
    assert served.client().post("/login", data={"once": ""}).status_code == 401


def test_a_link_ends_after_an_hour(served: Any) -> None:
    url = link(served)
    served.clock.now += 3600
    answer = press(served.client(), url)
    assert answer.status_code == 401
    assert "older than an hour" in answer.text


def test_the_cookie_is_for_this_site_and_no_script(served: Any) -> None:
    cookie = press(served.client(), link(served)).headers["Set-Cookie"]
    for attribute in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
        assert attribute in cookie
    assert "Secure" not in cookie


def test_behind_tls_the_cookie_is_secure(served: Any, serve: Any) -> None:
    app = served.app_with(serve(cookie_secure=True))
    assert "Secure" in press(app.test_client(), link(served)).headers["Set-Cookie"]


def test_only_an_admins_token_logs_in(served: Any) -> None:
    for token in (served.tokens["scheduler"], served.tokens["agent"], "", "wrong", "\ud800x"):
        client = served.client()
        answer = client.post("/login", data={"token": token.encode("utf-8", "surrogatepass")})
        assert answer.status_code == 401
        assert "Set-Cookie" not in answer.headers
        assert client.get("/").status_code == 303
    assert served.client().post("/login", data={"token": f" {served.tokens['admin']}\n"}).status_code == 303


def test_a_session_expires_and_ends_with_its_token(served: Any) -> None:
    client = served.client()
    client.post("/login", data={"token": served.tokens["admin"]})
    served.clock.now += 12 * 3600 - 1
    assert client.get("/").status_code == 200
    make.execute(served.engine, "UPDATE tokens SET revoked = 1 WHERE role = 'admin'")
    assert client.get("/").status_code == 303
    other = served.client()
    press(other, link(served))
    served.clock.now += 12 * 3600
    assert other.get("/").status_code == 303


def test_logout_ends_the_session_and_takes_a_post(served: Any) -> None:
    client = served.client()
    press(client, link(served))
    cookie = client.get_cookie("jobsight_session")
    assert client.get("/logout").status_code == 405
    answer = client.post("/logout")
    assert (answer.status_code, answer.location) == (303, "/login")
    client.set_cookie("jobsight_session", cookie.value)
    assert client.get("/").status_code == 303, "the session is gone on the server as well"


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}])
def test_another_site_can_neither_log_in_nor_out(served: Any, headers: dict[str, str]) -> None:
    client = served.client()
    press(client, link(served))
    assert client.post("/logout", headers=headers).status_code == 403
    assert client.get("/").status_code == 200
    token = {"token": served.tokens["admin"]}
    assert served.client().post("/login", data=token, headers=headers).status_code == 403
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}
    assert client.post("/logout", headers=own).status_code == 303


def wrong(client: Any, peer: str = "127.0.0.1", forwarded: str | None = None) -> Any:
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    return client.post("/login", data={"token": "x"}, headers=headers, environ_base={"REMOTE_ADDR": peer})


def test_guessing_is_slowed_down(served: Any) -> None:
    statuses = [wrong(served.client()).status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    assert wrong(served.client()).headers["Retry-After"] == "61"
    assert press(served.client(), "/login?once=x").status_code == 429
    assert wrong(served.client(), "10.0.0.9").status_code == 401
    served.clock.now += 60
    assert wrong(served.client()).status_code == 401


def test_a_right_secret_logs_in_however_many_were_wrong(served: Any) -> None:
    assert [wrong(served.client()).status_code for _ in range(30)][-1] == 429
    assert served.client().post("/login", data={"token": served.tokens["admin"]}).status_code == 303
    assert press(served.client(), link(served)).status_code == 303
    assert wrong(served.client()).status_code == 429, "and opens it to no other"


@pytest.fixture
def behind_proxies(served: Any, serve: Any) -> Any:
    return served.app_with(serve(trusted_proxies="127.0.0.1 10.1.0.0/16")).test_client()


def test_behind_a_trusted_proxy_each_client_is_counted_by_itself(behind_proxies: Any) -> None:
    """Whatever the client itself puts before its address."""
    statuses = [wrong(behind_proxies, forwarded=f"10.9.9.{n}, 192.0.2.1, 10.1.2.3").status_code for n in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    assert wrong(behind_proxies, forwarded="192.0.2.1, 192.0.2.2").status_code == 401
    assert wrong(behind_proxies, forwarded="192.0.2.1").status_code == 429


def test_pages_forbid_foreign_and_inline_scripts(served: Any) -> None:
    client = served.client()
    press(client, link(served))
    for path in ("/", "/users", "/nowhere", "/login"):
        policy = client.get(path).headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert client.get(path).headers["X-Content-Type-Options"] == "nosniff"
