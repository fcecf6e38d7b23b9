"""Limits of simulations; none of them is a site's choice."""

from __future__ import annotations

from typing import ClassVar

from jobsight_server.settings.declared import Section


class SimulationLimits(Section, frozen=True, kw_only=True):
    """Of the runs that the pages start; ``memory_bytes`` is of address space."""

    SECTION: ClassVar[str] = "simulations"

    kept: int = 20
    trace_bytes: int = 64 * 2**20
    memory_bytes: int = 4 * 2**30
    time_s: float = 3600.0


SETTINGS = SimulationLimits
