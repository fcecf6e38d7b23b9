"""The placing systems that are installed, as the application, the command line and background work read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobsight_server.queries.node_states import Machines
    from jobsight_server.settings.declared import Section, Settings

GROUP = "jobsight.systems"


@dataclass(frozen=True, slots=True)
class PlacingSystem:
    """A package with the modules ``settings``, ``tables``, ``periodic`` and ``pages``, and its commands: name and help.

    ``rates_machines``: its module ``queries`` has ``machine_ranker(settings)``, a source of their reliability.
    """

    package: str
    commands: Mapping[str, str] = field(default_factory=dict)
    rates_machines: bool = False

    def module(self, name: str) -> ModuleType:
        return import_module(f"{self.package}.{name}")


@cache
def systems() -> tuple[PlacingSystem, ...]:
    """Return the systems that installed distributions name as entry points of ``GROUP``, by name."""
    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return tuple(entry.load() for entry in found)


def all_sections() -> tuple[type[Section], ...]:
    """Return the tables of all placing systems in the settings file, as types."""
    return tuple(system.module("settings").SETTINGS for system in systems())


def rated_machines(settings: Settings) -> Machines:
    """Return the reliability of machines by the first system that rates them; without one none is known."""
    from jobsight_server.queries.node_states import Machines  # loads slowly, and the command line lists systems

    rating: list[Any] = [system.module("queries") for system in systems() if system.rates_machines]
    machines: Machines = rating[0].machine_ranker(settings) if rating else Machines()
    return machines
