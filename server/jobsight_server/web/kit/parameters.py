"""Parameters of routes: a name, a description and a JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobsight_server.storage.engine import LARGEST_ID

LATEST_TIME_S = 1e11
PAGES_AT_MOST = 10**6
NAME: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]+$"}
TIME: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": LATEST_TIME_S}
ID: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": LARGEST_ID}
PAGE: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": PAGES_AT_MOST}


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
