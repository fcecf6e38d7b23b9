"""Lines that could not be used, kept for the operator with file, line and reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

KEPT_PER_CLUSTER = 10_000
_SHOWN = 500

_KEEP = text(
    "INSERT INTO accounting_rejects (cluster, path, line, reason, text) "
    "VALUES (:cluster, :path, :line, :reason, :text) "
    "ON CONFLICT (cluster, path, line) DO UPDATE SET reason = excluded.reason, text = excluded.text"
)
_FORGET_OLDEST = text(
    "DELETE FROM accounting_rejects WHERE cluster = :cluster AND id <= ("
    "SELECT id FROM accounting_rejects WHERE cluster = :cluster ORDER BY id DESC LIMIT 1 OFFSET :kept)"
)
_TAKE_BACK = text("DELETE FROM accounting_rejects WHERE cluster = :cluster AND path = :path AND line = :line")


@dataclass(frozen=True, slots=True)
class Reject:
    """``line`` counts from 1; ``label`` is the reason to count it under, ``reason`` the whole one."""

    line: int
    label: str
    reason: str
    data: bytes


def keep_rejects(connection: Connection, cluster: str, path: str, rejects: Sequence[Reject]) -> None:
    """Keeps ``rejects``, of each cluster the newest 10,000; how many there were is in the tallies."""
    if not rejects:
        return
    rows: list[dict[str, Any]] = [
        {"cluster": cluster, "path": path, "line": r.line, "reason": r.reason, "text": printable(r.data)}
        for r in rejects[-KEPT_PER_CLUSTER:]
    ]
    connection.execute(_KEEP, rows)
    connection.execute(_FORGET_OLDEST, {"cluster": cluster, "kept": KEPT_PER_CLUSTER})


def take_back(connection: Connection, cluster: str, path: str, line: int) -> None:
    """Forgets a reject whose line was not complete then and is read again now."""
    connection.execute(_TAKE_BACK, {"cluster": cluster, "path": path, "line": line})


def printable(data: bytes) -> str:
    r"""The beginning of a line, 500 characters, with what cannot be shown or stored as escapes.

    >>> printable(b"a\x00\xff\xc3\xa9\x1b[0m")
    'a\\x00\\xffé\\x1b[0m'
    """
    shown = data[: 4 * _SHOWN].decode("utf-8", "backslashreplace")[:_SHOWN]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)[:_SHOWN]
