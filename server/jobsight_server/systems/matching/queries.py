"""Matches and resources for the API and the pages: holds, free capacity, and the reasons of jobs that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, Row, func, select

from jobsight_server.ground.answers import Record
from jobsight_server.ground.listed_rows import page_of_rows
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import NAME, Parameter, choice_of, whole_number
from jobsight_server.systems.matching.catalogue import MOST_POLICIES, Catalogue, HeldPart, ResourcePolicy
from jobsight_server.systems.matching.resource_state import ResourceError
from jobsight_server.systems.matching.store_matches import NO_MATCH
from jobsight_server.systems.matching.submissions import document_of, held_resources
from jobsight_server.systems.matching.tables import matches

MatchState = Literal["queued", "held", "released", "expired", "lost", "cancelled"]
STATES: tuple[str, ...] = get_args(MatchState)


class MatchEntry(Record):
    """A job that waits for a match, holds one, or held one.

    ``until``: end of the hold. ``rounds``: number of rounds that passed the job over; ``tier`` and ``reason`` say why
    the last one did, or why its match was lost.
    """

    id: int
    job: str
    user: str | None
    job_class: str | None = msgspec.field(name="class")
    priority: float
    state: MatchState
    submitted_at: float
    matched_at: float | None
    until: float | None
    ended_at: float | None
    rounds: int
    tier: str | None
    reason: str | None
    resources: dict[str, list[str]]


MATCHES = Listing(
    ("submitted",),
    steady=("submitted",),
    of_clusters=False,
    is_searched=False,
    filters=(
        Parameter("state", "only matches in this state", choice_of(STATES)),
        Parameter("user", "only this user's jobs", NAME),
    ),
)


class MatchList(ListPage):
    """Matches, newest first, with the numbers of queued and of held ones."""

    now: float
    matches: list[MatchEntry]
    queued: int
    held: int


class MatchDetail(Record):
    """One job: its match, and its document as sent."""

    match: MatchEntry
    document: dict[str, Any]


def match_list(connection: Connection, now: float, asked: Asked) -> MatchList:
    """Read one page of the matches."""
    state, user, is_over = asked.of["state"], asked.of["user"], (matches.c.state == "held") & (matches.c.until <= now)
    where: list[Any] = [] if user is None else [matches.c.user == user]
    if state == "expired":
        where.append((matches.c.state == "expired") | is_over)
    elif state is not None:
        where += [matches.c.state == state, ~is_over] if state == "held" else [matches.c.state == state]
    total = connection.scalar(select(func.count()).select_from(matches).where(*where)) or 0
    query, order = select(matches).where(*where), [(matches.c.id, asked.descending)]
    position, rows = page_of_rows(connection, query, order, asked, total)
    queued = connection.scalar(select(func.count()).select_from(matches).where(matches.c.state == "queued")) or 0
    held = connection.scalar(select(func.count()).select_from(matches).where(matches.c.state == "held", ~is_over)) or 0
    return MatchList(*position, now, _entries(connection, rows, now), queued, held)


def match_detail(connection: Connection, number: int, now: float) -> MatchDetail:
    """Read one match.

    Raises:
        ResourceError: there is none.
    """
    row = connection.execute(select(matches).where(matches.c.id == number)).one_or_none()
    if row is None:
        raise ResourceError(NO_MATCH.format(number), 404)
    return MatchDetail(_entries(connection, [row], now)[0], document_of(row.job))


def _entries(connection: Connection, rows: Sequence[Row[Any]], now: float) -> list[MatchEntry]:
    resources = held_resources(connection, [row.id for row in rows])
    return [_entry(row, resources[row.id], now) for row in rows]


def _entry(row: Row[Any], resources: dict[str, list[str]], now: float) -> MatchEntry:
    is_over = row.state == "held" and row.until is not None and row.until <= now
    over = {"state": "expired", "ended_at": row.until, "reason": "its hold ended"} if is_over else {}
    return MatchEntry.of_row(row, job=row.name, job_class=row._mapping["class"], resources=resources, **over)


SIZE_AT_MOST = 20_000
RESOURCES = Listing(
    ("name",),
    lowest_first=("name",),
    steady=("name",),
    rows_at_most=SIZE_AT_MOST,
    of_clusters=False,
    is_searched=False,
    filters=(
        Parameter("type", "only resources of this type", NAME),
        Parameter("size", "the same as `limit`, its earlier name", whole_number(SIZE_AT_MOST)),
    ),
)
HOLDS_LISTED = 100


class CapacityState(Record):
    """``used`` is ``held`` and the measured use that no held job explains; ``free`` is the rest of ``total``."""

    total: float
    used: float
    measured: float
    held: float
    free: float


class ResourceDetail(Record):
    """An instance. ``stale``: its state is too old for a new match, unless it is ``static``.

    ``holds`` has the first hundred to end; ``matches_running`` counts all.
    """

    name: str
    type: str
    attributes: dict[str, Any]
    capacities: dict[str, CapacityState]
    cost: float
    static: bool
    stale: bool
    age_s: float
    state_at: float
    owner_present: bool | None
    source: str
    policies: int
    matches_running: int
    holds: list[HeldPart]


class ResourceList(ListPage):
    """One page of resources in the order of their names, and the version of their state."""

    version: int
    now: float
    resources: list[ResourceDetail]


class Removed(Record):
    """A removed resource, and the number of its matches, which are lost."""

    name: str
    lost_matches: int


class ResourcePolicies(Record):
    """The policies, in the order in which they apply."""

    policies: Annotated[list[ResourcePolicy], Meta(max_length=MOST_POLICIES)]


class ChosenObjectives(Record):
    """The objectives, in order of importance, and the names of the built-in ones."""

    objectives: list[Any]
    shipped: list[str]


def resource_list(catalogue: Catalogue, now: float, asked: Asked) -> ResourceList:
    """Return one page of the resources of one type, or of all."""
    kind, asked = asked.of["type"], replace(asked, limit=asked.of["size"] or asked.limit)
    names = (name for name, number in catalogue.id_of.items() if kind in (None, catalogue.resources[number].type))
    position, shown = asked.page_of(names, lambda name: name, lambda _: ())
    return ResourceList(*position, catalogue.version, now, [resource_detail(catalogue, name, now) for name in shown])


def resource_detail(catalogue: Catalogue, name: str, now: float) -> ResourceDetail:
    """Return one resource.

    Raises:
        ResourceError: there is none of this name.
    """
    number = catalogue.id_of.get(name)
    if number is None:
        raise ResourceError(f"no resource {name[:60]!r}; it may have been removed", 404)
    stored, present = catalogue.resources[number], catalogue.resource(number, now)
    parts = catalogue.parts_of(number, now)
    capacities = {
        kind: CapacityState(
            total=capacity.total,
            used=capacity.used,
            measured=stored.capacities[kind][1],
            held=sum(part.amounts.get(kind, 0.0) for part in parts),
            free=capacity.free,
        )
        for kind, capacity in present.capacities.items()
    }
    same = {field: getattr(stored, field) for field in ("name", "type", "attributes", "cost", "state_at", "source")}
    return ResourceDetail(
        **same,
        capacities=capacities,
        static=bool(stored.is_static),  # SQLite has numbers
        stale=present.unavailable is not None,
        age_s=max(0.0, now - stored.state_at),
        owner_present=None if stored.owner_present is None else bool(stored.owner_present),
        policies=len(present.policies),
        matches_running=present.running,
        holds=parts[:HOLDS_LISTED],
    )
