"""A fencing number: keeps a process that has lost its role unnoticed from storing anything.

A lock decides who may start. It cannot stop a process whose lock ended with a lost session, or whose lock file was
deleted, while a second one took over. So each holder of a role takes the next *epoch* at its start, and each of its
transactions first checks that the epoch is still its own. PostgreSQL keeps the row locked until the transaction ends
(``FOR SHARE``): a successor waits for running ones; SQLite has one writing transaction at a time anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, event, text

from jobsight_server.storage.engine import driver_sql, for_share

_TAKE = text(
    "INSERT INTO role_epochs (role, epoch) VALUES (:role, 1) "
    "ON CONFLICT (role) DO UPDATE SET epoch = role_epochs.epoch + 1 RETURNING epoch"
)
_NEXT = text("UPDATE role_epochs SET epoch = epoch + 1 WHERE role LIKE :role")
_LOOK = "SELECT epoch FROM role_epochs WHERE role = ?"


class FencedError(Exception):
    """Another process has taken over this role; this one must end."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The epoch of one holder of ``role``. ``end`` ends the process that holds it."""

    role: str
    epoch: int
    end: Callable[[], None]

    def check(self, connection: Connection) -> None:
        """Check that this holder has the role, and keep it until the transaction ends.

        Raises:
            FencedError: another process has taken over; ``end`` was called.
        """
        # On the driver directly: this runs in every transaction.
        look = driver_sql(connection, _LOOK + for_share(connection))
        epoch = connection.exec_driver_sql(look, (self.role,)).scalar()
        if epoch != self.epoch:
            self.end()
            raise FencedError(f"another process has taken over as {self.role}: epoch {epoch}, here {self.epoch}")

    def guard(self, engine: Engine) -> Engine:
        """Return ``engine``, with the check at the start of each transaction that may write."""
        guarded = engine.execution_options()

        @event.listens_for(guarded, "begin")
        def on_begin(connection: Connection) -> None:
            if not connection.get_execution_options().get("reading", False):
                self.check(connection)

        return guarded


def take_over(engine: Engine, role: str, end: Callable[[], None]) -> Fence:
    """Return the next epoch of ``role``; fence off the previous holder, and writers of the same clusters."""
    with engine.begin() as connection:
        if role == "writer":
            connection.execute(_NEXT, {"role": "writer of %"})
        elif role.startswith("writer of "):
            connection.execute(_NEXT, {"role": "writer"})
        epoch = connection.execute(_TAKE, {"role": role}).scalar_one()
    return Fence(role, epoch, end)
