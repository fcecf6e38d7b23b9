"""Offers as rows, the lock and the version of a plan, and the expiry of offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Engine, Row, bindparam, delete, func, insert, select, update

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import LARGEST_ID, lock_until_commit, pieces, updating, write_many
from jobsight_server.storage.schema import nodes
from jobsight_server.systems.offers.settings import MOST_NODES, OffersSettings
from jobsight_server.systems.offers.tables import offers, plans

OfferState = Literal[
    "offered", "confirmed", "running", "finished", "killed", "failed", "cancelled", "expired", "unknown"
]
STATES: tuple[OfferState, ...] = get_args(OfferState)
STANDING = ("offered", "confirmed", "running")
"""States in which an offer holds its time slot."""

OUTCOMES = "offer_outcomes"
"""Counted by outcome: offered, confirmed, finished, killed, failed, cancelled, expired, unknown."""

REJECTIONS = "offers_rejected"
"""Counted by reason."""

# Made once: each request needs them several times.
_ONE = select(offers).where(offers.c.id == bindparam("id"))
_OVERDUE = select(offers.c.id, offers.c.state).where(
    offers.c.state.in_(STANDING), offers.c.expires_at <= bindparam("now"), offers.c.cluster == bindparam("cluster")
)

_RAISED = {"version": plans.c.version + 1}
_NEXT_VERSION = update(plans).where(plans.c.cluster == bindparam("of")).values(_RAISED).returning(plans.c.version)


NodesFrom = Literal["setting", "agents"]


def cluster_nodes(connection: Connection, config: OffersSettings, cluster: str) -> tuple[int, NodesFrom]:
    """Return the number of nodes and its source: the settings, or else the nodes with agents."""
    if (known := config.nodes_of.get(cluster)) is not None:
        return known, "setting"
    found = connection.scalar(select(func.count()).select_from(nodes).where(nodes.c.cluster == cluster)) or 0
    return min(found, MOST_NODES), "agents"


def lock_plan(connection: Connection, cluster: str) -> None:
    """Lock the cluster's plan against other changes until the transaction ends."""
    lock_until_commit(connection, f"jobsight plan {cluster}")


def next_version(connection: Connection, cluster: str) -> int:
    """Return the version of the plan after the change of the caller's transaction."""
    version = connection.scalar(_NEXT_VERSION, {"of": cluster})
    if version is None:
        connection.execute(insert(plans).values(cluster=cluster, version=1, calibration=""))
    return version or 1


def read_offer(connection: Connection, number: int) -> Row[Any] | None:
    """Read the row of one offer; None if there is none, or if it was deleted."""
    if not 0 < number <= LARGEST_ID:
        return None
    return connection.execute(_ONE, {"id": number}).first()


def add_offer(connection: Connection, cluster: str, values: Mapping[str, Any]) -> int:
    """Store a new offer of the cluster, whose plan the caller has locked; return its number."""
    row = {**values, "cluster": cluster, "state": "offered", "version": next_version(connection, cluster)}
    number: int = connection.execute(insert(offers).values(row).returning(offers.c.id)).scalar_one()
    add_event_counts(connection, {(OUTCOMES, "offered"): 1})
    return number


def note_touched(connection: Connection, predicted: Mapping[int, float]) -> None:
    """Store the raised risks of the jobs behind a new one; the correction learns from them."""
    rows = [(share, number) for number, share in sorted(predicted.items())]
    write_many(connection, updating(offers, "predicted"), rows)


def change_offers(
    connection: Connection, cluster: str, numbers: Sequence[int], state: OfferState, **values: Any
) -> int:
    """Set the state of offers, and return their number; the caller has locked the plan of their cluster."""
    if numbers:
        row = {"state": state, "version": next_version(connection, cluster), **values}
        for some in pieces(numbers):
            connection.execute(update(offers).where(offers.c.id.in_(some)).values(row))
        if state != "running":
            add_event_counts(connection, {(OUTCOMES, state): len(numbers)})
    return len(numbers)


def places_text(numbers: Iterable[int]) -> str:
    """Write node numbers as ranges.

    >>> places_text([12, 0, 1, 2, 3])
    '0-3,12'
    """
    ranges: list[list[int]] = []
    for node in sorted(numbers):
        if ranges and ranges[-1][1] == node - 1:
            ranges[-1][1] = node
        else:
            ranges.append([node, node])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def places_of(text: str) -> list[tuple[int, int]]:
    """Parse the output of ``places_text``: first and last node of each range.

    >>> places_of("0-3,12")
    [(0, 3), (12, 12)]
    """
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.append((int(first), int(last or first)))
    return found


def nodes_of(text: str) -> list[int]:
    """Parse the output of ``places_text``: all nodes.

    >>> nodes_of("0-3,12")
    [0, 1, 2, 3, 12]
    """
    return [node for first, last in places_of(text) for node in range(first, last + 1)]


REPORT_GRACE_S = 86400.0
"""Time to wait for the end of a job after its slot is over; accounting may lag behind."""


def expire_offers(connection: Connection, cluster: str, now: float) -> int:
    """Expire a cluster's offers whose time is over, and return their number; the caller has locked its plan."""
    overdue = connection.execute(_OVERDUE, {"cluster": cluster, "now": now}).all()
    return sum(
        change_offers(connection, cluster, [number for number, state in overdue if state == before], after)
        for before, after in _AFTER_ITS_TIME.items()
    )


def expire_all(engine: Engine, now: float, kept: int) -> int:
    """Do the same on every cluster, and delete ended offers beyond ``kept``."""
    overdue = select(offers.c.cluster).where(offers.c.state.in_(STANDING), offers.c.expires_at <= now).distinct()
    with engine.connect().execution_options(reading=True) as connection:
        clusters = connection.scalars(overdue).all()
    expired = 0
    for cluster in clusters:
        with engine.begin() as connection:
            lock_plan(connection, cluster)
            expired += expire_offers(connection, cluster, now)
    _delete_beyond(engine, kept)
    return expired


_AFTER_ITS_TIME: dict[OfferState, OfferState] = {"offered": "expired", "confirmed": "unknown", "running": "unknown"}


def _delete_beyond(engine: Engine, kept: int) -> None:
    """Delete the oldest ended offers."""
    ended = offers.c.state.not_in(STANDING)
    with engine.connect().execution_options(reading=True) as connection:
        last = connection.scalar(select(offers.c.id).where(ended).order_by(offers.c.id.desc()).offset(kept).limit(1))
    if last is not None:
        with engine.begin() as connection:
            connection.execute(delete(offers).where(offers.c.id <= last, ended))
