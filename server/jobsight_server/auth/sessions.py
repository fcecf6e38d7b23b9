"""Logins of people: a one-time link or a token becomes a session, which the browser keeps as a cookie.

Only digests are kept. A session made from a token ends when that token is revoked.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, or_, select

from jobsight_server.auth.tokens import digest_of
from jobsight_server.storage.schema import sessions, tokens

LOGIN_LINK_S = 3600.0


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a session: ``role`` of its token, and ``user``, the name, if any."""

    role: str | None
    user: str | None


def create_login(connection: Connection, now: float, user: str | None = None) -> str:
    """Create a one-time login, valid for an hour, as ``user`` or as an administrator; return its secret."""
    return _create(connection, "login", None, now, now + LOGIN_LINK_S, user)


def redeem_login(connection: Connection, secret: str, now: float, session_s: float) -> str | None:
    """Use up a one-time login; return the secret of a new session, or None if the login is unknown, used or too old.

    Deleting the row decides: only one of two simultaneous attempts succeeds.
    """
    used = connection.execute(
        delete(sessions)
        .where(sessions.c.digest == digest_of(secret), sessions.c.kind == "login", sessions.c.expires > now)
        .returning(sessions.c.user)
    ).one_or_none()
    return None if used is None else create_session(connection, None, now, session_s, used.user)


def create_session(
    connection: Connection, token_id: int | None, now: float, session_s: float, user: str | None = None
) -> str:
    """Create a session and return its secret; remove expired sessions and logins."""
    connection.execute(delete(sessions).where(sessions.c.expires <= now))
    return _create(connection, "session", token_id, now, now + session_s, user)


def session_owner(connection: Connection, secret: str, now: float) -> Owner | None:
    """Return the owner of the session; None if it does not exist or has expired, or its token is revoked."""
    query = (
        select(tokens.c.role, func.coalesce(sessions.c.user, tokens.c.user).label("user"))
        .select_from(sessions)
        .outerjoin(tokens, tokens.c.id == sessions.c.token_id)
        .where(
            sessions.c.digest == digest_of(secret),
            sessions.c.kind == "session",
            sessions.c.expires > now,
            or_(sessions.c.token_id.is_(None), tokens.c.revoked.is_(None)),
        )
    )
    found = connection.execute(query).one_or_none()
    return None if found is None else Owner(found.role, found.user)


def end_session(connection: Connection, secret: str) -> None:
    """End one session, if it exists."""
    connection.execute(delete(sessions).where(sessions.c.digest == digest_of(secret), sessions.c.kind == "session"))


def _create(
    connection: Connection, kind: str, token_id: int | None, now: float, expires: float, user: str | None
) -> str:
    secret = secrets.token_urlsafe(32)
    row = {"digest": digest_of(secret), "kind": kind, "token_id": token_id, "created": now, "expires": expires}
    row["user"] = user
    connection.execute(insert(sessions).values(row))
    return secret


WINDOW_S = 60.0
ALLOWED = 10
_ADDRESSES_KEPT = 1024


class LoginFailures:
    """Counts failed logins per address over the last minute, in this process only."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def wait_s(self, address: str, now: float) -> float:
        """Return the seconds until this address may try again; 0 if it may now."""
        times = self._times.get(address)
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        return times[0] + WINDOW_S - now if times and len(times) >= ALLOWED else 0.0

    def add(self, address: str, now: float) -> None:
        """Count a failed attempt."""
        if address not in self._times and len(self._times) >= _ADDRESSES_KEPT:
            self._times.pop(next(iter(self._times)))
        self._times.setdefault(address, deque(maxlen=ALLOWED)).append(now)
