"""Errors of the database (try again later) and of the content (it can never be stored).

The messages from this module are our own: a driver's may contain SQL, values or the name of a host.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

# Errors that an unforeseen value can cause; anything else that Python raises is a fault of this program.
CONTENT_ERRORS = (
    DataError,
    IntegrityError,
    ArithmeticError,
    AssertionError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

# Classes of SQLSTATE: data exception, integrity constraint violation, program limit exceeded (such as an index row).
_CONTENT_STATES = frozenset({"22", "23", "54"})
_SQLITE_KINDS = {
    5: "the database is busy",
    6: "the database is busy",
    8: "the database is read-only",
    10: "the disk does not accept writes",
    11: "the database is damaged",
    13: "the disk is full",
    14: "the database cannot be opened",
    26: "the database is damaged",
}
_SQLSTATE_KINDS = {"53100": "the disk is full", "25006": "the database is read-only"}
AWAY = "the database does not answer"


def outage(error: SQLAlchemyError | Exception) -> str | None:
    """Return the database's fault in our own words; None if the content is at fault."""
    if isinstance(error, DBAPIError):
        state = getattr(error.orig, "sqlstate", None) or ""
        if error.connection_invalidated:
            return AWAY
        if isinstance(error, DataError | IntegrityError) or state[:2] in _CONTENT_STATES:
            return None
        return _kind(error.orig, state)
    return AWAY if isinstance(error, SQLAlchemyError) else None


def driver_outage(error: BaseException) -> str:
    """Return the database's fault for an error of the driver itself, from a look-up that bypasses SQLAlchemy."""
    return _kind(error, getattr(error, "sqlstate", None) or "")


def _kind(error: Any, state: str) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE_KINDS.get(code & 0xFF, AWAY)
    return _SQLSTATE_KINDS.get(state, AWAY)
