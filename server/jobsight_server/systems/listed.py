"""The table of placing systems, which the application, the command line and background work read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
