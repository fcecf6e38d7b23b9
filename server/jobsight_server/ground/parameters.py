"""Parameters of routes: a name, a description and a JSON Schema; those of time ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobsight_server.ground.amounts import DAY_S

LATEST_TIME_S = 1e11
PAGES_AT_MOST = 10**6
NAME: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]+$"}
TIME: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": LATEST_TIME_S}
DAY_OR_TIME = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}, TIME]}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; ``schema`` is JSON Schema."""

    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False


ITS_NAME = Parameter("name", "its name", NAME, required=True)
"""The name of a user, a job or a node. No path can carry every name: browsers resolve ``..``, proxies merge ``//``."""


def choice_of(values: Sequence[str]) -> dict[str, Any]:
    """Return the schema of one of ``values``."""
    return {"type": "string", "enum": list(values)}


def whole_number(at_most: int, least: int = 1) -> dict[str, Any]:
    """Return the schema of a whole number within these bounds."""
    return {"type": "integer", "minimum": least, "maximum": at_most}


def above_zero(at_most: float) -> dict[str, Any]:
    """Return the schema of a number above 0."""
    return {"type": "number", "exclusiveMinimum": 0, "maximum": at_most}


RANGES = {
    "1h": 3600.0,
    "6h": 6 * 3600.0,
    "1d": DAY_S,
    "7d": 7 * DAY_S,
    "30d": 30 * DAY_S,
    "90d": 90 * DAY_S,
    "1y": 365 * DAY_S,
}
"""Spans by their name in the address, in seconds."""

OF_DAYS = tuple(name for name, seconds in RANGES.items() if seconds >= DAY_S)
"""Spans for pages with figures of whole days."""


def range_parameters(default: str, names: tuple[str, ...] = tuple(RANGES)) -> tuple[Parameter, ...]:
    """Return the parameters of a route that answers for a time range."""
    return (
        Parameter("range", f"how far back from `until` (default {default})", choice_of(names)),
        Parameter("since", "begin, a date, a time or UTC epoch seconds, instead of `range`", DAY_OR_TIME),
        Parameter("until", "end; a date includes its day (default now)", DAY_OR_TIME),
    )


SPAN = range_parameters("all time")
"""The parameters of a route that answers for all time unless given a span."""
