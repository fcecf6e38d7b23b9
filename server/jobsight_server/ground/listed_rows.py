"""A page of the rows of a query, by number or by cursor, in an order that the database makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, and_, or_, true

from jobsight_server.ground.listing import Asked, Position, no_cursor

Order = Sequence[tuple[ColumnElement[Any], bool]]
"""Columns, each with whether its largest is first; the last ones tell any two rows apart."""


def page_of_rows(
    connection: Connection, query: Select[*tuple[Any, ...]], order: Order, asked: Asked, total: int
) -> tuple[Position, Sequence[Row[*tuple[Any, ...]]]]:
    """Return the page of the ``total`` rows of ``query`` in this order.

    Raises:
        RefusedError: a cursor of another list.
    """
    keys = [column.label(f"key_{number}") for number, (column, _) in enumerate(order)]
    query = query.add_columns(*keys).order_by(*(_by(column, descending) for column, descending in order))
    if asked.after is not None:
        query = query.where(_after(order, asked.after))
    rows = connection.execute(query.limit(asked.limit + 1).offset((asked.page - 1) * asked.limit)).all()
    shown, has_next = rows[: asked.limit], asked.is_steady and len(rows) > asked.limit
    return asked.position(total, [shown[-1]._mapping[key.name] for key in keys] if has_next else None), shown


def _by(column: ColumnElement[Any], descending: bool) -> ColumnElement[Any]:
    ordered = column.desc() if descending else column.asc()
    if not isinstance(column, Column):
        return ordered.nulls_last()
    # Where PostgreSQL has them in its index; SQLite reads its own in two passes.
    return (ordered.nulls_first() if descending else ordered.nulls_last()) if column.nullable else ordered


def _after(order: Order, key: Sequence[Any]) -> ColumnElement[bool]:
    """Select the rows after the one of this key."""
    kinds = [str if column.type.python_type is str else int | float for column, _ in order]
    if len(key) != len(order) or not all(map(isinstance, key, kinds)):
        raise no_cursor()
    found: list[ColumnElement[bool]] = []
    for number, ((column, descending), value) in enumerate(zip(order, key, strict=True)):
        same = [each == of for (each, _), of in zip(order[:number], key, strict=False)]
        found.append(and_(true(), *same, column < value if descending else column > value))
    (first, is_descending), begin = order[0], key[0]
    return and_(first <= begin if is_descending else first >= begin, or_(*found))  # the first, to begin in an index
