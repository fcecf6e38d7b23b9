"""The table of placing systems, which the application, the command line and background work read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobsight_server.settings.declared import Section


@dataclass(frozen=True, slots=True)
class PlacingSystem:
    """A package here, and its commands: name and line of help."""

    name: str
    commands: Mapping[str, str] = field(default_factory=dict)

    @property
    def package(self) -> str:
        return f"{__package__}.{self.name}"


SYSTEMS = (
    PlacingSystem("matching", {"match": "match the jobs of a file to its resources"}),
    PlacingSystem("offers"),
    PlacingSystem("ranking", {"ranks": "rank machines for a job, for HTCondor and Slurm too"}),
)


def all_sections() -> tuple[type[Section], ...]:
    """Return the tables of all placing systems in the settings file, as types."""
    return tuple(import_module(f"{system.package}.settings").SETTINGS for system in SYSTEMS)
