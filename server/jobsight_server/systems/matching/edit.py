"""Defines and removes resources, policies and objectives, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from jobsight_server.systems.matching.catalogue import ResourcePolicy
from jobsight_server.systems.matching.resource_state import ResourceBody, ResourceError, check_name, state_row
from jobsight_server.systems.matching.store_matches import begin_change, lose_matches, mark_definitions, mark_removal
from jobsight_server.systems.matching.tables import matching_state, resource_policies, resources

MOST_RESOURCES = 100_000


@contextmanager
def _defining(engine: Engine) -> Iterator[Connection]:
    with engine.begin() as connection:
        begin_change(connection)
        mark_definitions(connection)
        yield connection


def put_resource(engine: Engine, name: str, body: ResourceBody, now: float) -> None:
    """Define a resource, or replace its definition; its holds stay.

    Raises:
        ResourceError: invalid, or there are too many.
    """
    check_name(name, "name")
    with engine.begin() as connection:
        change = begin_change(connection)
        row = state_row(body, ({}, {})) | {
            "type": body.type,
            "cost": body.cost,
            "is_static": body.static,
            "state_at": now,
            "source": "defined",
            "version": change.version,
        }
        if connection.execute(update(resources).where(resources.c.name == name).values(row)).rowcount == 0:
            require_room(connection, 1)
            connection.execute(insert(resources).values(name=name, **row))


def delete_resource(engine: Engine, name: str, now: float) -> int:
    """Remove a resource, and lose its matches; return how many.

    Raises:
        ResourceError: there is none.
    """
    with engine.begin() as connection:
        change = begin_change(connection)
        number = connection.scalar(select(resources.c.id).where(resources.c.name == name))
        if number is None:
            raise ResourceError(f"no resource {name[:60]!r}", 404)
        mark_removal(connection)
        connection.execute(delete(resources).where(resources.c.id == number))
        return lose_matches(connection, number, name, now, change.version)


def put_policies(engine: Engine, policies: Sequence[ResourcePolicy]) -> None:
    """Replace all policies. Existing matches stay."""
    with _defining(engine) as connection:
        connection.execute(delete(resource_policies))
        rows = [{"id": n, "rule": msgspec.json.encode(policy).decode()} for n, policy in enumerate(policies, 1)]
        if rows:
            connection.execute(insert(resource_policies), rows)


def put_objectives(engine: Engine, objectives: Sequence[Any]) -> None:
    """Choose the objectives, in order of importance; the caller has checked them."""
    with _defining(engine) as connection:
        connection.execute(update(matching_state).values(objectives=msgspec.json.encode(objectives).decode()))


def require_room(connection: Connection, count: int) -> None:
    """Check that ``count`` more resources are allowed.

    Raises:
        ResourceError: they would be too many.
    """
    there = connection.scalar(select(func.count()).select_from(resources)) or 0
    if there + count > MOST_RESOURCES:
        raise ResourceError(f"there are {there} resources; at most {MOST_RESOURCES} are kept", 409)
