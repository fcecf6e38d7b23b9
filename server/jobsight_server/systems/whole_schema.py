"""All tables: those of the core, and those of the placing systems."""

from __future__ import annotations

from importlib import import_module

from sqlalchemy import MetaData

from jobsight_server.storage.schema.metadata import metadata
from jobsight_server.systems.listed import SYSTEMS


def whole_schema() -> MetaData:
    """The schema that the migrations make."""
    for system in SYSTEMS:
        import_module(f"{system.package}.tables")
    return metadata
