"""Defines and removes resources, types, policies and objectives, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from jobsight_server.systems.matching.catalogue import MOST_POLICIES, ResourcePolicy
from jobsight_server.systems.matching.resource_types import (
    SHIPPED,
    ResourceBody,
    ResourceError,
    ResourceType,
    check_name,
    check_type,
    state_row,
)
from jobsight_server.systems.matching.store_matches import begin_change, lose_matches, mark_definitions, mark_removal
from jobsight_server.systems.matching.tables import matching_state, resource_policies, resource_types, resources

MOST_RESOURCES = 100_000
MOST_TYPES = 1000


def types_in(connection: Connection) -> dict[str, ResourceType]:
    """Read every type, built-in ones included."""
    rows = connection.execute(select(resource_types.c.definition).order_by(resource_types.c.name)).scalars()
    return SHIPPED | {kind.name: kind for kind in (msgspec.json.decode(row, type=ResourceType) for row in rows)}


@contextmanager
def _defining(engine: Engine) -> Iterator[Connection]:
    with engine.begin() as connection:
        begin_change(connection)
        mark_definitions(connection)
        yield connection


def put_type(engine: Engine, kind: ResourceType) -> None:
    """Define a type, or replace its definition.

    Raises:
        ResourceError: invalid, or there are too many.
    """
    check_type(kind)
    definition = msgspec.json.encode(kind).decode()
    with _defining(engine) as connection:
        query = update(resource_types).where(resource_types.c.name == kind.name).values(definition=definition)
        if connection.execute(query).rowcount == 0:
            if len(types_in(connection)) >= MOST_TYPES:
                raise ResourceError(f"there are {MOST_TYPES} types already; delete one first", 409)
            connection.execute(insert(resource_types).values(name=kind.name, definition=definition))


def delete_type(engine: Engine, name: str) -> None:
    """Delete a type; a built-in one returns to its original definition.

    Raises:
        ResourceError: there is none, it is built in and unchanged, or there are resources of it.
    """
    with _defining(engine) as connection:
        if name not in SHIPPED:
            count = connection.scalar(select(func.count()).where(resources.c.type == name))
            if count:
                raise ResourceError(f"{count} resources are of type {name[:60]!r}; delete them first", 409)
        if connection.execute(delete(resource_types).where(resource_types.c.name == name)).rowcount == 0:
            if name in SHIPPED:
                raise ResourceError(f"type {name!r} is built in and unchanged; it stays", 409)
            raise ResourceError(f"no type {name[:60]!r}", 404)


def put_resource(engine: Engine, name: str, body: ResourceBody, now: float) -> None:
    """Define a resource, or replace its definition; its holds stay.

    Raises:
        ResourceError: invalid, of an unknown type, or of another type while a match holds it.
    """
    check_name(name, "name")
    with engine.begin() as connection:
        change = begin_change(connection)
        kind = known_type(types_in(connection), body.type)
        row = state_row(body, kind, ({}, {})) | {
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
    """Replace all policies. Existing matches stay.

    Raises:
        ResourceError: one is invalid, or there are too many.
    """
    if len(policies) > MOST_POLICIES:
        raise ResourceError(f"{len(policies)} policies; at most {MOST_POLICIES} are kept")
    with _defining(engine) as connection:
        connection.execute(delete(resource_policies))
        rows = [{"id": n, "rule": msgspec.json.encode(policy).decode()} for n, policy in enumerate(policies, 1)]
        if rows:
            connection.execute(insert(resource_policies), rows)


def put_objectives(engine: Engine, objectives: Sequence[Any]) -> None:
    """Choose the objectives, in order of importance; the caller has checked them."""
    with _defining(engine) as connection:
        connection.execute(update(matching_state).values(objectives=msgspec.json.encode(objectives).decode()))


def known_type(types: dict[str, ResourceType], name: str) -> ResourceType:
    """Look a type up.

    Raises:
        ResourceError: there is no such type.
    """
    if name not in types:
        shown = ", ".join(sorted(types)[:20])
        raise ResourceError(
            f"type = {name[:60]!r} is unknown; known: {shown}. PUT /api/v1/resource-types/NAME adds one"
        )
    return types[name]


def require_room(connection: Connection, count: int) -> None:
    """Check that ``count`` more resources are allowed.

    Raises:
        ResourceError: they would be too many.
    """
    there = connection.scalar(select(func.count()).select_from(resources)) or 0
    if there + count > MOST_RESOURCES:
        raise ResourceError(f"there are {there} resources; at most {MOST_RESOURCES} are kept", 409)
