"""The collection of all tables, how their keys and indexes are named, and columns of one type in a row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, MetaData
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
