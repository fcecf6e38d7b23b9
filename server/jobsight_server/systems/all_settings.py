"""The settings of all placing systems."""

from __future__ import annotations

from importlib import import_module

from jobsight_server.settings.declared import Section
from jobsight_server.systems.listed import SYSTEMS


def all_sections() -> tuple[type[Section], ...]:
    """Return their tables of the settings file, as types."""
    return tuple(import_module(f"{system.package}.settings").SETTINGS for system in SYSTEMS)
