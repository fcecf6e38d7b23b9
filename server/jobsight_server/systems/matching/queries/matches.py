"""Matches and queued jobs: what they hold, until when, or why they wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import Connection, Row, func, select

from jobsight_server.record import PAGE_SIZE, Page, Record, pages_of
from jobsight_server.systems.matching.submissions import EligibleResources, document_of
from jobsight_server.systems.matching.tables import holds, matches

MatchState = Literal["queued", "held", "released", "expired", "lost", "cancelled"]
STATES: tuple[str, ...] = get_args(MatchState)


class MatchEntry(Record):
    """A job that waits for a match, holds one, or held one.

    ``until``: when the hold ends by itself. ``rounds``: in how many it was passed over; ``tier`` and ``reason`` say why
    in the last one, or why its match was lost.
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


class MatchList(Page):
    """Newest first, with how many are queued and how many held."""

    now: float
    matches: list[MatchEntry]
    queued: int
    held: int


class MatchDetail(Record):
    """One job: its match, its document as sent, and E(j, d), the resources that each dependency may use now."""

    match: MatchEntry
    document: dict[str, Any]
    eligible: list[EligibleResources] | None


def match_list(
    connection: Connection, now: float, state: str | None = None, user: str | None = None, page: int = 1
) -> MatchList:
    """One page of all matches, or of those in ``state`` or of ``user``."""
    is_over = (matches.c.state == "held") & (matches.c.until <= now)
    where: list[Any] = [] if user is None else [matches.c.user == user]
    if state == "expired":
        where.append((matches.c.state == "expired") | is_over)
    elif state is not None:
        where += [matches.c.state == state, ~is_over] if state == "held" else [matches.c.state == state]
    total = connection.scalar(select(func.count()).select_from(matches).where(*where)) or 0
    query = select(matches).where(*where).order_by(matches.c.id.desc()).limit(PAGE_SIZE).offset((page - 1) * PAGE_SIZE)
    rows = connection.execute(query).all()
    queued = connection.scalar(select(func.count()).select_from(matches).where(matches.c.state == "queued")) or 0
    held = connection.scalar(select(func.count()).select_from(matches).where(matches.c.state == "held", ~is_over)) or 0
    entries = _entries(connection, rows, now)
    return MatchList(page, pages_of(total), total, now, entries, queued, held)


def match_entry(connection: Connection, number: int, now: float) -> tuple[MatchEntry, dict[str, Any]] | None:
    """One match and its job's document; None if there is none."""
    row = connection.execute(select(matches).where(matches.c.id == number)).one_or_none()
    if row is None:
        return None
    return _entries(connection, [row], now)[0], document_of(row.job)


def _entries(connection: Connection, rows: Sequence[Row[Any]], now: float) -> list[MatchEntry]:
    resources: dict[int, dict[str, list[str]]] = {row.id: {} for row in rows}
    if rows:
        query = select(holds.c.match_id, holds.c.dependency, holds.c.resource).where(holds.c.match_id.in_(resources))
        for number, dependency, name in connection.execute(query.order_by(holds.c.dependency, holds.c.resource)):
            resources[number].setdefault(dependency, []).append(name)
    return [_entry(row, resources[row.id], now) for row in rows]


def _entry(row: Row[Any], resources: dict[str, list[str]], now: float) -> MatchEntry:
    is_over = row.state == "held" and row.until is not None and row.until <= now
    return MatchEntry(
        id=row.id,
        job=row.name,
        user=row.user,
        job_class=row._mapping["class"],
        priority=row.priority,
        state="expired" if is_over else row.state,
        submitted_at=row.submitted_at,
        matched_at=row.matched_at,
        until=row.until,
        ended_at=row.until if is_over else row.ended_at,
        rounds=row.rounds,
        tier=row.tier,
        reason="its hold ended" if is_over else row.reason,
        resources=resources,
    )
