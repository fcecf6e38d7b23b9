"""Tokens: made once, kept as digests, three roles, revocable; one-time logins and sessions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from tests.make import Jobsight

from jobsight_server.auth.sessions import create_login, create_session, redeem_login, session_owner
from jobsight_server.auth.tokens import AuthError, TokenCache, create_token, list_tokens, revoke_token
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.engine import open_engine


def make(engine: Engine, role: str) -> tuple[int, str]:
    with engine.begin() as connection:
        return create_token(connection, role, "name", 1.0)


def test_the_secret_is_long_and_nowhere_in_the_database(sqlite_engine: Engine) -> None:
    _, secret = make(sqlite_engine, "agent")
    assert secret.startswith("jobsight_agent_")
    assert len(secret) >= len("jobsight_agent_") + 43
    with sqlite_engine.connect() as connection:
        login = create_login(connection, 1.0)
        connection.commit()
    for file in Path(str(sqlite_engine.url.database)).parent.iterdir():
        assert secret.encode() not in file.read_bytes()
        assert secret.removeprefix("jobsight_agent_").encode() not in file.read_bytes()
        assert login.encode() not in file.read_bytes()


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic eDp5", "jobsight_agent_x"])
def test_a_request_without_a_token_is_told_how_to_send_one(sqlite_engine: Engine, header: str | None) -> None:
    with pytest.raises(AuthError, match="Authorization: Bearer") as refused:
        TokenCache(sqlite_engine).authenticate(header, ("agent",), 2.0)
    assert refused.value.status == 401
    assert refused.value.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("secret", ["' OR 1=1 --", "x" * 10_000, "\udcff", "\0", "jobsight_admin_"])
def test_a_wrong_token_is_unknown_whatever_it_holds(engine: Engine, secret: str) -> None:
    make(engine, "admin")
    with pytest.raises(AuthError, match="unknown or revoked"):
        TokenCache(engine).authenticate(f"Bearer {secret}", ("agent",), 2.0)


def test_a_look_up_does_not_wait_for_a_writer(sqlite_engine: Engine) -> None:
    _, secret = make(sqlite_engine, "agent")
    with sqlite_engine.begin() as connection:
        connection.execute(text("INSERT INTO event_counts VALUES ('a', '', 1)"))
        assert TokenCache(sqlite_engine).authenticate(f"Bearer {secret}", ("agent",), 2.0).role == "agent"


def test_revocation_reaches_a_cache_within_five_seconds_and_a_new_one_at_once(engine: Engine) -> None:
    number, secret = make(engine, "agent")
    header, cache = f"Bearer {secret}", TokenCache(engine)
    assert cache.authenticate(header, ("agent",), 100.0).id == number
    with engine.begin() as connection:
        revoke_token(connection, number, 101.0)
    with pytest.raises(AuthError):
        TokenCache(engine).authenticate(header, ("agent",), 101.0)
    assert cache.authenticate(header, ("agent",), 104.9).id == number
    with pytest.raises(AuthError):
        cache.authenticate(header, ("agent",), 105.0)


def test_a_cache_never_remembers_a_wrong_token(engine: Engine) -> None:
    cache = TokenCache(engine)
    _, secret = make(engine, "agent")
    for wrong in ("a", "b"):
        with pytest.raises(AuthError):
            cache.authenticate(f"Bearer {wrong}", ("agent",), 1.0)
    assert cache.authenticate(f"Bearer {secret}", ("agent",), 1.0).role == "agent"
    with pytest.raises(AuthError) as refused:
        cache.authenticate(f"Bearer {secret}", ("scheduler",), 1.0)
    assert refused.value.status == 403


def test_a_session_cannot_be_used_as_a_login_link(engine: Engine) -> None:
    with engine.begin() as connection:
        session = create_session(connection, None, 0.0, 60.0)
        assert redeem_login(connection, session, 1.0, 60.0) is None
        assert session_owner(connection, session, 1.0) is not None


@pytest.mark.storage
def test_expired_sessions_are_removed(engine: Engine) -> None:
    with engine.begin() as connection:
        create_session(connection, None, 0.0, 10.0)
        create_session(connection, None, 5.0, 10.0)
        create_session(connection, None, 12.0, 10.0)
        assert connection.execute(text("SELECT count(*) FROM sessions")).scalar() == 2


def test_the_command_creates_lists_and_revokes(jobsight: Jobsight, database_url: str) -> None:
    tokens = partial(jobsight, "token", on=database_url)
    secret = tokens("create", "--role", "scheduler", "--name", "placer").out.strip()
    engine = open_engine(database_url)
    token = TokenCache(engine).authenticate(f"Bearer {secret}", ("scheduler",), 0.0)
    assert (token.name, token.role) == ("placer", "scheduler")
    listed = tokens("list").out
    assert "placer" in listed
    assert secret not in listed
    tokens("revoke", token.id)
    with pytest.raises(AuthError):
        TokenCache(engine).authenticate(f"Bearer {secret}", ("scheduler",), 0.0)
    with engine.connect() as connection:
        revoked = list_tokens(connection)[0].revoked
    assert "token 99" in tokens("revoke", "99", status=1).err
    tokens("revoke", token.id)
    with engine.connect() as connection:
        assert list_tokens(connection)[0].revoked == revoked, "the first revocation stands"
    engine.dispose()


@pytest.mark.storage
def test_the_command_prints_a_login_link(jobsight: Jobsight, database_url: str) -> None:
    jobsight("token", "login", on=database_url, status=1)  # to a database that no server uses, it would open nothing
    jobsight("token", "create", "--role", "admin", on=database_url)
    link = jobsight("token", "login", "--url", "https://jobsight.example.org/", on=database_url).out.strip()
    address, _, secret = link.partition("?once=")
    assert address == "https://jobsight.example.org/login"
    engine = open_engine(database_url)
    with engine.begin() as connection:
        row = connection.execute(text("SELECT expires - created FROM sessions")).scalar_one()
        assert row == pytest.approx(3600)
        assert session_owner(connection, secret, 0.0) is None
    engine.dispose()
    assert jobsight("token", "login", on=database_url).out.startswith("http://127.0.0.1:8470/login?once=")


def test_an_unknown_role_is_refused(sqlite_engine: Engine) -> None:
    roles = "agent, scheduler, submitter, user, staff, admin"
    with sqlite_engine.begin() as connection, pytest.raises(UserError, match=rf"'root'.*{roles}"):
        create_token(connection, "root", "", 0.0)
