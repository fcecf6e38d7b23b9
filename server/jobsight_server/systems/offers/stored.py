"""Offers as rows, the lock under which a plan changes, and its version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Row, insert, select, text, update

from jobsight_server.storage.dialect import LARGEST_ID, lock_until_commit
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.systems.offers.tables import offers

OfferState = Literal[
    "offered", "confirmed", "running", "finished", "killed", "failed", "cancelled", "expired", "unknown"
]
STATES: tuple[OfferState, ...] = get_args(OfferState)
STANDING = ("offered", "confirmed", "running")
"""The states in which an offer holds its place."""

OUTCOMES = "offer_outcomes"
"""Counted by outcome: offered, confirmed, finished, killed, failed, cancelled, expired, unknown."""

REJECTIONS = "offers_rejected"
"""Counted by reason."""

_AT_ONCE = 300
_NEXT_VERSION = text(
    "INSERT INTO plans (cluster, version, calibration) VALUES (:cluster, 1, '') "
    "ON CONFLICT (cluster) DO UPDATE SET version = plans.version + 1 RETURNING version"
)


def lock_plan(connection: Connection, cluster: str) -> None:
    """Keeps others from changing the cluster's plan until the transaction ends."""
    lock_until_commit(connection, f"jobsight plan {cluster}")


def next_version(connection: Connection, cluster: str) -> int:
    """The version of the plan after the change that the caller's transaction makes."""
    version: int = connection.execute(_NEXT_VERSION, {"cluster": cluster}).scalar_one()
    return version


def read_offer(connection: Connection, number: int) -> Row[Any] | None:
    """The row of one offer; None if there is none, or no longer."""
    if not 0 < number <= LARGEST_ID:
        return None
    return connection.execute(select(offers).where(offers.c.id == number)).first()


def add_offer(connection: Connection, cluster: str, values: Mapping[str, Any]) -> int:
    """Stores a new offer of the cluster, whose plan the caller has locked; returns its number."""
    row = {**values, "cluster": cluster, "state": "offered", "version": next_version(connection, cluster)}
    number: int = connection.execute(insert(offers).values(row).returning(offers.c.id)).scalar_one()
    add_event_counts(connection, {(OUTCOMES, "offered"): 1})
    return number


def note_touched(connection: Connection, predicted: Mapping[int, float]) -> None:
    """Jobs planned behind a new one may be likelier not to end in their places: what is learned rests on that."""
    change = "UPDATE offers SET predicted = ? WHERE id = ?"
    write_many(connection, change, [(share, number) for number, share in sorted(predicted.items())])


def change_offer(connection: Connection, cluster: str, number: int, state: OfferState, **values: Any) -> None:
    """Gives an offer a new state; the caller has locked the plan of its cluster."""
    change_offers(connection, cluster, [number], state, **values)


def change_offers(
    connection: Connection, cluster: str, numbers: Sequence[int], state: OfferState, **values: Any
) -> int:
    """The same for several; returns how many."""
    if numbers:
        row = {"state": state, "version": next_version(connection, cluster), **values}
        for begin in range(0, len(numbers), _AT_ONCE):
            some = numbers[begin : begin + _AT_ONCE]
            connection.execute(update(offers).where(offers.c.id.in_(some)).values(row))
        if state != "running":
            add_event_counts(connection, {(OUTCOMES, state): len(numbers)})
    return len(numbers)
