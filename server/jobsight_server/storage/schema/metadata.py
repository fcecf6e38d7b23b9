"""The collection of all tables, how their keys and indexes are named, indexes of some rows, and columns of one
type in a row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, MetaData, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def keys(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Return columns of the primary key."""
    return [Column(name, kind, primary_key=True) for name in names]


def required(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Return columns that are never NULL."""
    return [Column(name, kind, nullable=False) for name in names]


def optional(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Return columns that may be NULL."""
    return [Column(name, kind) for name in names]


def index_where(condition: str, *columns: str, name: str | None = None, unique: bool = False) -> Index:
    """Return an index of the rows that fulfil this condition.

    Not with ``postgresql_where``, which loads that dialect into every process: a sixth of a command's start.
    """
    return Index(name, *columns, unique=unique, sqlite_where=text(condition), info={"where": condition})


@compiles(CreateIndex, "postgresql")
def _create_index(create: CreateIndex, compiler: Any, **options: Any) -> str:
    where = create.element.info.get("where")
    statement: str = compiler.visit_create_index(create, **options)
    return statement if where is None else f"{statement} WHERE {where}"
