"""Who holds how much of a capacity, as segments of a bar."""

from __future__ import annotations

from typing import NamedTuple

from jobsight_server.systems.matching.queries.resources import ResourceDetail

WIDTH = 100.0
COLOURS = 8


class HeldShare(NamedTuple):
    """A part of the bar from ``x`` on; ``kind`` is its style."""

    x: float
    width: float
    kind: str
    title: str


def holding_bar(resource: ResourceDetail, capacity: str) -> list[HeldShare]:
    """What each match holds, then the measured use that no match explains; the rest of the bar is free."""
    state = resource.capacities[capacity]
    if state.total <= 0:
        return []
    found, x = [], 0.0
    parts = [(hold.amounts.get(capacity, 0.0), f"line-{hold.match % COLOURS}", hold.job) for hold in resource.holds]
    parts.append((max(0.0, state.used - state.held), "others", "used by others"))
    for amount, kind, title in parts:
        width = min(amount / state.total * WIDTH, WIDTH - x)
        if width > 0:
            found.append(HeldShare(x, width, kind, f"{title}: {amount:g}"))
            x += width
    return found
