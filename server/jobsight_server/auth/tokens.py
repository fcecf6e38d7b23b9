"""Bearer tokens: created once, stored as digests, looked up for every request."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, insert, select, update

from jobsight_server.auth.node_names import NodeNamesError, node_names
from jobsight_server.ground.answers import Record
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.engine import driver_sql
from jobsight_server.storage.schema import tokens

ROLES = ("agent", "scheduler", "submitter", "user", "staff", "admin")
KEEP_S = 5.0
_CACHED_AT_MOST = 4096


@dataclass(frozen=True, slots=True)
class Token:
    """A known, unrevoked token; its secret is not stored anywhere.

    ``cluster`` and ``nodes`` (see ``auth.node_names``) restrict the writes of an agent's token; None is any. A token of
    role user reads the data of ``user``.
    """

    id: int
    name: str
    role: str
    cluster: str | None = None
    nodes: str | None = None
    user: str | None = None

    def may_write(self, cluster: str, node: str) -> bool:
        """Return whether this token may send batches of this cluster and node."""
        if self.cluster is not None and cluster != self.cluster:
            return False
        return self.nodes is None or node in node_names(self.nodes)

    @property
    def scope(self) -> str:
        """The clusters and nodes of the token, in words."""
        cluster = "any cluster" if self.cluster is None else f"cluster {self.cluster!r}"
        return f"{cluster}, {'any node' if self.nodes is None else f'nodes {self.nodes}'}"


class AuthError(Exception):
    """A refused request: 401 if the token is unknown, 403 if its role does not allow the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": 'Bearer realm="jobsight"'} if self.status == 401 else {}


def digest_of(secret: str) -> str:
    """Return the stored digest of a secret.

    The secrets are 256 random bits: guessing cannot reverse a plain digest. The timing of a look-up reveals nothing,
    because an attacker cannot choose the digest.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def create_token(
    connection: Connection,
    role: str,
    name: str,
    now: float,
    cluster: str | None = None,
    nodes: str | None = None,
    user: str | None = None,
) -> tuple[int, str]:
    """Create a token; return its number and its secret, which is never shown again.

    ``cluster`` and ``nodes`` restrict the writes of a token of role agent; None is any. A token of role user reads the
    data of ``user``.

    Raises:
        UserError: unknown role, a role without nodes, invalid node names, or role user without a user.
    """
    if role not in ROLES:
        raise UserError(f"role {role!r}: choose one of {', '.join(ROLES)}")
    if role != "agent" and (cluster is not None or nodes is not None):
        raise UserError(f"--cluster and --nodes bind tokens of role agent; a token of role {role} cannot send samples")
    if (role == "user") != bool(user):
        raise UserError("--role user and --user NAME belong together: the token reads that user's data")
    if nodes is not None and cluster is None:
        raise UserError(f"--nodes {nodes[:60]!r} without a cluster: node names are those of one cluster")
    if nodes is not None:
        try:
            node_names(nodes)
        except NodeNamesError as error:
            raise UserError(f"--nodes {error}") from error
    secret = f"jobsight_{role}_{secrets.token_urlsafe(32)}"
    row = {"name": name, "role": role, "digest": digest_of(secret), "created": now, "revoked": None}
    row |= {"cluster": cluster, "nodes": nodes, "user": user}
    number = connection.execute(insert(tokens).values(row).returning(tokens.c.id)).scalar_one()
    return number, secret


class ListedToken(Record):
    """A token in a list, without its digest; ``created`` and ``revoked`` are UTC epoch seconds."""

    id: int
    name: str
    role: str
    created: float
    revoked: float | None
    cluster: str | None
    nodes: str | None
    user: str | None


def list_tokens(connection: Connection) -> list[ListedToken]:
    """Return every token ever created, oldest first."""
    return [ListedToken.of_row(row) for row in connection.execute(select(tokens).order_by(tokens.c.id))]


def revoke_token(connection: Connection, number: int, now: float) -> None:
    """Revoke token ``number``; processes that have cached it drop it within 5 s.

    Raises:
        UserError: there is no such token.
    """
    if connection.execute(select(tokens.c.id).where(tokens.c.id == number)).one_or_none() is None:
        raise UserError(f"token {number}: no such token; `jobsight token list` shows them")
    connection.execute(update(tokens).where(tokens.c.id == number, tokens.c.revoked.is_(None)).values(revoked=now))


_FIND = 'SELECT id, name, role, cluster, nodes, "user" FROM tokens WHERE digest = ? AND revoked IS NULL'


def find_token(engine: Engine, secret: str) -> Token | None:
    """Return the token with this secret, unless it is unknown or revoked.

    Bypasses SQLAlchemy's transactions, which on a writing engine would wait for the writer's lock.
    """
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.execute(driver_sql(engine, _FIND), (digest_of(secret),))
        row = cursor.fetchone()
        cursor.close()
    except engine.dialect.loaded_dbapi.Error:
        connection.invalidate()  # returning a lost one would log a traceback
        raise
    finally:
        connection.close()
    return None if row is None else Token(*row)


class TokenCache:
    """Finds tokens and caches found ones for 5 s, never an unknown one."""

    def __init__(self, engine: Engine, keep_s: float = KEEP_S) -> None:
        self._engine = engine
        self._keep_s = keep_s
        self._known: dict[str, tuple[float, Token]] = {}

    def authenticate(self, header: str | None, roles: Collection[str], now: float) -> Token:
        """Return the token of an ``Authorization`` header, if its role is one of ``roles`` or admin.

        Raises:
            AuthError: no token, an unknown one, or one of another role.
        """
        return _checked(self._find(bearer(header), now), roles)

    def cached(self, header: str, roles: Collection[str], now: float) -> Token | None:
        """Return the result of ``authenticate`` if it needs no query of the database; None if it does, or refuses."""
        with suppress(AuthError):
            return _checked(self._recall(bearer(header), now), roles)
        return None

    def _recall(self, secret: str, now: float) -> Token | None:
        known = self._known.get(secret)
        return known[1] if known is not None and 0 <= now - known[0] < self._keep_s else None

    def _find(self, secret: str, now: float) -> Token | None:
        known = self._recall(secret, now)
        if known is not None:
            return known
        token = find_token(self._engine, secret)
        if token is None:
            self._known.pop(secret, None)
            return None
        if len(self._known) >= _CACHED_AT_MOST:
            self._known.clear()
        self._known[secret] = (now, token)
        return token


def bearer(header: str | None) -> str:
    """Return the secret of an ``Authorization`` header.

    Raises:
        AuthError: there is none.
    """
    scheme, _, secret = (header or "").partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret:
        raise AuthError(401, "send a token: Authorization: Bearer TOKEN (created by `jobsight token create`)")
    return secret


def _checked(token: Token | None, roles: Collection[str]) -> Token:
    if token is None:
        raise AuthError(401, "this token is unknown or revoked; create another with `jobsight token create`")
    if token.role != "admin" and token.role not in roles:
        raise AuthError(403, f"a token of role {token.role} may not do this; needed: {' or '.join(roles) or 'admin'}")
    return token
